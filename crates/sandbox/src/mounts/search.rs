//! Walks what lies below a mount's source, bounded in entries, depth, bytes and time. What exceeds a bound is refused.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, chmod, fstat, openat2, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::ContextPart;
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
    Search::of(source, Wanted::Sockets).run()
}

/// Refuses a source that is or holds a socket or something that gives keys away.
pub(super) fn sockets_and_secrets(source: &MountSource) -> Result<(), StartError> {
    Search::of(source, Wanted::SocketsAndSecrets).run()
}

/// Refuses an image's directory that holds something that gives keys away.
///
/// Its sockets are harmless: they are seen through an overlay, whose inodes are not bound to anything. What programs bring along below
/// `usr` is not searched, as it is not for the host's own `/usr`: packages have keys for their tests there.
pub(super) fn secrets_of_image(source: &MountSource) -> Result<(), StartError> {
    Search::of(source, Wanted::SecretsOfImage).run()
}

/// Refuses a directory that an image is built of if it holds something that gives keys away, in what is sent to the builder.
pub(super) fn secrets_of_context(source: &MountSource, part: &dyn Fn(&Path) -> ContextPart) -> Result<(), StartError> {
    Search { part: Some(part), ..Search::of(source, Wanted::SecretsOfContext) }.run()
}

/// Refuses a source that is, or holds, a socket that something is bound to.
pub(super) fn bound_sockets(source: &MountSource) -> Result<(), StartError> {
    Search::of(source, Wanted::BoundSockets).run()
}

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// All sockets: when a run is planned, and the operator can still look at them.
    Sockets,
    /// The same, and what gives keys away.
    SocketsAndSecrets,
    /// Sockets by which something on this host can be reached: before each sandbox.
    BoundSockets,
    /// What gives keys away in the directory of an image.
    SecretsOfImage,
    /// The same in a directory that an image is built of. Sockets are not sent.
    SecretsOfContext,
}

struct Search<'a> {
    source: &'a MountSource,
    wanted: Wanted,
    seen: usize,
    read: usize,
    until: Instant,
    /// What of a build's directory is sent; absent means all.
    part: Option<&'a dyn Fn(&Path) -> ContextPart>,
}

