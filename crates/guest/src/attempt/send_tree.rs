//! Sends a part of the file system as items of a tree. Everything is opened name by name from its directory, and no link is
//! followed.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat, fstat, openat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};
use rustix::time::Timespec;
use wire::{FailureKind, Item, MAX_DEPTH, MAX_TREE_CHUNK, Meta, Part, Unchanged};

use super::tree::{is_engines, is_system, shown};
use crate::failure::Failure;

/// The most bytes of paths that are remembered of files with several names. Further ones are sent once per name.
const MAX_REMEMBERED: usize = 8 << 20;

/// Sends a part of the file system to standard output.
pub(super) fn send(part: Part, shared: &[String], changes_only: bool) -> Result<(), Failure> {
    let since = if changes_only || part == Part::System { crate::started::time() } else { None };
    if part == Part::System && since.is_none() {
        return Err(Failure::new(
            FailureKind::Other,
            "the clock was set since the sandbox started: what changed is not known",
        ));
    }
    let mut sender = Sender {
        out: BufWriter::with_capacity(MAX_TREE_CHUNK, io::stdout().lock()),
        part,
        since,
        shared: shared.iter().map(|path| names(path)).collect(),
        path: Vec::new(),
        firsts: HashMap::new(),
        remembered: 0,
    };
    sender.root()?;
    sender.item(&Item::Finish)?;
    sender.out.flush().map_err(|error| sender.failure(&error))
}

fn names(path: &str) -> Vec<Vec<u8>> {
    path.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
}

struct Sender<W> {
    out: W,
    part: Part,
    /// Entries with an earlier change time did not change.
    since: Option<Timespec>,
    shared: Vec<Vec<Vec<u8>>>,
    /// Where it is, from `/`.
    path: Vec<Vec<u8>>,
    /// The first path of each file with several names in the same directory of `/`, by device and inode.
    firsts: HashMap<(u64, u64), Vec<Vec<u8>>>,
    remembered: usize,
}

impl<W: Write> Sender<W> {
    fn shown(&self) -> String {
        shown(self.path.iter().map(|name| &**name))
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::from_io(error, &self.shown())
    }

    fn refused(&self, errno: Errno) -> Failure {
        Failure::from_errno(errno, &self.shown())
    }

    fn item(&mut self, item: &Item) -> Result<(), Failure> {
        item.write(&mut self.out).map_err(|error| Failure::from_io(&error, "sending a tree"))
    }

