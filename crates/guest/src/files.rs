//! Reading and writing the sandbox's files.
//!
//! The guest lives inside the sandbox's root, so no link leads out of it. What could hang or never end is refused: only
//! regular files are read and written, and nothing is opened in a way that waits.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat as RawStat, fstat, mkdirat, openat, statat};
use rustix::io::{Errno, read, write};
use wire::{
    Entry, FailureKind, FileKind, Guest, MAX_CHUNK, MAX_LISTED, MAX_LISTED_BYTES, Stat, Stream, WINDOW, WriteMode,
};

use crate::failure::Failure;
use crate::outbox::Outbox;
use crate::within::Landing;

/// A file under way to the host.
pub(crate) struct Reading {
    id: u32,
    file: OwnedFd,
    credit: u32,
    sent: u64,
    limit: u64,
}

/// A file under way from the host.
pub(crate) struct Writing {
    id: u32,
    file: OwnedFd,
    path: String,
    written: u64,
    /// Where it takes its name when it is complete.
    landing: Option<Landing>,
}

fn check_path(path: &str) -> Result<(), Failure> {
    if path.is_empty() || path.contains('\0') {
        return Err(Failure::invalid("a path is empty or has a NUL in it"));
    }
    Ok(())
}

/// Fails for what is not a regular file.
pub(crate) fn require_regular(stat: &RawStat, path: &str) -> Result<(), Failure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Failure::new(FailureKind::IsADirectory, format!("{path}: is a directory"))),
        _ => Err(Failure::new(FailureKind::NotRegular, format!("{path}: is not a regular file"))),
    }
}

impl Reading {
    pub(crate) fn open(id: u32, path: &str, limit: u64) -> Result<Self, Failure> {
        check_path(path)?;
        // NONBLOCK: opening a pipe must not wait for its other side.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(CWD, path, flags, Mode::empty()).map_err(|errno| Failure::from_errno(errno, path))?;
        let stat = fstat(&file).map_err(|errno| Failure::from_errno(errno, path))?;
        require_regular(&stat, path)?;
        Self::begin(id, file, &stat, path, limit)
    }

    /// Begins with a regular file that is open.
    pub(crate) fn begin(id: u32, file: OwnedFd, stat: &RawStat, path: &str, limit: u64) -> Result<Self, Failure> {
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > limit {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!("{path}: {size} bytes are more than the limit of {limit}"),
            ));
        }
        Ok(Self { id, file, credit: WINDOW, sent: 0, limit })
    }

    pub(crate) fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes).min(WINDOW);
    }

    pub(crate) fn can_go_on(&self) -> bool {
        self.credit > 0
    }

    /// Sends one chunk; true when the file is done.
    pub(crate) fn serve(&mut self, outbox: &mut Outbox) -> Result<bool, Failure> {
        let mut buffer = vec![0; MAX_CHUNK.min(usize::try_from(self.credit).unwrap_or(MAX_CHUNK))];
        let count = match read(&self.file, &mut buffer) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(Failure::from_errno(errno, "cannot read on")),
        };
        if count == 0 {
            outbox.in_order(&Guest::Done { id: self.id, bytes: self.sent });
            return Ok(true);
        }
        buffer.truncate(count);
        let taken = u32::try_from(count).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_sub(taken);
        self.sent += u64::from(taken);
        // A file may grow while it is read, and some say that they are empty: the limit is of what is sent.
        if self.sent > self.limit {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!("the file is larger than the limit of {} bytes", self.limit),
            ));
        }
        outbox.in_order(&Guest::Output { id: self.id, stream: Stream::Out, bytes: buffer });
        Ok(false)
    }
}

