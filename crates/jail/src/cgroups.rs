//! Control groups: v1, v2 or both side by side, found, tried and used by their files alone.

mod freezer;
mod scope;
mod unified;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::attempt;
use crate::zygote::{During as _, Trouble};
use mutation::{Mutation, mutated};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat};

pub(crate) use freezer::Frozen;

/// How long groups of processes that are dying may take to become empty.
const GRACE: Duration = Duration::from_millis(1500);
/// What the name of a group begins with that only tries whether groups can be made.
const TRIAL: &str = "ringfence-probe-";
/// How long a trial takes at the very most.
const TRIAL_LIFE: Duration = Duration::from_secs(10);

/// The controllers that a sandbox's limits need.
pub const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Which interface a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    One,
    /// The unified hierarchy.
    Two,
}

/// One hierarchy that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// The directory of this process' own group.
    pub directory: PathBuf,
    /// Where the hierarchy is mounted.
    pub mount_point: PathBuf,
    /// v1: its controllers. v2: empty; they are asked for in the tree.
    pub controllers: Vec<String>,
    /// Which interface it has.
    pub version: Version,
}

/// The hierarchies of this process.
pub fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?, &fs::read_to_string("/proc/self/cgroup")?))
}

/// The hierarchies of another process, whose groups are below ours or beside them.
pub fn hierarchies_of(pid: u32) -> io::Result<Vec<Hierarchy>> {
    Ok(parse(&fs::read_to_string("/proc/self/mountinfo")?, &fs::read_to_string(format!("/proc/{pid}/cgroup"))?))
}

/// From mountinfo and /proc/self/cgroup (see cgroups(7) and proc(5)).
fn parse(mounts: &str, groups: &str) -> Vec<Hierarchy> {
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
        let mut own = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let matching = own.find(|(controllers, _)| match version {
            Version::One => {
                !controllers.is_empty() && controllers.split(',').any(|controller| names.contains(&controller))
            }
            Version::Two => controllers.is_empty(),
        });
        let Some((controllers, path)) = matching else { continue };
        // A path is relative to the hierarchy's root; a mount may show only a part of it.
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
        let directory = Path::new(mount_point).join(below.trim_start_matches('/'));
        let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        found.push(Hierarchy { directory, mount_point: PathBuf::from(*mount_point), controllers, version });
    }
    found
}

impl Hierarchy {
    /// In v1: where a group with this controller can be made, which is below our own. Found by making one, setting a limit,
    /// moving a process in where that is in doubt, and removing it.
    fn find(&self, controller: &str) -> Option<PathBuf> {
        let has = self.controllers.iter().any(|own| own == controller);
        (has && self.try_in(&self.directory, controller).is_ok()).then(|| self.directory.clone())
    }

    /// Every directory in which groups of ours can be: our own, and those above it.
    pub fn places(&self) -> Vec<PathBuf> {
        let above = self.directory.ancestors().take_while(|path| path.starts_with(&self.mount_point));
        above.map(Path::to_owned).collect()
    }

    fn try_in(&self, directory: &Path, controller: &str) -> io::Result<()> {
        remove_stale_trials(directory);
        let group = directory.join(format!("{TRIAL}{controller}-{}", std::process::id()));
        fs::create_dir(&group)?;
        let generous = Limits { memory: 1 << 30, pids: 1000, cpu_millis: 1000 };
        let (file, value) = generous.settings(self.version, controller).into_iter().next().unwrap_or_default();
        // A limit's file is there only where the controller is. Creating it would answer "permission denied".
        let limited = if group.join(file).exists() {
            fs::write(group.join(file), value)
        } else {
            Err(io::Error::from(io::ErrorKind::NotFound))
        };
        // Root may move any process; a plain user only within what was delegated, which no file tells.
        let result = limited.and_then(|()| {
            if rustix::process::geteuid().is_root() {
                return Ok(());
            }
            attempt::with_idle_child(|pid| fs::write(group.join("cgroup.procs"), pid.to_string()))?
        });
        fs::remove_dir(&group)?;
        result
    }
}

/// What a group may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Bytes of memory; swap is off.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
}