    fn root(&mut self) -> Result<(), Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, "/", flags, Mode::empty()).map_err(|errno| self.refused(errno))?;
        self.each(&root, Self::root_entry)
    }

    /// An entry of `/`.
    fn root_entry(&mut self, root: &OwnedFd, name: &CStr, stat: &Stat) -> Result<(), Failure> {
        let bytes = name.to_bytes();
        if is_engines(bytes) {
            return Ok(());
        }
        // A receiver may leave out a whole directory of `/`: a name in another one is sent as a file of its own.
        self.firsts.clear();
        self.remembered = 0;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match (self.part, is_directory) {
            (Part::Data, true) if !is_system(bytes) => self.entry(root, name, stat),
            (Part::System, true) if !is_system(bytes) => {
                if self.is_shared() {
                    return Ok(());
                }
                self.item(&Item::Directory { name: bytes.to_vec(), meta: meta(stat) })?;
                self.item(&Item::Leave { whole: false })
            }
            (Part::System, _) => self.entry(root, name, stat),
            (Part::Data, _) => Ok(()),
        }
    }

    /// Does something with each entry of a directory; `path` has the entry's name at its end meanwhile.
    fn each(
        &mut self,
        directory: &OwnedFd,
        mut work: impl FnMut(&mut Self, &OwnedFd, &CStr, &Stat) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let entries = Dir::read_from(directory).map_err(|errno| self.refused(errno))?;
        for entry in entries {
            let entry = entry.map_err(|errno| self.refused(errno))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.path.push(name.to_bytes().to_vec());
            match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => work(self, directory, name, &stat)?,
                // Gone since it was listed.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.refused(errno)),
            }
            self.path.pop();
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        self.shared.contains(&self.path)
    }

    fn is_unchanged(&self, stat: &Stat) -> bool {
        let Some(since) = self.since else { return false };
        (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(i64::MAX)) < (since.tv_sec, since.tv_nsec)
    }

    fn entry(&mut self, directory: &OwnedFd, name: &CStr, stat: &Stat) -> Result<(), Failure> {
        let bytes = name.to_bytes().to_vec();
        if self.is_shared() {
            return self.item(&Item::Skipped { name: bytes });
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            return self.directory(directory, name, stat);
        }
        if self.is_unchanged(stat) {
            return match self.part {
                Part::System => Ok(()),
                Part::Data => self.item(&Item::Kept { name: bytes, unchanged: unchanged(stat) }),
            };
        }
        match kind {
            FileType::RegularFile => self.file(directory, name, stat),
            FileType::Symlink => {
                let target = readlinkat(directory, name, Vec::new()).map_err(|errno| self.refused(errno))?;
                self.item(&Item::Link { name: bytes, meta: meta(stat), target: target.into_bytes() })
            }
            FileType::Fifo => self.item(&Item::Pipe { name: bytes, meta: meta(stat) }),
            // A socket without its process, and devices, which nothing inside can make.
            _ => Ok(()),
        }
    }

    fn directory(&mut self, parent: &OwnedFd, name: &CStr, stat: &Stat) -> Result<(), Failure> {
        if self.path.len() > MAX_DEPTH {
            let message = format!("{}: directories are nested deeper than {MAX_DEPTH}", self.shown());
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(parent, name, flags, Mode::empty()) {
            // A directory of the host's image that belongs to an unmapped user: setup cannot have changed what is in it.
            Err(Errno::ACCESS) if self.part == Part::System && self.is_unchanged(stat) => return Ok(()),
            opened => opened.map_err(|errno| self.refused(errno))?,
        };
        self.item(&Item::Directory { name: name.to_bytes().to_vec(), meta: meta(stat) })?;
        self.each(&opened, Self::entry)?;
        self.item(&Item::Leave { whole: self.part == Part::Data })
    }

    fn file(&mut self, directory: &OwnedFd, name: &CStr, stat: &Stat) -> Result<(), Failure> {
        let id = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1 {
            if let Some(first) = self.firsts.get(&id) {
                let item = Item::Name { name: name.to_bytes().to_vec(), first: first.clone() };
                return self.item(&item);
            }
            let size: usize = self.path.iter().map(|name| name.len() + size_of::<Vec<u8>>()).sum();
            if self.remembered + size <= MAX_REMEMBERED {
                self.remembered += size;
                self.firsts.insert(id, self.path.clone());
            }
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty()).map_err(|errno| self.refused(errno))?;
        let stat = fstat(&file).map_err(|errno| self.refused(errno))?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.item(&Item::File { name: name.to_bytes().to_vec(), meta: meta(&stat), size })?;
        let mut offset = 0;
        while let Some((start, end)) = self.extent(&file, offset, size)? {
            offset = self.bytes(&file, start, end)?;
        }
        self.item(&Item::FileEnd)
    }

    /// The next bytes of a file that are not a hole.
    fn extent(&self, file: &OwnedFd, from: u64, size: u64) -> Result<Option<(u64, u64)>, Failure> {
        if from >= size {
            return Ok(None);
        }
        let start = match seek(file, SeekFrom::Data(from)) {
            Ok(start) if start < size => start,
            Ok(_) | Err(Errno::NXIO) => return Ok(None),
            // Without holes all of it is data.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((from, size))),
            Err(errno) => return Err(self.refused(errno)),
        };
        let end = seek(file, SeekFrom::Hole(start)).unwrap_or(size);
        Ok(Some((start, end.clamp(start, size))))
    }

    /// Sends the bytes of an extent, and returns where the next one can begin.
    fn bytes(&mut self, file: &OwnedFd, mut offset: u64, end: u64) -> Result<u64, Failure> {
        let mut buffer = vec![0; MAX_TREE_CHUNK];
        while offset < end {
            let most = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
            let count = match pread(file, &mut buffer[..most], offset) {
                // Shorter than it was: the rest is zeros.
                Ok(0) => return Ok(u64::MAX),
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.refused(errno)),
            };
            self.item(&Item::Data { offset, length: u32::try_from(count).unwrap_or(u32::MAX) })?;
            self.out.write_all(&buffer[..count]).map_err(|error| Failure::from_io(&error, "sending a tree"))?;
            offset += u64::try_from(count).unwrap_or(u64::MAX);
        }
        Ok(end)
    }
}

fn meta(stat: &Stat) -> Meta {
    Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        seconds: stat.st_mtime,
        nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    }
}

/// What shows that an entry elsewhere is the same one of the same image.
pub(super) fn unchanged(stat: &Stat) -> Unchanged {
    Unchanged {
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        seconds: stat.st_mtime,
        nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    }
}