impl Writing {
    pub(crate) fn open(id: u32, path: &str, mode: WriteMode, permissions: u32) -> Result<Self, Failure> {
        check_path(path)?;
        make_parents(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = match mode {
            WriteMode::Replace => flags,
            WriteMode::Append => flags | OFlags::APPEND,
        };
        let file = match openat(CWD, path, flags, Mode::from_raw_mode(permissions & 0o7777)) {
            Ok(file) => file,
            // A pipe that nobody reads.
            Err(Errno::NXIO) => {
                return Err(Failure::new(FailureKind::NotRegular, format!("{path}: is not a regular file")));
            }
            Err(errno) => return Err(Failure::from_errno(errno, path)),
        };
        let stat = fstat(&file).map_err(|errno| Failure::from_errno(errno, path))?;
        require_regular(&stat, path)?;
        if mode == WriteMode::Replace {
            // Only now: truncating on open would have touched what turns out not to be a regular file.
            rustix::fs::ftruncate(&file, 0).map_err(|errno| Failure::from_errno(errno, path))?;
        }
        Ok(Self { id, file, path: path.to_owned(), written: 0, landing: None })
    }

    /// Into a file that takes its name at the end.
    pub(crate) fn landing(id: u32, file: OwnedFd, path: String, landing: Landing) -> Self {
        Self { id, file, path, written: 0, landing: Some(landing) }
    }

    pub(crate) fn take(&mut self, mut bytes: &[u8], outbox: &mut Outbox) -> Result<(), Failure> {
        let credit = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        while !bytes.is_empty() {
            match write(&self.file, bytes) {
                Ok(count) => {
                    self.written += u64::try_from(count).unwrap_or(u64::MAX);
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure::from_errno(errno, &self.path)),
            }
        }
        outbox.urgent(&Guest::Credit { id: self.id, bytes: credit });
        Ok(())
    }

    pub(crate) fn finish(mut self, outbox: &mut Outbox) -> Result<(), Failure> {
        if let Some(landing) = &mut self.landing {
            landing.land(&self.path)?;
        }
        outbox.in_order(&Guest::Done { id: self.id, bytes: self.written });
        Ok(())
    }
}

fn make_parents(path: &str) -> Result<(), Failure> {
    let parents: Vec<&Path> =
        Path::new(path).ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()).collect();
    for parent in parents.into_iter().rev() {
        match mkdirat(CWD, parent, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST | Errno::ISDIR) => {}
            Err(errno) => return Err(Failure::from_errno(errno, path)),
        }
    }
    Ok(())
}

pub(crate) fn stat_of(raw: &RawStat) -> Stat {
    let kind = match FileType::from_raw_mode(raw.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    Stat { kind, size: u64::try_from(raw.st_size).unwrap_or(0), permissions: raw.st_mode & 0o7777 }
}

/// What is at `path`; a link itself, not what it leads to.
pub(crate) fn stat(path: &str) -> Result<Option<Stat>, Failure> {
    check_path(path)?;
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(raw) => Ok(Some(stat_of(&raw))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(Failure::from_errno(errno, path)),
    }
}

/// Entries per frame, and entries at all: a directory is the workload's to fill.
const ENTRIES_PER_FRAME: usize = 512;

/// Opens a directory to look at what is in it.
pub(crate) fn open_directory(path: &str) -> Result<OwnedFd, Failure> {
    check_path(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| Failure::from_errno(errno, path))
}

/// What is in a directory, in parts.
pub(crate) fn list(id: u32, path: &str, outbox: &mut Outbox) -> Result<(), Failure> {
    send_entries(id, &open_directory(path)?, path, outbox)
}

/// The entries of a directory that is open.
pub(crate) fn send_entries(id: u32, directory: &OwnedFd, path: &str, outbox: &mut Outbox) -> Result<(), Failure> {
    let mut entries = Vec::new();
    each_entry(directory, path, |entry| {
        entries.push(entry);
        if entries.len() == ENTRIES_PER_FRAME {
            outbox.in_order(&Guest::Entries { id, entries: std::mem::take(&mut entries), last: false });
        }
        Ok(())
    })?;
    outbox.in_order(&Guest::Entries { id, entries, last: true });
    Ok(())
}

/// Every entry of a directory that is open, one after the other.
pub(crate) fn each_entry(
    directory: &OwnedFd,
    path: &str,
    mut each: impl FnMut(Entry) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |errno: Errno| Failure::from_errno(errno, path);
    let (mut count, mut bytes) = (0, 0);
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        (count, bytes) = (count + 1, bytes + name.to_bytes().len());
        if count > MAX_LISTED || bytes > MAX_LISTED_BYTES {
            let message = format!("{path}: more than {MAX_LISTED} entries, or {MAX_LISTED_BYTES} bytes of names");
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        // It may be gone meanwhile.
        let Ok(raw) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        each(Entry { name: name.to_bytes().to_vec(), stat: stat_of(&raw) })?;
    }
    Ok(())
}
