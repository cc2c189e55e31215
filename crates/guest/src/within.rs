//! Files under one directory, whoever swaps what meanwhile.
//!
//! A path is walked one name at a time, each opened from the directory before it and never through a link: there is no
//! moment at which a part that is swapped leads elsewhere. `openat2` would say the same in one call, but our own filter
//! refuses it where a sandbox writes to the host's files (`jail/src/filter`), and a single name needs no more than
//! `O_NOFOLLOW`.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat as RawStat, Uid, fchmod, fchown, fstat, fstatfs, mkdirat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use wire::{FailureKind, Guest, Look, Within};

use crate::failure::Failure;
use crate::files::{self, Reading, Writing, require_regular, stat_of};
use crate::outbox::Outbox;
use crate::users::{self, Identity};

/// The longest path that the kernel takes.
const MAX_PATH: usize = 4096;
/// File systems whose files are the kernel's words, not files: some never end, some do something when they are read.
const KERNELS_OWN: [i64; 4] = [
    0x9fa0,      /* proc */
    0x6265_6572, /* sysfs */
    0x6367_7270, /* cgroup2 */
    0x0027_e0eb, /* cgroup */
];
/// How often another name is tried for a file that is not complete yet.
const TRIES: u32 = 32;

/// Whether directories that are missing are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Make {
    Nothing,
    Directories,
}

/// The rights that are asked of a file or directory.
#[derive(Clone, Copy)]
enum Right {
    Read = 4,
    Write = 2,
    Enter = 1,
}

/// Who works, where it is not the guest itself. The guest cannot become somebody else for a moment: the kernel would make
/// it dumpable and forget whose death ends it. So it looks at owners and permission bits itself.
struct Worker(Option<Identity>);

impl Worker {
    fn find(within: &Within) -> Result<Self, Failure> {
        if within.user == wire::User::Default {
            return Ok(Self(None));
        }
        let identity = users::resolve(&within.user)?;
        users::require_mapped(&identity)?;
        Ok(Self(Some(identity)))
    }

    fn require(&self, right: Right, stat: &RawStat, shown: &str) -> Result<(), Failure> {
        let Some(who) = self.0.as_ref().filter(|who| who.uid != 0) else { return Ok(()) };
        let shift = if stat.st_uid == who.uid {
            6
        } else if who.gid == stat.st_gid || who.groups.contains(&stat.st_gid) {
            3
        } else {
            0
        };
        if stat.st_mode >> shift & right as u32 != 0 {
            return Ok(());
        }
        Err(Failure::from_errno(Errno::ACCESS, shown))
    }

    /// Whether an entry of a directory may be replaced: not another's where the directory is everybody's.
    fn require_own(&self, directory: &RawStat, entry: &RawStat, shown: &str) -> Result<(), Failure> {
        let Some(who) = self.0.as_ref().filter(|who| who.uid != 0) else { return Ok(()) };
        let sticky = directory.st_mode & 0o1000 != 0;
        if sticky && directory.st_uid != who.uid && entry.st_uid != who.uid {
            return Err(Failure::from_errno(Errno::ACCESS, shown));
        }
        Ok(())
    }
}

/// A directory that was reached, and the last name of the path in it; no name is the directory itself.
struct Spot<'a> {
    directory: OwnedFd,
    name: Option<&'a str>,
    /// The path for messages.
    shown: String,
    worker: Worker,
}

fn parts(path: &str) -> Result<Vec<&str>, Failure> {
    if path.contains('\0') || path.len() > MAX_PATH {
        return Err(Failure::invalid("a path is too long or has a NUL in it"));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(Failure::new(FailureKind::PermissionDenied, "a path with `..` may leave its root"));
    }
    Ok(parts)
}

impl<'a> Spot<'a> {
    fn find(within: &'a Within, make: Make) -> Result<Self, Failure> {
        if !within.root.starts_with('/') || within.path.starts_with('/') {
            return Err(Failure::invalid("a root is absolute, and a path below it is not"));
        }
        let (root, mut below) = (parts(&within.root)?, parts(&within.path)?);
        let name = below.pop();
        let worker = Worker::find(within)?;
        let mut directory =
            openat(CWD, "/", directory_flags(), Mode::empty()).map_err(|errno| Failure::from_errno(errno, "/"))?;
        let mut shown = String::new();
        for part in root.into_iter().chain(below) {
            let stat = fstat(&directory).map_err(|errno| Failure::from_errno(errno, &shown))?;
            shown = format!("{shown}/{part}");
            worker.require(Right::Enter, &stat, &shown)?;
            directory = match openat(&directory, part, directory_flags(), Mode::empty()) {
                Err(Errno::NOENT) if make == Make::Directories => {
                    worker.require(Right::Write, &stat, &shown)?;
                    made(&directory, part, &shown, &worker)?
                }
                Ok(next) => next,
                Err(errno) => return Err(no_way(errno, &directory, part, &shown)),
            };
        }
        if let Some(name) = name {
            shown = format!("{shown}/{name}");
            let stat = fstat(&directory).map_err(|errno| Failure::from_errno(errno, &shown))?;
            worker.require(Right::Enter, &stat, &shown)?;
        }
        Ok(Self { directory, name, shown, worker })
    }

