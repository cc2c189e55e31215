//! The runs of this user that have containers at some daemon: a private directory each, with a lock that dies with its
//! runner.
//!
//! Always the same place for a user, whatever `TMPDIR` says: whoever cleans up must find the locks of those who live.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

const LOCK: &str = "lock";
/// No name of a run.
const IDENTITY: &str = "@identity";

/// A run's directory, held by this process. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    _lock: File,
}

/// Root's is where nobody else can be first; users have no place on every machine that a daemon can show to containers too.
fn place_of(uid: u32) -> PathBuf {
    if uid == 0 { "/var/lib/ringfence-docker".into() } else { format!("/var/tmp/ringfence-docker-{uid}").into() }
}

fn base() -> io::Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let base = place_of(uid);
    private(&base)?;
    // In a directory that everybody may write to, somebody else may have been first.
    let metadata = fs::symlink_metadata(&base)?;
    if !metadata.is_dir() || metadata.uid() != uid || metadata.mode() & 0o077 != 0 {
        let why = format!("{} is not a private directory of ours: have whoever made it remove it", base.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(base)
}

/// Makes a directory that nobody else may enter, unless it is there.
fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Who we are among all who may use a daemon: this user on this machine, and this place. Somebody of the same name who sees
/// other files (another container, a `/tmp` of its own) cannot tell by locks who lives, and is somebody else.
pub(crate) fn owner() -> io::Result<String> {
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let identity = identity(&base()?)?;
    let text = format!("{}\n{name}\n{}\n{identity}", machine.trim(), rustix::process::geteuid().as_raw());
    Ok(digest(&text).chars().take(16).collect())
}

/// What tells this place from all others: made once, kept beside the locks.
fn identity(base: &Path) -> io::Result<String> {
    let path = base.join(IDENTITY);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let fresh = uuid::Uuid::new_v4().simple().to_string();
    let draft = base.join(format!("{IDENTITY}.{fresh}"));
    fs::write(&draft, &fresh)?;
    // Whole at once, and whoever was first is kept.
    let linked = fs::hard_link(&draft, &path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::read_to_string(&path),
    }
}

/// The SHA-256 of a text, in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Whether a name can be part of paths and labels as it is.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= 64 && name.bytes().all(plain)
}

impl Place {
    /// A run's own directory.
    pub(crate) fn open(run: &str) -> io::Result<Self> {
        if !is_plain(run) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{run}` is no name of a run")));
        }
        let (directory, hidden) = (base()?.join(run), base()?.join(format!(".{run}")));
        // Made out of sight, so that whoever sees it sees it locked.
        DirBuilder::new().mode(0o700).create(&hidden)?;
        let lock = File::create(hidden.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&hidden, &directory)?;
        Ok(Self { directory, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whatever stays is found by `clean_up`.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether a run of ours has a runner that lives.
pub(crate) fn is_alive(run: &str) -> io::Result<bool> {
    if !is_plain(run) {
        return Ok(false);
    }
    match File::open(base()?.join(run).join(LOCK)) {
        Ok(lock) => Ok(flock(&lock, FlockOperation::NonBlockingLockShared).is_err()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the directories of runs whose runner is gone.
pub(crate) fn clean_up() -> io::Result<()> {
    for entry in fs::read_dir(base()?)?.flatten() {
        let directory = entry.path();
        // The lock is held while we remove it, so that it is dead indeed.
        let (is_dead, _held) = match File::open(directory.join(LOCK)) {
            Ok(lock) => (flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(), Some(lock)),
            // A directory appears with its lock: without one, its runner was killed while it removed it.
            Err(error) => (error.kind() == io::ErrorKind::NotFound && is_run(&directory), None),
        };
        if is_dead {
            match fs::remove_dir_all(directory) {
                // By its runner, just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
    }
    Ok(())
}

/// Whether a path in the base is the directory of a run that others can see.
fn is_run(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.is_some_and(is_plain) && fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_lives_as_long_as_it_is_held() {
        let run = format!("test-{}", std::process::id());
        let place = Place::open(&run).unwrap();
        assert!(is_alive(&run).unwrap());
        clean_up().unwrap();
        assert!(place.path().is_dir());
        drop(place);
        assert!(!is_alive(&run).unwrap());
    }

    #[test]
    fn a_place_is_known_by_what_it_keeps() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = identity(one.path()).unwrap();
        assert_eq!(identity(one.path()).unwrap(), kept);
        assert_ne!(identity(other.path()).unwrap(), kept);
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1, "no draft is left");
        assert!(!is_plain(IDENTITY));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", "..", "a/b", ".a", &"x".repeat(65)] {
            assert!(Place::open(name).is_err(), "{name}");
            assert!(!is_alive(name).unwrap());
        }
    }
}
