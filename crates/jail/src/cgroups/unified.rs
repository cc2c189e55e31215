//! The parent directory of sandbox groups in the unified hierarchy (v2): one directory with all controllers, in a delegated subtree.
//!
//! In this order: this process's own unit, if systemd delegates it (`Delegate=yes`); a transient scope that systemd creates for this
//! process; without systemd, for example in a container, the nearest group that passes the controllers on. No group is created next to
//! systemd's own units, because systemd enables and disables controllers there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Hierarchy, hierarchies, scope};
use crate::zygote::{During as _, Trouble};

/// The leaf group for the processes of a delegated group: a group that passes controllers on cannot have processes itself.
const LEAF: &str = "ringfence-runners";
/// Maximum number of passes over `cgroup.procs`: processes may fork while they are moved.
const PASSES: usize = 100;

/// Finds a directory in which groups with all these controllers can be created. May move this process to another group.
///
/// A delegated unit without the controllers is an error: a scope elsewhere would be outside of the unit's own limits.
pub(super) fn place(hierarchy: &Hierarchy, controllers: &[&str]) -> Result<PathBuf, Trouble> {
    let own = &hierarchy.directory;
    if let Some(unit) = delegated(own, &hierarchy.mount_point) {
        pass_on(&unit, controllers).during("passing memory, pids and cpu on in the delegated unit")?;
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

/// Returns the delegated unit of this group: the group itself, or the parent of our leaf.
fn delegated(own: &Path, mount_point: &Path) -> Option<PathBuf> {
    let unit = if own.file_name() == Some(OsStr::new(LEAF)) { own.parent()? } else { own };
    // `user@UID.service` is delegated too, but to systemd's user manager.
    let of_manager = unit.file_name().is_some_and(|name| name.to_string_lossy().starts_with("user@"));
    let is_ours = unit != mount_point && !of_manager && (is_marked(unit) || is_border(unit));
    is_ours.then(|| unit.to_owned())
}

/// Checks systemd's delegation attribute; plain users can read it since systemd 251.
fn is_marked(unit: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0; 1];
        rustix::fs::getxattr(unit, *name, &mut value).is_ok_and(|length| length == 1 && value[0] == b'1')
    })
}

/// Checks for a directory of this user below a directory of another: a unit that the system manager delegated to the user.
fn is_border(unit: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let user = rustix::process::geteuid().as_raw();
    user != 0 && owner(unit) == Some(user) && unit.parent().and_then(owner).is_some_and(|above| above != user)
}

fn has_all(directory: &Path, file: &str, controllers: &[&str]) -> bool {
    let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
    controllers.iter().all(|controller| text.split_whitespace().any(|word| word == *controller))
}

/// Enables controllers for a group's children and reads the result back.
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

/// Moves every process of a group to its leaf group.
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
