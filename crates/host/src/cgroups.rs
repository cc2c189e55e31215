//! Control groups: v1, v2 or both, and whether we may make one with the limits that a sandbox needs.

use std::fs;
use std::path::{Path, PathBuf};

use profile::Finding;

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
const FIX: &str = "run as root, or with a delegated group: systemd-run --user --scope -p Delegate=yes -- …";

/// One hierarchy that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    /// The directory of this process' own group.
    directory: PathBuf,
    /// v1: its controllers. v2: empty; they are asked for in the tree.
    controllers: Vec<String>,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

pub(crate) fn limits() -> Finding {
    let (Ok(mounts), Ok(groups)) =
        (fs::read_to_string("/proc/self/mountinfo"), fs::read_to_string("/proc/self/cgroup"))
    else {
        return Finding::unknown("/proc is not readable");
    };
    let hierarchies = hierarchies(&mounts, &groups);
    let works = |controller: &str| hierarchies.iter().any(|hierarchy| try_controller(hierarchy, controller).is_ok());
    let missing: Vec<&str> = CONTROLLERS.into_iter().filter(|controller| !works(controller)).collect();
    let layout = layout(&hierarchies);
    if missing.is_empty() {
        Finding::works(format!("memory, pids and cpu ({layout})"))
    } else {
        Finding::missing(format!("no group with {} can be made ({layout})", missing.join(", ")), FIX)
    }
}

fn layout(hierarchies: &[Hierarchy]) -> &'static str {
    let has = |version| hierarchies.iter().any(|hierarchy| hierarchy.version == version);
    match (has(Version::One), has(Version::Two)) {
        (true, true) => "hybrid v1 and v2",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "not mounted",
    }
}

/// The hierarchies of this process, from mountinfo and /proc/self/cgroup (see cgroups(7) and proc(5)).
fn hierarchies(mounts: &str, groups: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let (Some(root), Some(mount_point), Some(kind), Some(options)) =
            (left.get(3), left.get(4), right.first(), right.get(2))
        else {
            continue;
        };
        let version = match *kind {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let names: Vec<&str> = options.split(',').collect();
        let own = groups.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        });
        let matching = own.into_iter().find(|(controllers, _)| match version {
            Version::One => {
                !controllers.is_empty() && controllers.split(',').any(|controller| names.contains(&controller))
            }
            Version::Two => controllers.is_empty(),
        });
        let Some((controllers, path)) = matching else { continue };
        // A path is relative to the hierarchy's root, a mount may show only a part of it.
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
        let directory = Path::new(mount_point).join(below.trim_start_matches('/'));
        let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        found.push(Hierarchy { directory, controllers, version });
    }
    found
}

/// Makes a group, sets a generous limit in it and removes it again.
fn try_controller(hierarchy: &Hierarchy, controller: &str) -> std::io::Result<()> {
    let absent = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let (file, value) = match (hierarchy.version, controller) {
        (Version::One, "memory") => ("memory.limit_in_bytes", "1073741824"),
        (Version::Two, "memory") => ("memory.max", "1073741824"),
        (_, "pids") => ("pids.max", "1000"),
        (Version::One, _) => ("cpu.cfs_quota_us", "100000"),
        (Version::Two, _) => ("cpu.max", "100000 100000"),
    };
    if hierarchy.version == Version::One && !hierarchy.controllers.iter().any(|own| own == controller) {
        return Err(absent());
    }
    let group = hierarchy.directory.join(format!("ringfence-probe-{controller}-{}", std::process::id()));
    fs::create_dir(&group)?;
    // A limit's file is there only where the controller is. Writing with O_CREAT would answer "permission denied".
    let result = if group.join(file).exists() { fs::write(group.join(file), value) } else { Err(absent()) };
    fs::remove_dir(&group)?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
25 24 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
garbage
29 25 - cgroup
";

    #[test]
    fn hybrid_hierarchies_are_found() {
        let found = hierarchies(HYBRID, "3:memory:/a/b\n2:cpu:/\n0::/c\n");
        let expected =
            [("cpu", "/sys/fs/cgroup/cpu/"), ("memory", "/sys/fs/cgroup/memory/a/b"), ("", "/sys/fs/cgroup/unified/c")];
        let found: Vec<(String, String)> =
            found.iter().map(|h| (h.controllers.join(","), h.directory.display().to_string())).collect();
        assert_eq!(found, expected.map(|(c, d)| (c.to_owned(), d.to_owned())));
    }

    #[test]
    fn a_mount_of_a_part_of_the_tree_is_followed() {
        let found = hierarchies("30 25 0:25 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/docker/x/inner\n");
        assert_eq!(found[0].directory, Path::new("/sys/fs/cgroup/inner"));
    }

    #[test]
    fn without_hierarchies_nothing_is_claimed() {
        assert_eq!(layout(&hierarchies("", "0::/\n")), "not mounted");
    }
}