    fn failure(&self, errno: Errno) -> Failure {
        Failure::from_errno(errno, &self.shown)
    }

    /// What is there; a link itself.
    fn stat(&self) -> Result<Option<RawStat>, Failure> {
        let Some(name) = self.name else {
            return fstat(&self.directory).map(Some).map_err(|errno| self.failure(errno));
        };
        match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failure(errno)),
        }
    }

    /// Fails for what is neither read nor replaced.
    fn require_plain(&self, stat: &RawStat) -> Result<(), Failure> {
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(link(&self.shown));
        }
        require_regular(stat, &self.shown)?;
        if stat.st_nlink > 1 {
            let message = format!("{}: has more than one name, and one may lie outside the root", self.shown);
            return Err(Failure::new(FailureKind::HardLink, message));
        }
        Ok(())
    }

    fn file_name(&self) -> Result<&'a str, Failure> {
        self.name.ok_or_else(|| Failure::from_errno(Errno::ISDIR, &self.shown))
    }
}

fn directory_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn link(shown: &str) -> Failure {
    Failure::new(FailureKind::Link, format!("{shown}: is a symbolic link, and none is followed"))
}

/// Why a name is not a directory that can be entered. Only words: what was refused stays refused.
fn no_way(errno: Errno, directory: &OwnedFd, name: &str, shown: &str) -> Failure {
    let is_link = |stat: RawStat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    let refused = matches!(errno, Errno::NOTDIR | Errno::LOOP);
    if refused && statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link) {
        return link(shown);
    }
    Failure::from_errno(errno, shown)
}

/// Makes a directory, or finds that somebody else just did.
fn made(parent: &OwnedFd, name: &str, shown: &str, worker: &Worker) -> Result<OwnedFd, Failure> {
    let made = mkdirat(parent, name, Mode::from_raw_mode(0o755));
    if let Err(errno) = made
        && errno != Errno::EXIST
    {
        return Err(Failure::from_errno(errno, shown));
    }
    let opened =
        openat(parent, name, directory_flags(), Mode::empty()).map_err(|errno| no_way(errno, parent, name, shown))?;
    if let (Ok(()), Some(who)) = (made, &worker.0) {
        let failed = |errno: Errno| Failure::from_errno(errno, shown);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = openat(&opened, ".", flags, Mode::empty()).map_err(failed)?;
        // Somebody may have put another directory in its place: one with something in it, or not ours, is not given away.
        let is_ours = fstat(&opened).map_err(failed)?.st_uid == rustix::process::geteuid().as_raw();
        let mut entries = Dir::read_from(&readable).map_err(failed)?;
        let is_empty =
            entries.all(|entry| entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")));
        if is_ours && is_empty {
            give(&readable, who, shown)?;
        }
    }
    Ok(opened)
}

fn give(file: &OwnedFd, who: &Identity, shown: &str) -> Result<(), Failure> {
    fchown(file, Some(Uid::from_raw(who.uid)), Some(Gid::from_raw(who.gid)))
        .map_err(|errno| Failure::from_errno(errno, shown))
}

/// Opens a regular file with one name, without waiting for anything.
pub(crate) fn read(id: u32, within: &Within, limit: u64) -> Result<Reading, Failure> {
    let spot = Spot::find(within, Make::Nothing)?;
    let name = spot.file_name()?;
    // Looked at before it is opened, because opening a device may already do something; and again after, because it may
    // be another by then.
    let seen = spot.stat()?.ok_or_else(|| spot.failure(Errno::NOENT))?;
    spot.require_plain(&seen)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = match openat(&spot.directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP) => return Err(link(&spot.shown)),
        Err(errno) => return Err(spot.failure(errno)),
    };
    let stat = fstat(&file).map_err(|errno| spot.failure(errno))?;
    spot.require_plain(&stat)?;
    spot.worker.require(Right::Read, &stat, &spot.shown)?;
    let system = fstatfs(&file).map_err(|errno| spot.failure(errno))?;
    if KERNELS_OWN.contains(&system.f_type) {
        return Err(Failure::new(FailureKind::NotRegular, format!("{}: is not a file on a disk", spot.shown)));
    }
    Reading::begin(id, file, &stat, &spot.shown, limit)
}