impl Limits {
    /// The files to write, in order, for one controller. The first must succeed; later ones may not exist.
    fn settings(&self, version: Version, controller: &str) -> Vec<(&'static str, String)> {
        const PERIOD: u64 = 100_000;
        let quota = (self.cpu_millis * PERIOD / 1000).max(1000);
        match (version, controller) {
            (Version::One, "memory") => vec![
                ("memory.limit_in_bytes", self.memory.to_string()),
                ("memory.memsw.limit_in_bytes", self.memory.to_string()),
                ("memory.swappiness", "0".into()),
                // Buffers of sockets are counted apart in v1.
                ("memory.kmem.tcp.limit_in_bytes", (self.memory / 4).to_string()),
            ],
            (Version::Two, "memory") => vec![("memory.max", self.memory.to_string()), ("memory.swap.max", "0".into())],
            (_, "pids") => vec![("pids.max", self.pids.to_string())],
            (Version::One, _) => vec![("cpu.cfs_quota_us", quota.to_string())],
            (Version::Two, _) => vec![("cpu.max", format!("{quota} {PERIOD}"))],
        }
    }
}

/// Looks whether the groups that a process is in hold these limits, by what the kernel says of both. `memory` must be a multiple of
/// a page.
pub fn holds(pid: u32, limits: &Limits) -> io::Result<()> {
    let found = hierarchies_of(pid)?;
    for controller in CONTROLLERS {
        let first = found.iter().find(|one| one.controllers.iter().any(|own| own == controller));
        let hierarchy = first.or_else(|| found.iter().find(|one| one.version == Version::Two));
        let Some(hierarchy) = hierarchy else { return Err(rustix::io::Errno::NODEV.into()) };
        let (file, wanted) = limits.settings(hierarchy.version, controller).into_iter().next().unwrap_or_default();
        let path = hierarchy.directory.join(file);
        let read = fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        if read.trim() != wanted {
            return Err(io::Error::other(format!("{} is {}, not {wanted}", path.display(), read.trim())));
        }
    }
    Ok(())
}

/// The groups in which a run's sandboxes get theirs, held by descriptors so that no path is needed later.
#[derive(Debug)]
pub(crate) struct Parents {
    parents: Vec<(OwnedFd, Version, Vec<&'static str>)>,
    /// Where groups for freezing can be made.
    freezers: Vec<(OwnedFd, Version)>,
}

/// The groups of one sandbox.
///
/// Its first process is born in the v2 group and enters the v1 groups itself. Moving another process takes a lock of the
/// whole kernel that, after some idle time, takes 5 to 10 ms; moving one's own only thread takes none.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    born_in: Option<OwnedFd>,
    doors: Vec<OwnedFd>,
    /// Whether there may be a group for freezing beside it.
    lent: bool,
}

impl Parents {
    /// Finds where groups with all controllers can be made: v1 by controller, the rest in one directory of v2. May move this process
    /// to another group of v2. An error if one controller is missing: limits that hold in part would be worse than limits that
    /// are known not to hold.
    pub(crate) fn find() -> Result<Self, Trouble> {
        let found = hierarchies().during("finding the control groups")?;
        let mut parents: Vec<(PathBuf, Version, Vec<&'static str>)> = Vec::new();
        let mut unified = Vec::new();
        let first: Vec<&Hierarchy> = found.iter().filter(|one| one.version == Version::One).collect();
        for controller in CONTROLLERS {
            let Some(directory) = first.iter().find_map(|one| one.find(controller)) else {
                unified.push(controller);
                continue;
            };
            match parents.iter_mut().find(|(known, ..)| *known == directory) {
                Some((_, _, controllers)) => controllers.push(controller),
                None => parents.push((directory, Version::One, vec![controller])),
            }
        }
        if !unified.is_empty() {
            let hierarchy = found.iter().find(|one| one.version == Version::Two);
            let absent = rustix::io::Errno::OPNOTSUPP;
            let hierarchy = hierarchy.ok_or(absent).during("finding a hierarchy with memory, pids and cpu")?;
            let place = unified::place(hierarchy, &unified)?;
            for controller in &unified {
                hierarchy.try_in(&place, controller).during("trying a control group's limits")?;
            }
            parents.push((place, Version::Two, unified));
        }
        let opened = parents.into_iter().map(|(directory, version, controllers)| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok((open(&directory, flags, Mode::empty())?, version, controllers))
        });
        let parents = opened.collect::<io::Result<_>>().during("opening the control groups")?;
        // Looked at again: this process may be in another group by now.
        let found = hierarchies().during("finding the control groups")?;
        Ok(Self { parents, freezers: freezer::places(&found) })
    }

