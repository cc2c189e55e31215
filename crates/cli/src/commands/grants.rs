//! Collects the operator's grants: options, a profile that the operator named, and the file `grants` of the operator's
//! configuration.
//!
//! The file decides about running commands without isolation, so it counts only if no other user can change it: it is a
//! plain file (no link), owned by this user, and not writable by group or others. Anything else is an error, not an empty
//! file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use profile::{Grants, Plan, Problem, Problems, Profile, Refusal, Request};
use rustix::fs::OFlags;

use super::receipts;
use crate::grant_args::GrantArguments;

/// Its name in the user's configuration directory.
const NAME: &str = "grants";
/// The largest file that is read.
const MOST_BYTES: u64 = 4096;

/// Everything that the operator granted. `named` is a profile from the operator's own command line.
pub(super) fn of(arguments: GrantArguments, named: Option<Profile>) -> Result<Grants, Problems> {
    let file = receipts::configuration().map(|directory| directory.join(NAME));
    let configured = file.map_or(Ok(Grants::default()), |path| read(&path))?;
    Ok(Grants::from(arguments).or(configured).with_profile(named))
}

/// Refuses a plan that uses something that the operator did not grant.
pub(super) fn check(grants: Grants, request: &Request, plan: &Plan) -> Result<(), Refusal> {
    let unmet = grants.missing(request, plan);
    if unmet.is_empty() {
        return Ok(());
    }
    let document = &request.document;
    let origin = document.profile.place.is_some().then(|| document.origin.clone());
    Err(Refusal { schema: Refusal::SCHEMA, profile: plan.profile, origin, unmet, nearest: Vec::new() })
}

/// Reads the file; a missing one grants nothing, nor does one in a directory that this user cannot enter (`HOME` of another).
fn read(path: &Path) -> Result<Grants, Problems> {
    let wrong = |message: String, hint: &str| Problems {
        origin: path.display().to_string(),
        problems: vec![Problem::new(message).hint(hint)],
    };
    let owner = "it must be a plain file of yours that others cannot write: chmod 600";
    let text = match open(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(Grants::default());
        }
        Err(error) => return Err(wrong(format!("cannot read your grants: {error}"), owner)),
    };
    let mut grants = Grants::default();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        match line {
            "" => {}
            "local" => grants.local = true,
            "full-network" => grants.full_network = true,
            "writable-mounts" => grants.writable_mounts = true,
            other => {
                let hint = "each line is local, full-network or writable-mounts; # begins a comment";
                return Err(wrong(format!("`{other}` is not a grant"), hint));
            }
        }
    }
    Ok(grants)
}

fn open(path: &Path) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = File::options().read(true).custom_flags(i32::try_from(flags).unwrap_or_default()).open(path)?;
    let found = file.metadata()?;
    let refused = |why: &str| Err(io::Error::other(why.to_owned()));
    if !found.is_file() {
        return refused("it is not a plain file");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return refused("others can write it");
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES { refused("it is too large") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn written(place: &Path, text: &str, mode: u32) -> std::path::PathBuf {
        let path = place.join(format!("grants-{mode:o}"));
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_grants_file_that_others_can_change_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let text = "# mine\nlocal\n  full-network # pip\n";
        let good = written(place.path(), text, 0o644);
        assert_eq!(read(&good).unwrap().words(), ["local", "full-network"]);
        assert!(read(&written(place.path(), text, 0o664)).is_err());
        assert!(read(&written(place.path(), text, 0o602)).is_err());
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&good, &link).unwrap();
        assert!(read(&link).is_err());
        assert!(read(place.path()).is_err(), "a directory");
        assert!(read(&written(place.path(), "everything\n", 0o600)).is_err());
        assert!(read(&written(place.path(), &"#".repeat(5000), 0o640)).is_err());
        assert_eq!(read(&place.path().join("absent")).unwrap(), Grants::default());
    }
}