/// A file that takes its name when it is complete: whoever reads sees the old one or the new one, and what another name
/// or an open descriptor leads to is not written.
pub(crate) struct Landing {
    directory: OwnedFd,
    temporary: String,
    name: String,
    landed: bool,
}

impl Landing {
    /// Gives it its name, in the place of what had it.
    pub(crate) fn land(&mut self, shown: &str) -> Result<(), Failure> {
        renameat(&self.directory, &*self.temporary, &self.directory, &*self.name)
            .map_err(|errno| Failure::from_errno(errno, shown))?;
        self.landed = true;
        Ok(())
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if !self.landed {
            let _ = unlinkat(&self.directory, &*self.temporary, AtFlags::empty());
        }
    }
}

/// Makes a file under a name that nobody else uses.
fn temporary(spot: &Spot<'_>) -> Result<(OwnedFd, String), Failure> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".ringfence-{number:x}-{:x}", now.tv_nsec);
        match openat(&spot.directory, &*name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => return Ok((file, name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(spot.failure(errno)),
        }
    }
    Err(spot.failure(Errno::EXIST))
}

/// Begins a file whose bytes follow.
pub(crate) fn write(id: u32, within: &Within, permissions: u32) -> Result<Writing, Failure> {
    let spot = Spot::find(within, Make::Directories)?;
    let name = spot.file_name()?.to_owned();
    let directory = fstat(&spot.directory).map_err(|errno| spot.failure(errno))?;
    spot.worker.require(Right::Write, &directory, &spot.shown)?;
    let before = spot.stat()?;
    if let Some(stat) = &before {
        spot.require_plain(stat)?;
        spot.worker.require(Right::Write, stat, &spot.shown)?;
        spot.worker.require_own(&directory, stat, &spot.shown)?;
    }
    let (file, temporary) = temporary(&spot)?;
    let Spot { directory, shown, worker, .. } = spot;
    let landing = Landing { directory, temporary, name, landed: false };
    match (&worker.0, &before) {
        (Some(who), _) => give(&file, who, &shown)?,
        // As if it had been written in place. Where that is not ours to say, it is ours.
        (None, Some(stat)) => {
            let _ = fchown(&file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        }
        (None, None) => {}
    }
    let mode = before.map_or(permissions, |stat| stat.st_mode) & 0o777;
    fchmod(&file, Mode::from_raw_mode(mode)).map_err(|errno| Failure::from_errno(errno, &shown))?;
    Ok(Writing::landing(id, file, shown, landing))
}

/// Answers a look.
pub(crate) fn look(id: u32, within: &Within, look: Look, outbox: &mut Outbox) -> Result<(), Failure> {
    let make = if look == Look::Writable { Make::Directories } else { Make::Nothing };
    let spot = match Spot::find(within, make) {
        Err(failure) if look == Look::Stat && failure.kind == FailureKind::NotFound => {
            outbox.urgent(&Guest::Stat { id, stat: None });
            return Ok(());
        }
        found => found?,
    };
    if look == Look::Stat {
        let stat = spot.stat()?.map(|raw| stat_of(&raw));
        outbox.urgent(&Guest::Stat { id, stat });
        return Ok(());
    }
    let directory = match spot.name {
        None => openat(&spot.directory, ".", directory_flags(), Mode::empty()).map_err(|errno| spot.failure(errno))?,
        Some(name) => match openat(&spot.directory, name, directory_flags(), Mode::empty()) {
            Err(Errno::NOENT) if make == Make::Directories => made(&spot.directory, name, &spot.shown, &spot.worker)?,
            Ok(directory) => directory,
            Err(errno) => return Err(no_way(errno, &spot.directory, name, &spot.shown)),
        },
    };
    let Spot { shown, worker, .. } = spot;
    let stat = fstat(&directory).map_err(|errno| Failure::from_errno(errno, &shown))?;
    worker.require(Right::Read, &stat, &shown)?;
    match look {
        Look::List => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let readable =
                openat(&directory, ".", flags, Mode::empty()).map_err(|errno| Failure::from_errno(errno, &shown))?;
            return files::send_entries(id, &readable, &shown, outbox);
        }
        Look::Writable => {
            worker.require(Right::Enter, &stat, &shown)?;
            worker.require(Right::Write, &stat, &shown)?;
            let spot = Spot { directory, name: None, shown, worker };
            let (_, temporary) = temporary(&spot)?;
            unlinkat(&spot.directory, &*temporary, AtFlags::empty()).map_err(|errno| spot.failure(errno))?;
        }
        Look::Readable | Look::Stat => worker.require(Right::Enter, &stat, &shown)?,
    }
    outbox.urgent(&Guest::Done { id, bytes: 0 });
    Ok(())
}
