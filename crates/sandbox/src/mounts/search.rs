//! Walks what lies below a mount's source, bounded in entries, depth, bytes and time. What exceeds a bound is refused.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;

use super::secrets::{self, Suspect};
use super::source::MountSource;
use crate::sandbox::StartError;

const MAX_DEPTH: usize = 128;
const MAX_ENTRIES: usize = 1_000_000;
const MAX_TIME: Duration = Duration::from_mins(1);
/// Bytes that are read of one file that may hold a key, and of all of them.
const MAX_FILE: usize = 64 << 10;
const MAX_READ: usize = 256 << 20;

/// Refuses a source that is, or holds, a socket: a read-only mount does not stop a connection to one.
pub(super) fn sockets(source: &MountSource) -> Result<(), StartError> {
    Search::of(source, false).run()
}

/// Refuses a source that is or holds a socket or something that gives keys away.
pub(super) fn sockets_and_secrets(source: &MountSource) -> Result<(), StartError> {
    Search::of(source, true).run()
}

struct Search<'a> {
    source: &'a MountSource,
    secrets: bool,
    seen: usize,
    read: usize,
    until: Instant,
}

impl<'a> Search<'a> {
    fn of(source: &'a MountSource, secrets: bool) -> Self {
        Self { source, secrets, seen: 0, read: 0, until: Instant::now() + MAX_TIME }
    }

    fn run(&mut self) -> Result<(), StartError> {
        let name = Path::new(self.source.path()).file_name().unwrap_or_default();
        self.entry(Path::new(""), name, self.source.kind)?;
        if self.source.kind != FileType::Directory {
            return Ok(());
        }
        let mut open = vec![(PathBuf::new(), 0)];
        while let Some((below, depth)) = open.pop() {
            let Some(directory) = self.directory(&below)? else { continue };
            let failed = |errno: Errno| self.failed(&below, errno);
            let mut entries = Dir::read_from(&directory).map_err(failed)?;
            while let Some(entry) = entries.read() {
                let entry = entry.map_err(|errno| self.failed(&below, errno))?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let Some(kind) = kind_of(&directory, entry.file_name(), entry.file_type()) else { continue };
                let path = below.join(name);
                self.entry(&path, name, kind)?;
                if kind == FileType::Directory {
                    if depth >= MAX_DEPTH {
                        return Err(self.too_large());
                    }
                    open.push((path, depth + 1));
                }
            }
        }
        Ok(())
    }

    /// Judges one entry at the path `below` the source.
    fn entry(&mut self, below: &Path, name: &OsStr, kind: FileType) -> Result<(), StartError> {
        self.seen += 1;
        if self.seen > MAX_ENTRIES || (self.seen.is_multiple_of(1024) && Instant::now() > self.until) {
            return Err(self.too_large());
        }
        if kind == FileType::Socket {
            return Err(self.refused(format!("it holds the socket {}", self.shown(below).display()), None));
        }
        if !self.secrets {
            return Ok(());
        }
        match secrets::judge(&self.shown(below), name, kind) {
            Suspect::Nothing => Ok(()),
            Suspect::Secret(what) => Err(self.secret(below, what)),
            Suspect::Contents(judge) => match judge(&self.contents(below)?) {
                Some(what) => Err(self.secret(below, what)),
                None => Ok(()),
            },
        }
    }

    /// A directory below the source; `None` if it is gone by now.
    fn directory(&self, below: &Path) -> Result<Option<OwnedFd>, StartError> {
        match self.open(below, OFlags::DIRECTORY) {
            Err(Errno::NOENT) => Ok(None),
            opened => opened.map(Some).map_err(|errno| self.failed(below, errno)),
        }
    }

    /// Opens what is below the source, through no link.
    fn open(&self, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if below.as_os_str().is_empty() && self.source.kind != FileType::Directory {
            // A file is opened anew by its own descriptor: it has no directory to be found in.
            let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.source.descriptor));
            return rustix::fs::open(own, flags - OFlags::NOFOLLOW, Mode::empty());
        }
        let path = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.source.descriptor, path, flags, Mode::empty(), resolve)
    }

    /// The beginning of a regular file.
    fn contents(&mut self, below: &Path) -> Result<Vec<u8>, StartError> {
        let file = match self.open(below, OFlags::empty()) {
            // What we may not read, a sandbox of ours may not either.
            Err(Errno::NOENT | Errno::ACCESS | Errno::PERM) => return Ok(Vec::new()),
            opened => opened.map_err(|errno| self.failed(below, errno))?,
        };
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
        let mut bounded = io::Read::take(std::fs::File::from(file), most);
        io::Read::read_to_end(&mut bounded, &mut bytes).map_err(|error| {
            let why = format!("{}: {error}", self.shown(below).display());
            self.refused(why, None)
        })?;
        self.read += bytes.len();
        if self.read > MAX_READ {
            return Err(self.too_large());
        }
        Ok(bytes)
    }

    fn shown(&self, below: &Path) -> PathBuf {
        let source = Path::new(self.source.path());
        if below.as_os_str().is_empty() { source.to_owned() } else { source.join(below) }
    }

    fn refused(&self, why: String, hint: Option<&'static str>) -> StartError {
        StartError::Mount { path: self.source.path().to_owned(), why, hint }
    }

    fn secret(&self, below: &Path, what: &str) -> StartError {
        self.refused(format!("{} {what}", self.shown(below).display()), Some(secrets::HINT))
    }

    fn failed(&self, below: &Path, errno: Errno) -> StartError {
        self.refused(format!("{}: {}", self.shown(below).display(), io::Error::from(errno)), None)
    }

    fn too_large(&self) -> StartError {
        let what = if self.secrets { "sockets and keys" } else { "sockets" };
        self.refused(format!("it is too large to be searched for {what}"), Some("mount a part of it"))
    }
}

/// The kind of an entry, where its directory does not say; `None` if it is gone.
fn kind_of(directory: &OwnedFd, name: &CStr, said: FileType) -> Option<FileType> {
    if said != FileType::Unknown {
        return Some(said);
    }
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}
