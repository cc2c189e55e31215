//! The runs of this user on this machine: a directory each, with a lock that dies with its runner.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

/// A run that this process holds. Dropping it takes it off the list.
#[derive(Debug)]
pub struct Registered {
    directory: PathBuf,
    name: String,
    _lock: File,
}

/// A run on the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// What it said of itself: profile and command.
    pub about: String,
    /// What its sandbox began with.
    pub image: Option<String>,
    /// Whether its runner lives.
    pub alive: bool,
    directory: PathBuf,
}

/// Where the runs of this user are listed: a directory that is nobody else's. It is made if it is not there.
pub fn private_directory() -> io::Result<PathBuf> {
    let directory = place()?;
    // 0700 from the first moment on.
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory)?;
    let opened = File::options()
        .read(true)
        .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed())
        .open(&directory)
        .map_err(|_| not_private(&directory))?;
    if !is_private(&opened.metadata()?) {
        return Err(not_private(&directory));
    }
    Ok(directory)
}

/// The path of that directory, whether or not it is there. All in places where no other user can make something of the same
/// name first, and leave it there: /run, the user's runtime directory (checked), the user's home.
pub(crate) fn place() -> io::Result<PathBuf> {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Ok("/run/ringfence".into());
    }
    let stated = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    // Where a session without the variable (cron, su) finds what one with it has made.
    let usual = PathBuf::from(format!("/run/user/{}", uid.as_raw()));
    let is_ours = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|metadata| is_private(&metadata));
    if let Some(runtime) = stated.into_iter().chain([usual]).find(is_ours) {
        return Ok(runtime.join("ringfence"));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "there is no private directory: neither XDG_RUNTIME_DIR nor HOME is one",
        )
    })?;
    in_home(&home)
}

/// The directory in the user's home. No other user may write to the directories above it: one could create it first, or replace it.
fn in_home(home: &Path) -> io::Result<PathBuf> {
    for above in home.canonicalize()?.ancestors().skip(1) {
        let metadata = fs::metadata(above)?;
        // In a sticky one (as /tmp is) only owners rename what is there.
        let is_sticky = metadata.mode() & 0o1000 != 0;
        let is_trusted = is_ours(&metadata) || metadata.uid() == 0;
        if !is_trusted || !(is_sticky || is_written_by_us_alone(&metadata)) {
            return Err(not_private(above));
        }
    }
    for own in ["", ".cache", ".cache/ringfence"] {
        let own = home.join(own);
        match fs::metadata(&own) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && own != home.join("") => break,
            Ok(metadata) if is_ours(&metadata) && is_written_by_us_alone(&metadata) => {}
            Ok(_) => return Err(not_private(&own)),
            Err(error) => return Err(error),
        }
    }
    Ok(home.join(".cache/ringfence/run"))
}

fn is_ours(metadata: &fs::Metadata) -> bool {
    metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Whether neither others nor a group may write. A group of one's own (its number is the user's) has no other members; umask 002
/// relies on it.
fn is_written_by_us_alone(metadata: &fs::Metadata) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    let is_own_group = metadata.gid() == uid && rustix::process::getegid().as_raw() == uid;
    metadata.mode() & if is_own_group { 0o002 } else { 0o022 } == 0
}

fn is_private(metadata: &fs::Metadata) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    let others = metadata.mode() & 0o077;
    metadata.is_dir() && metadata.uid() == uid && others == 0
}

fn not_private(path: &Path) -> io::Error {
    let why = format!("{} is not a directory that only we may write to", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

impl Registered {
    /// Puts a run on the list.
    ///
    /// `image` is what it begins with, for whoever keeps what it becomes.
    pub fn new(name: &str, about: &str, image: &str) -> io::Result<Self> {
        let base = private_directory()?;
        let (directory, hidden) = (base.join(name), base.join(format!(".{name}")));
        // Made out of sight, so that whoever sees it sees it locked.
        fs::DirBuilder::new().mode(0o700).create(&hidden)?;
        let lock = File::create(hidden.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        File::create(hidden.join("about"))?.write_all(about.as_bytes())?;
        File::create(hidden.join("image"))?.write_all(image.as_bytes())?;
        fs::rename(&hidden, &directory)?;
        Ok(Self { directory, name: name.to_owned(), _lock: lock })
    }

    /// Where its socket goes.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Gone already, unless the helper was killed before it could.
        let _ = remove_groups_of(&self.name);
        // Whatever stays is taken off by `cleanup`.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// All runs on the list.
pub fn runs() -> io::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(private_directory()?)?.flatten() {
        let directory = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let Ok(lock) = File::open(directory.join("lock")) else { continue };
        let alive = flock(&lock, FlockOperation::NonBlockingLockShared).is_err();
        let about = fs::read_to_string(directory.join("about")).unwrap_or_default();
        let image = fs::read_to_string(directory.join("image")).ok();
        runs.push(Run { name: entry.file_name().to_string_lossy().into_owned(), about, image, alive, directory });
    }
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(runs)
}

impl Run {
    /// Where its socket is.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// Takes a run whose runner is gone off the list, with the control groups that bear its name. Only ever its own.
    pub fn clean_up(&self) -> io::Result<()> {
        if self.alive {
            return Err(io::Error::other(format!("{} is alive", self.name)));
        }
        // Held while we clean, so that nobody else does, and that it is dead indeed.
        let lock = File::open(self.directory.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        remove_groups_of(&self.name)?;
        fs::remove_dir_all(&self.directory)
    }
}

/// Removes the control groups that bear a run's name.
fn remove_groups_of(run: &str) -> io::Result<()> {
    let prefix = format!("ringfence-{run}-");
    for place in jail::cgroups::hierarchies()?.iter().flat_map(jail::cgroups::Hierarchy::places) {
        remove_groups(&place, &prefix);
    }
    Ok(())
}

/// Kills what is left in the groups of that prefix and removes them. A group that stays is found again next time.
fn remove_groups(directory: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
        for pid in fs::read_to_string(entry.path().join("cgroup.procs")).unwrap_or_default().lines() {
            if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        // What is frozen in v1 does not die before it goes on.
        let _ = fs::OpenOptions::new()
            .write(true)
            .open(entry.path().join("freezer.state"))
            .and_then(|mut state| state.write_all(b"THAWED"));
        // Empty a moment after its last process is gone.
        for _ in 0..100 {
            if fs::remove_dir(entry.path()).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Another user of the group could make the list of running sandboxes first, or put theirs in its place.
    #[test]
    fn a_home_that_a_group_may_write_to_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let home = place.join("home");
        fs::create_dir_all(home.join(".cache/ringfence")).unwrap();
        let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let is_used = || in_home(&home).is_ok();
        let all = [place.clone(), home.clone(), home.join(".cache"), home.join(".cache/ringfence")];
        for one in &all {
            set(one, 0o755);
        }
        assert!(is_used());
        for one in &all {
            set(one, 0o757);
            assert!(!is_used(), "{}", one.display());
            // A group of our own has no other members; one that is not ours needs root to be given.
            set(one, 0o775);
            let own = rustix::process::geteuid().as_raw() == rustix::process::getegid().as_raw();
            assert_eq!(is_used(), own, "{}", one.display());
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(one, None, Some(1234)).unwrap();
                assert!(!is_used(), "{}", one.display());
            }
            set(one, 0o755);
            assert!(is_used());
        }
        fs::remove_dir_all(home.join(".cache")).unwrap();
        assert!(is_used(), "what is not there yet is made by us");
        fs::remove_dir(&home).unwrap();
        assert!(!is_used());
    }
}
