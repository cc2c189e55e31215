//! A user without rights: a directory that such a user may read, with what test programs need there.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process;
use crate::setup::SetupError;

const UID: u32 = 23456;
/// Of the workspace what test programs read when they run.
const READ_BY_TESTS: [&str; 2] = ["examples", "crates/cli/tests/it/snapshots"];

#[derive(Debug)]
pub(crate) struct PlainPlace {
    directory: TempDir,
}

impl PlainPlace {
    /// A home that is the user's own, the command, the gateway's program where it is built, and files of the workspace.
    pub(crate) fn new(ringfence: &Path, workspace: &Path) -> Result<Self, SetupError> {
        let directory = tempfile::Builder::new().prefix("ringfence-plain.").tempdir()?;
        open(directory.path())?;
        let home = directory.path().join("home");
        std::fs::create_dir(&home)?;
        std::fs::set_permissions(&home, Permissions::from_mode(0o700))?;
        chown(&home, Some(UID), Some(UID))?;
        let place = Self { directory };
        place.copy(ringfence, "ringfence")?;
        let gateway = ringfence.with_file_name("gateway");
        if gateway.exists() {
            place.copy(&gateway, "gateway")?;
        }
        for relative in READ_BY_TESTS {
            let copy = place.directory.path().join(relative);
            make_readable_parents(place.directory.path(), Path::new(relative))?;
            copy_readable(&workspace.join(relative), &copy)?;
        }
        Ok(place)
    }

    /// Copies a program to where the user may execute it.
    fn copy(&self, program: &Path, name: &str) -> Result<PathBuf, SetupError> {
        let copy = self.directory.path().join(name);
        // One that is still mapped could not be written to.
        let _ = std::fs::remove_file(&copy);
        process::copy_program(program, &copy)?;
        open(&copy)?;
        Ok(copy)
    }

    /// A command that runs a program as this user, with nothing of our environment but PATH.
    pub(crate) fn command(&self, program: &Path) -> Result<Command, SetupError> {
        let place = self.directory.path();
        let home = place.join("home");
        let mut command = Command::new(self.copy(program, "program")?);
        // With another user id, the standard library also clears the supplementary groups.
        command.uid(UID).gid(UID).current_dir(&home).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
        command.env("RINGFENCE", place.join("ringfence")).env("RINGFENCE_EXAMPLES", place.join("examples"));
        command.env("RINGFENCE_GATEWAY", place.join("gateway")).env("INSTA_WORKSPACE_ROOT", place);
        // A snapshot that differs is a failure, never an update.
        command.env("INSTA_UPDATE", "no");
        Ok(command)
    }
}

fn open(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Makes the directories above a relative path, so that everybody may read them.
fn make_readable_parents(place: &Path, relative: &Path) -> std::io::Result<()> {
    let parents: Vec<&Path> = relative.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()).collect();
    for parent in parents.into_iter().rev() {
        std::fs::create_dir(place.join(parent))?;
        open(&place.join(parent))?;
    }
    Ok(())
}

/// Copies a directory so that everybody may read it.
fn copy_readable(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    open(to)?;
    for entry in std::fs::read_dir(from)? {
        let (path, copy) = (entry?.path(), to.to_owned());
        let copy = copy.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_readable(&path, &copy)?;
        } else {
            std::fs::copy(&path, &copy)?;
            let mode = std::fs::metadata(&copy)?.permissions().mode();
            std::fs::set_permissions(&copy, Permissions::from_mode(mode | 0o444))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_copied_so_that_everybody_may_read_them() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        std::fs::create_dir_all(from.join("deep")).unwrap();
        std::fs::write(from.join("deep/file"), "x").unwrap();
        std::fs::set_permissions(from.join("deep/file"), Permissions::from_mode(0o600)).unwrap();
        let to = place.path().join("to");
        copy_readable(&from, &to).unwrap();
        let mode = |name: &str| std::fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("to/deep/file"), 0o644);
        make_readable_parents(place.path(), Path::new("above/it/all")).unwrap();
        assert_eq!([mode("above"), mode("above/it"), mode("to/deep")], [0o755; 3]);
        assert!(!place.path().join("above/it/all").exists());
    }
}
