//! What a container of a Compose file is like: mounts, memory, limits.

use std::fmt::Write as _;

use compose::{Access, Dropped, MountSource, Tmpfs};
use docker::Volume;
use profile::Unmet;
use sandbox::{Mount, StartError};

use super::from_compose::Home;
use super::wish::Shape;

/// What a container of this service is like. What is left out goes to `notes`, what cannot be had to `unmet`.
pub(super) fn of(service: &compose::Service, home: &Home, notes: &mut Vec<String>, unmet: &mut Vec<Unmet>) -> Shape {
    let amount = |limit: &Option<profile::Located<u64>>| limit.as_ref().map(|limit| limit.value);
    let mut note = |key: &str, why: &str| notes.push(format!("service `{}`: `{key}` is left out: {why}", service.name));
    let mut shape = Shape {
        limits: service.limits.clone(),
        memory_kept: amount(&service.limits.memory_kept),
        shared_memory: amount(&service.limits.shared_memory),
        read_only: service.read_only,
        no_new_privileges: service.no_new_privileges,
        hostname: service.hostname.as_ref().map(|name| name.value.clone()),
        hosts: service.extra_hosts.iter().map(|host| format!("{}:{}", host.value.0, host.value.1)).collect(),
        ..Shape::default()
    };
    if !shape.hosts.is_empty() {
        note("extra_hosts", "the names are known, and their addresses are reached only where the profile lists them");
    }
    if service.limits.memory_and_swap.is_some() {
        note("memswap_limit", "sandboxes have no swap at all");
    }
    if service.stop_signal.is_some() || service.stop_grace_period.is_some() {
        note("stop_signal", "services of a sample end all at once, with their sandboxes");
    }
    let kept: Vec<&str> = match &service.dropped {
        Dropped::All => docker::KEPT.to_vec(),
        Dropped::These(named) => {
            named.iter().map(|one| one.value.name()).filter(|name| docker::KEPT.contains(name)).collect()
        }
    };
    if !kept.is_empty() {
        note("cap_drop", &format!("{} are what the guest inside works with; all others are gone", kept.join(", ")));
    }
    for (name, limit) in &service.ulimits {
        if matches!(name.as_str(), "core" | "nofile") {
            note("ulimits", &format!("`{name}` is the sandbox's own"));
            continue;
        }
        let number = |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        shape.ulimits.insert(name.clone(), (number(limit.value.soft), number(limit.value.hard)));
    }
    for mount in &service.mounts {
        let (target, writable) = (mount.value.target.as_str().to_owned(), mount.value.access == Access::ReadWrite);
        let volume = |name, subpath, filled| Volume { name, target: target.clone(), writable, subpath, filled };
        match &mount.value.source {
            MountSource::Volume { name, subpath, filled } => {
                shape.volumes.push(volume(Some(name.as_str().to_owned()), subpath.clone(), *filled));
            }
            MountSource::Unnamed => shape.volumes.push(volume(None, None, true)),
            MountSource::Tmpfs(tmpfs) => {
                shape.tmpfs.insert(target, options(tmpfs, writable));
            }
            MountSource::Bind(path) => match bind(home, path.as_path(), &target) {
                Ok(mount) => shape.mounts.push(mount),
                Err(why) => unmet.push(home.unmet(service, "volumes", &format!("`{path}` cannot be mounted: {why}"))),
            },
        }
    }
    shape
}

/// A file or directory beside the Compose file, to be read and no more.
fn bind(home: &Home, path: &std::path::Path, target: &str) -> Result<Mount, String> {
    let told = |error: StartError| match error {
        StartError::MountSource { source, .. } => source.to_string(),
        error => error.to_string(),
    };
    let found = home.find_without_links(path).map_err(told)?;
    let mount = Mount { source: found.path().to_owned(), target: target.to_owned(), writable: false };
    // Keys are looked for when it is known what the operator allows.
    sandbox::open_mounts(std::slice::from_ref(&mount)).map_err(told)?;
    Ok(mount)
}

/// As mount(8) has them.
fn options(tmpfs: &Tmpfs, writable: bool) -> String {
    let mut text = String::from(if writable { "rw,nosuid,nodev" } else { "ro,nosuid,nodev" });
    text.push_str(if tmpfs.exec.unwrap_or(false) { ",exec" } else { ",noexec" });
    // Writing to a text cannot fail.
    if let Some(size) = tmpfs.size {
        let _ = write!(text, ",size={size}");
    }
    if let Some(mode) = tmpfs.mode {
        let _ = write!(text, ",mode={mode:o}");
    }
    if let Some(uid) = tmpfs.uid {
        let _ = write!(text, ",uid={uid}");
    }
    if let Some(gid) = tmpfs.gid {
        let _ = write!(text, ",gid={gid}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_as_a_directory_is_hard_unless_it_says_otherwise() {
        assert_eq!(options(&Tmpfs::default(), true), "rw,nosuid,nodev,noexec");
        let asked = Tmpfs { size: Some(4096), mode: Some(0o1777), uid: Some(7), gid: Some(8), exec: Some(true) };
        assert_eq!(options(&asked, false), "ro,nosuid,nodev,exec,size=4096,mode=1777,uid=7,gid=8");
    }
}