impl<'a> Search<'a> {
    fn of(source: &'a MountSource, wanted: Wanted) -> Self {
        Self { source, wanted, seen: 0, read: 0, until: Instant::now() + MAX_TIME, part: None }
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
            // Not opened anew: it may be closed again.
            let again = rustix::io::fcntl_dupfd_cloexec(&directory, 0).map_err(failed)?;
            let mut entries = Dir::new(again).map_err(failed)?;
            while let Some(entry) = entries.read() {
                let entry = entry.map_err(|errno| self.failed(&below, errno))?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let Some(kind) = kind_of(&directory, entry.file_name(), entry.file_type()) else { continue };
                let path = below.join(name);
                if self.wanted == Wanted::SecretsOfImage && path == Path::new("usr") {
                    continue;
                }
                let part = self.part.map_or(ContextPart::Sent, |part| part(&path));
                if part == ContextPart::LeftOutWhole {
                    continue;
                }
                if part == ContextPart::Sent {
                    self.entry(&path, name, kind)?;
                }
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
        let refused = match self.wanted {
            Wanted::Sockets | Wanted::SocketsAndSecrets => true,
            Wanted::BoundSockets => kind == FileType::Socket && self.is_bound(below),
            Wanted::SecretsOfImage | Wanted::SecretsOfContext => false,
        };
        if kind == FileType::Socket && refused {
            return Err(self.refused(format!("it holds the socket {}", self.shown(below).display()), None));
        }
        if matches!(self.wanted, Wanted::Sockets | Wanted::BoundSockets) {
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

    /// Whether something is bound to a socket; true where that cannot be found out.
    ///
    /// A socket for datagrams is connected to it, which no other socket notices: of another kind it is refused by its type, of
    /// the same kind nothing is sent (`unix(7)`).
    fn is_bound(&self, below: &Path) -> bool {
        let socket = match self.hold(below) {
            Ok(socket) => socket,
            // It is gone by now.
            Err(Errno::NOENT) => return false,
            Err(_) => return true,
        };
        // By the descriptor: no other file can get its place meanwhile, and its path may be too long for an address.
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let called = || UnixDatagram::unbound().and_then(|own| own.connect(&path));
        let called = match called() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                with_mode(&socket, 0o200, called).unwrap_or(Err(error))
            }
            called => called,
        };
        !called.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Opens what is below the source by its path only (`O_PATH`), through no link.
    fn hold(&self, below: &Path) -> rustix::io::Result<OwnedFd> {
        if below.as_os_str().is_empty() {
            return rustix::io::fcntl_dupfd_cloexec(&self.source.descriptor, 0);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.source.descriptor, below, flags, Mode::empty(), resolve)
    }

    /// A directory below the source; `None` if it is gone by now.
    fn directory(&self, below: &Path) -> Result<Option<OwnedFd>, StartError> {
        let opened = match self.open(below, OFlags::DIRECTORY) {
            // A plain user's sandbox is that user: what it closed, it can open again.
            Err(Errno::ACCESS) => match self.hold(below) {
                Ok(closed) => {
                    with_mode(&closed, 0o500, || self.open(below, OFlags::DIRECTORY)).unwrap_or(Err(Errno::ACCESS))
                }
                Err(errno) => Err(errno),
            },
            opened => opened,
        };
        match opened {
            Err(Errno::NOENT) => Ok(None),
            opened => opened.map(Some).map_err(|errno| self.failed(below, errno)),
        }
    }

    /// Opens what is below the source, through no link.
    fn open(&self, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if below.as_os_str().is_empty() && self.source.kind != FileType::Directory {
            // A file is opened anew by its own descriptor: it has no directory to be found in.
            let own = format!("/proc/self/fd/{}", self.source.descriptor.as_raw_fd());
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
        let path = self.source.path().to_owned();
        match self.wanted {
            Wanted::BoundSockets => StartError::MountContents { path, why, hint },
            Wanted::Sockets | Wanted::SocketsAndSecrets | Wanted::SecretsOfImage | Wanted::SecretsOfContext => {
                StartError::Mount { path, why, hint }
            }
        }
    }

    fn secret(&self, below: &Path, what: &str) -> StartError {
        self.refused(format!("{} {what}", self.shown(below).display()), Some(secrets::HINT))
    }

    fn failed(&self, below: &Path, errno: Errno) -> StartError {
        self.refused(format!("{}: {}", self.shown(below).display(), io::Error::from(errno)), None)
    }

    fn too_large(&self) -> StartError {
        let what = match self.wanted {
            Wanted::Sockets | Wanted::BoundSockets => "sockets",
            Wanted::SocketsAndSecrets => "sockets and keys",
            Wanted::SecretsOfImage | Wanted::SecretsOfContext => "keys",
        };
        self.refused(format!("it is too large to be searched for {what}"), Some("mount a part of it"))
    }
}

/// Does something while the owner of a file has these rights too, and takes them back. `None` for a file of another owner.
///
/// An agent that runs as the same user takes rights away from what it leaves, and has later samples fail by that.
fn with_mode<T>(file: &OwnedFd, rights: u32, work: impl FnOnce() -> T) -> Option<T> {
    let stat = fstat(file).ok().filter(|stat| stat.st_uid == geteuid().as_raw())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mode = stat.st_mode & 0o7777;
    chmod(&path, Mode::from_raw_mode(mode | rights)).ok()?;
    let done = work();
    // Where that fails, its owner has rights that its owner can have at any time.
    let _ = chmod(&path, Mode::from_raw_mode(mode));
    Some(done)
}

/// The kind of an entry, where its directory does not say; `None` if it is gone.
fn kind_of(directory: &OwnedFd, name: &CStr, said: FileType) -> Option<FileType> {
    if said != FileType::Unknown {
        return Some(said);
    }
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}