    /// Where they are, for people.
    pub(crate) fn describe(&self) -> String {
        let versions: std::collections::BTreeSet<&str> = self
            .parents
            .iter()
            .map(|(_, version, _)| match version {
                Version::One => "v1",
                Version::Two => "v2",
            })
            .collect();
        versions.into_iter().collect::<Vec<_>>().join(" and ")
    }

    /// Makes the groups of one sandbox, with their limits.
    pub(crate) fn make(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let mut group = Group { name: name.to_owned(), born_in: None, doors: Vec::new(), lent: false };
        for (parent, version, controllers) in &self.parents {
            let made = mkdirat(parent, name, Mode::from_raw_mode(0o755));
            let written = made.map_err(io::Error::from).and_then(|()| {
                for controller in controllers.iter().filter(|controller| !is_unbounded(controller)) {
                    for (index, (file, value)) in limits.settings(*version, controller).iter().enumerate() {
                        let result = set(parent, &format!("{name}/{file}"), value, index == 0);
                        // The first setting is the limit itself, and swap would be a way around it; the rest depends on
                        // how the kernel was built.
                        let needed = |file: &str| (file.contains("sw.") || file.contains("swap.")) && has_swap();
                        if result.is_err() && (index == 0 || needed(file)) {
                            result?;
                        }
                    }
                }
                match version {
                    Version::One => {
                        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                        group.doors.push(openat(parent, format!("{name}/tasks"), flags, Mode::empty())?);
                    }
                    Version::Two => {
                        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                        group.born_in = Some(openat(parent, name, flags, Mode::empty())?);
                    }
                }
                Ok(())
            });
            if let Err(error) = written {
                self.remove(&group);
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Whether the kernel has killed processes of a group for want of memory: its own, or the whole host's.
    pub(crate) fn has_killed_for_memory(&self, group: &Group) -> bool {
        let Some((parent, version, _)) = self.parents.iter().find(|(_, _, held)| held.contains(&"memory")) else {
            return false;
        };
        let file = match version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = openat(parent, format!("{}/{file}", group.name), flags, Mode::empty());
        let Ok(text) = opened.map_err(io::Error::from).and_then(|file| io::read_to_string(File::from(file))) else {
            return false;
        };
        killed_for_memory(&text) > 0
    }

    /// Removes the groups of sandboxes whose processes are dead. A group is empty a moment after its last process was
    /// reaped, so this waits for that moment.
    pub(crate) fn remove_all(&self, groups: &[&Group]) {
        let deadline = Instant::now() + GRACE;
        let mut left = groups.to_vec();
        loop {
            left.retain(|group| !self.remove(group));
            if left.is_empty() || Instant::now() > deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Removes a sandbox's groups; true when nothing is left of them.
    fn remove(&self, group: &Group) -> bool {
        let gone = |parent: &OwnedFd| match unlinkat(parent, group.name.as_str(), AtFlags::REMOVEDIR) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => true,
            Err(_) => false,
        };
        let lent = self.freezers.iter().filter(|_| group.lent).map(|(parent, _)| parent);
        // All are tried, also where one stays.
        let remaining = self.parents.iter().map(|(parent, ..)| parent).chain(lent).filter(|parent| !gone(parent));
        remaining.count() == 0
    }
}

impl Group {
    /// Where the sandbox's first process is to be born.
    pub(crate) fn born_in(&self) -> Option<BorrowedFd<'_>> {
        self.born_in.as_ref().map(AsFd::as_fd)
    }

    /// Whoever gave birth needs the doors no more.
    pub(crate) fn close_doors(&mut self) {
        self.doors.clear();
        self.born_in = None;
    }

    /// The v1 groups: whoever writes "0" there is in them.
    pub(crate) fn doors(&self) -> &[OwnedFd] {
        &self.doors
    }
}

/// How many processes the kernel has killed, by `memory.oom_control` (v1, since Linux 4.13) or `memory.events` (v2).
fn killed_for_memory(text: &str) -> u64 {
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Removes the trials of processes that were killed in the middle of one.
fn remove_stale_trials(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(TRIAL)).and_then(|rest| rest.rsplit_once('-'));
        let dead = owner.is_some_and(|(_, pid)| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists());
        // A process of another pid namespace looks dead to us; a trial takes milliseconds.
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|made| made.elapsed());
        if dead && matches!(age, Ok(Ok(age)) if age > TRIAL_LIFE) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether tests take this limit away.
fn is_unbounded(controller: &str) -> bool {
    (controller == "memory" && mutated(Mutation::NoMemoryLimit))
        || (controller == "pids" && mutated(Mutation::NoPidsLimit))
}

/// Whether this host swaps at all; the list has a line of titles.
fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

/// Writes a setting. A limit is read back: what the kernel has in its place may be no more than was asked for, but for the rest of a
/// page.
fn set(parent: &OwnedFd, file: &str, value: &str, is_limit: bool) -> io::Result<()> {
    const PAGE: u64 = 4096;
    write_at(parent, file, value)?;
    if !is_limit {
        return Ok(());
    }
    let opened = openat(parent, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let text = io::read_to_string(File::from(opened))?;
    let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    match (number(&text), number(value)) {
        (Some(held), Some(wanted)) if held <= wanted + PAGE => Ok(()),
        _ => Err(rustix::io::Errno::RANGE.into()),
    }
}

fn write_at(directory: &OwnedFd, file: &str, value: &str) -> io::Result<()> {
    let file = openat(directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, value.as_bytes())?;
    Ok(())
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
        let found = parse(HYBRID, "3:memory:/a/b\n2:cpu:/\n0::/c\n");
        let expected =
            [("cpu", "/sys/fs/cgroup/cpu/"), ("memory", "/sys/fs/cgroup/memory/a/b"), ("", "/sys/fs/cgroup/unified/c")];
        let found: Vec<(String, String)> =
            found.iter().map(|h| (h.controllers.join(","), h.directory.display().to_string())).collect();
        assert_eq!(found, expected.map(|(c, d)| (c.to_owned(), d.to_owned())));
    }

    #[test]
    fn places_are_the_ancestors_up_to_the_mount() {
        let found = parse("30 25 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/user.slice/session.scope\n");
        let candidates: Vec<String> = found[0].places().iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            candidates,
            ["/sys/fs/cgroup/user.slice/session.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
    }

    #[test]
    fn a_mount_of_a_part_of_the_tree_is_followed() {
        let found = parse("30 25 0:25 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/docker/x/inner\n");
        assert_eq!(found[0].directory, Path::new("/sys/fs/cgroup/inner"));
    }

    /// Where v2 has no controllers, its groups still show that a process is born in one.
    #[test]
    fn a_process_is_born_in_its_v2_group() {
        let Some(unified) = hierarchies().unwrap().into_iter().find(|one| one.version == Version::Two) else { return };
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let name = format!("{TRIAL}birth-{}", std::process::id());
        let path = unified.mount_point.join(&name);
        fs::create_dir(&path).unwrap();
        let group = open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        // SAFETY: the child does nothing but wait, which needs no other thread.
        let side = unsafe { crate::syscalls::clone_into(0, Some(group.as_fd())) };
        let crate::syscalls::Side::Parent { pid, pidfd } = side.unwrap() else {
            std::thread::sleep(Duration::from_secs(10));
            crate::syscalls::exit_now(0)
        };
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
        rustix::process::waitid(rustix::process::WaitId::PidFd(pidfd.as_fd()), rustix::process::WaitIdOptions::EXITED)
            .unwrap();
        let removed = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            fs::remove_dir(&path).is_ok()
        });
        assert!(groups.lines().any(|line| line.starts_with("0::") && line.ends_with(&name)), "{groups}");
        assert!(removed);
    }
}
