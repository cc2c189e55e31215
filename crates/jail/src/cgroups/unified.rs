//! Where groups are made in the unified hierarchy (v2): in one directory for all controllers, in a subtree that no manager
//! but us uses.
//!
//! That is, in this order: the unit that this process is in, where systemd delegates it (`Delegate=yes`); a scope that systemd
//! makes for this process; and without systemd, in a container for one, the nearest group that passes the controllers on.
//! Beside systemd's own units nothing is made: it would enable and disable controllers there as it likes.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Hierarchy, hierarchies, scope};
use crate::zygote::{During as _, Trouble};

/// The child of a delegated group that its processes are moved to: a group that passes controllers on has none itself.
const LEAF: &str = "ringfence-runners";
/// Processes may fork while they are moved.
const PASSES: usize = 100;

/// A directory in which groups with all these controllers can be made. May move this process to another group.
pub(super) fn place(hierarchy: &Hierarchy, controllers: &[&str]) -> Result<PathBuf, Trouble> {
    let own = &hierarchy.directory;
    if let Some(unit) = delegated(own, &hierarchy.mount_point)
        && pass_on(&unit, controllers).is_ok()
    {
        return Ok(unit);
    }
    if scope::has_manager() {
        scope::enter().during("asking systemd for a delegated scope")?;
        let found = hierarchies().during("finding the control groups")?;
        let again = found.into_iter().find(|one| one.version == hierarchy.version);
        let scope = again.ok_or(Errno::NOENT).during("finding the scope")?.directory;
        pass_on(&scope, controllers).during("passing controllers on in the scope")?;
        return Ok(scope);
    }
    let passes = |directory: &&PathBuf| has_all(directory, "cgroup.subtree_control", controllers);
    let above = hierarchy.places();
    if let Some(found) = above.iter().find(passes) {
        return Ok(found.clone());
    }
    pass_on(own, controllers).during("passing controllers on in this process's control group")?;
    Ok(own.clone())
}

/// The delegated unit that a group is, or is the leaf of.
fn delegated(own: &Path, mount_point: &Path) -> Option<PathBuf> {
    let unit = if own.file_name() == Some(OsStr::new(LEAF)) { own.parent()? } else { own };
    // A user's manager is a delegated unit too, and what is in it is that manager's.
    let of_manager = unit.file_name().is_some_and(|name| name.to_string_lossy().starts_with("user@"));
    let is_ours = unit != mount_point && !of_manager && (is_marked(unit) || is_border(unit));
    is_ours.then(|| unit.to_owned())
}

/// The mark of systemd; plain users can read it since version 251.
fn is_marked(unit: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0; 1];
        rustix::fs::getxattr(unit, *name, &mut value).is_ok_and(|length| length == 1 && value[0] == b'1')
    })
}

/// Whether a directory is this user's, but not the one above it: given to the user by a manager of the system.
fn is_border(unit: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let user = rustix::process::geteuid().as_raw();
    user != 0 && owner(unit) == Some(user) && unit.parent().and_then(owner).is_some_and(|above| above != user)
}

fn has_all(directory: &Path, file: &str, controllers: &[&str]) -> bool {
    let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
    controllers.iter().all(|controller| text.split_whitespace().any(|word| word == *controller))
}

/// Has a group pass controllers on to its children, and looks whether it does.
fn pass_on(directory: &Path, controllers: &[&str]) -> io::Result<()> {
    const SWITCH: &str = "cgroup.subtree_control";
    if has_all(directory, SWITCH, controllers) {
        return Ok(());
    }
    let wanted: Vec<String> = controllers.iter().map(|controller| format!("+{controller}")).collect();
    for _ in 0..PASSES {
        match fs::write(directory.join(SWITCH), wanted.join(" ")) {
            Ok(()) => break,
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => clear(directory)?,
            Err(error) => return Err(error),
        }
    }
    if has_all(directory, SWITCH, controllers) { Ok(()) } else { Err(Errno::BUSY.into()) }
}

/// Moves every process of a group to its leaf.
fn clear(directory: &Path) -> io::Result<()> {
    let leaf = directory.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for pid in fs::read_to_string(directory.join("cgroup.procs"))?.lines() {
        // A process of another pid namespace is shown as 0, which would move this one.
        if pid == "0" {
            return Err(Errno::PERM.into());
        }
        match fs::write(leaf.join("cgroup.procs"), pid) {
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            moved => moved?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_passes_on_what_its_file_lists() {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.subtree_control"), "cpuset cpu memory\n").unwrap();
        assert!(has_all(group.path(), "cgroup.subtree_control", &["memory", "cpu"]));
        // `cpuset` holds the word `cpu`, but is another controller.
        assert!(!has_all(group.path(), "cgroup.subtree_control", &["memory", "pids"]));
        assert!(!has_all(group.path(), "cgroup.controllers", &["memory"]));
    }

    #[test]
    fn a_users_manager_is_no_unit_of_ours() {
        let mount = tempfile::tempdir().unwrap();
        let unit = mount.path().join("user@1000.service");
        fs::create_dir(&unit).unwrap();
        assert_eq!(delegated(&unit, mount.path()), None);
        assert_eq!(delegated(mount.path(), mount.path()), None);
    }
}
