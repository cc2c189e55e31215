//! Makes a part of the file system from the items of a tree.
//!
//! Items come from a sandbox that an agent was root in. Names are single names (`wire` checks that), each is opened from its
//! directory, and no link is followed; entries in `/` are admitted by name.

use std::collections::HashSet;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fchown, fstat,
    ftruncate, futimens, linkat, mkdirat, mknodat, openat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pwrite};
use wire::{FailureKind, Item, MAX_DEPTH, MAX_TREE_CHUNK, Meta, Part, Unchanged};

use super::send_tree::unchanged;
use super::tree::{is_engines, is_system, shown};
use crate::failure::Failure;

/// Makes a part of the file system from standard input.
pub(super) fn take(part: Part, declared: &[String], shared: &[String]) -> Result<(), Failure> {
    // It removes what the tree does not have.
    if !crate::started::has_own_root() {
        return Err(Failure::new(FailureKind::PermissionDenied, "a process without isolation has the host's files"));
    }
    let root = open_directory(CWD, b"/").map_err(|errno| Failure::from_errno(errno, "/"))?;
    let mut taker = Taker {
        input: BufReader::with_capacity(MAX_TREE_CHUNK, io::stdin().lock()),
        part,
        declared: declared.iter().map(|name| name.as_bytes().to_vec()).collect(),
        shared: shared.iter().flat_map(|path| mount_paths(path)).collect(),
        levels: vec![Level { directory: root, named: HashSet::new(), meta: None, name: Vec::new() }],
        ignored: 0,
        buffer: vec![0; MAX_TREE_CHUNK],
    };
    taker.run()
}

/// A directory that was entered.
struct Level {
    directory: OwnedFd,
    /// What was named in it.
    named: HashSet<Vec<u8>>,
    meta: Option<Meta>,
    name: Vec<u8>,
}

struct Taker<R> {
    input: R,
    part: Part,
    declared: HashSet<Vec<u8>>,
    /// Mounts that the sender has too.
    shared: HashSet<Vec<Vec<u8>>>,
    /// The root, and the directories that were entered below it.
    levels: Vec<Level>,
    /// How many directories were entered that are not made.
    ignored: usize,
    buffer: Vec<u8>,
}

fn invalid(what: &str) -> Failure {
    Failure::new(FailureKind::Invalid, format!("a tree that makes no sense: {what}"))
}

fn open_directory(parent: impl std::os::fd::AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

impl<R: Read> Taker<R> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let item = Item::read(&mut self.input).map_err(|error| Failure::from_io(&error, "reading a tree"))?;
            match item {
                Item::Finish if self.levels.len() == 1 && self.ignored == 0 => return self.finish(),
                Item::Finish => return Err(invalid("it ends in a directory")),
                Item::Directory { name, meta } => self.enter(name, meta)?,
                Item::Leave { whole } => self.leave(whole)?,
                Item::File { name, meta, size } => self.file(&name, &meta, size)?,
                Item::Data { .. } | Item::FileEnd => return Err(invalid("bytes of no file")),
                Item::Link { name, meta, target } => self.make(&name, |level, name| {
                    symlinkat(&*target, &level.directory, name)?;
                    let (uid, gid) = owner(&meta);
                    chownat(&level.directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
                    utimensat(&level.directory, name, &times(&meta), AtFlags::SYMLINK_NOFOLLOW)
                })?,
                Item::Pipe { name, meta } => self.make(&name, |level, name| {
                    mknodat(&level.directory, name, FileType::Fifo, Mode::from_raw_mode(meta.mode & 0o777), 0)?;
                    let (uid, gid) = owner(&meta);
                    chownat(&level.directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                })?,
                Item::Name { name, first } => self.link(&name, &first)?,
                Item::Kept { name, unchanged } => self.kept(&name, unchanged)?,
                // In `/`, a name that this part does not admit stays unnamed: hard links lead to what is below named ones.
                Item::Skipped { name } => drop(self.note(&name, true)?),
            }
        }
    }

    fn top(&mut self) -> Result<&mut Level, Failure> {
        self.levels.last_mut().ok_or_else(|| invalid("it leaves the root"))
    }

    fn shown(&self, name: &[u8]) -> String {
        shown(self.levels.iter().skip(1).map(|level| &*level.name).chain([name]))
    }

    fn refused(&self, errno: Errno, name: &[u8]) -> Failure {
        Failure::from_errno(errno, &self.shown(name))
    }

    /// Whether an entry of `/` belongs to this part. Directories must be there already, or declared.
    fn admits(&self, name: &[u8], is_directory: bool) -> bool {
        let Some(root) = self.levels.first().filter(|_| !is_engines(name)) else { return false };
        match self.part {
            Part::System => true,
            Part::Data if !is_directory || is_system(name) => false,
            Part::Data => match statat(&root.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => is_a_directory(&stat),
                Err(_) => self.declared.contains(name),
            },
        }
    }

    fn is_shared(&self, name: &[u8]) -> bool {
        let path = self.levels.iter().skip(1).map(|level| level.name.clone()).chain([name.to_vec()]);
        !self.shared.is_empty() && self.shared.contains(&path.collect::<Vec<_>>())
    }

    /// Notes an entry; false if it is not made.
    fn note(&mut self, name: &[u8], is_directory: bool) -> Result<bool, Failure> {
        if self.ignored > 0 || (self.levels.len() == 1 && !self.admits(name, is_directory)) {
            return Ok(false);
        }
        self.top()?.named.insert(name.to_vec());
        Ok(true)
    }

    fn enter(&mut self, name: Vec<u8>, meta: Meta) -> Result<(), Failure> {
        if self.levels.len() + self.ignored > MAX_DEPTH + 1 {
            return Err(invalid("it is too deep"));
        }
        if !self.note(&name, true)? || self.is_shared(&name) {
            self.ignored += 1;
            return Ok(());
        }
        let parent = &self.top()?.directory;
        let entered = match open_directory(parent, &name) {
            Err(Errno::NOTDIR | Errno::LOOP) => remove(parent, &name, 0).and_then(|()| made(parent, &name)),
            Err(Errno::NOENT) => made(parent, &name),
            opened => opened,
        };
        let directory = entered.map_err(|errno| self.refused(errno, &name))?;
        self.levels.push(Level { directory, named: HashSet::new(), meta: Some(meta), name });
        Ok(())
    }

    fn leave(&mut self, whole: bool) -> Result<(), Failure> {
        if self.ignored > 0 {
            self.ignored -= 1;
            return Ok(());
        }
        if self.levels.len() < 2 {
            return Err(invalid("it leaves the root"));
        }
        let Some(level) = self.levels.pop() else { return Err(invalid("it leaves the root")) };
        let done = if whole && self.part == Part::Data { remove_unnamed(&level) } else { Ok(()) };
        let done = done.and_then(|()| match level.meta.map_or(Ok(()), |meta| set(&level.directory, &meta)) {
            // The engine made mount points in a root that nothing inside can write to: their times are its own.
            Err(Errno::ROFS) => Ok(()),
            set => set,
        });
        done.map_err(|errno| self.refused(errno, &level.name))
    }

    /// Makes an entry that is not a directory in the place of what is there.
    fn make(&mut self, name: &[u8], work: impl FnOnce(&Level, &[u8]) -> Result<(), Errno>) -> Result<(), Failure> {
        if !self.note(name, false)? {
            return Ok(());
        }
        let level = self.top()?;
        let made = remove(&level.directory, name, 0).and_then(|()| work(level, name));
        made.map_err(|errno| self.refused(errno, name))
    }

    fn file(&mut self, name: &[u8], meta: &Meta, size: u64) -> Result<(), Failure> {
        let file = if self.note(name, false)? {
            let opened = create(&self.top()?.directory, name);
            let opened = opened.and_then(|file| ftruncate(&file, size).map(|()| file));
            Some(opened.map_err(|errno| self.refused(errno, name))?)
        } else {
            None
        };
        loop {
            let item = Item::read(&mut self.input).map_err(|error| Failure::from_io(&error, "reading a tree"))?;
            match item {
                Item::FileEnd => break,
                Item::Data { offset, length } => {
                    if offset.checked_add(u64::from(length)).is_none_or(|end| end > size) {
                        return Err(invalid("bytes after the end of a file"));
                    }
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    let bytes = self.buffer.get_mut(..length).ok_or_else(|| invalid("too many bytes at once"))?;
                    self.input.read_exact(bytes).map_err(|error| Failure::from_io(&error, "reading a tree"))?;
                    if let Some(file) = &file {
                        write_all(file, bytes, offset).map_err(|errno| self.refused(errno, name))?;
                    }
                }
                _ => return Err(invalid("a file that does not end")),
            }
        }
        match file {
            Some(file) => set(&file, meta).map_err(|errno| self.refused(errno, name)),
            None => Ok(()),
        }
    }

    fn link(&mut self, name: &[u8], first: &[Vec<u8>]) -> Result<(), Failure> {
        let Some((file, above)) = first.split_last() else { return Err(invalid("a name of nothing")) };
        let root = self.levels.first().ok_or_else(|| invalid("it leaves the root"))?;
        // Only below directories of `/` that this tree may write to.
        let inside = above.first().is_some_and(|top| root.named.contains(top));
        if !inside {
            return if self.ignored > 0 { Ok(()) } else { Err(invalid("a name of a file elsewhere")) };
        }
        let mut directory = open_directory(&root.directory, b".").map_err(|errno| self.refused(errno, name))?;
        for part in above {
            directory = open_directory(&directory, part).map_err(|errno| self.refused(errno, name))?;
        }
        self.make(name, |level, name| linkat(&directory, &**file, &level.directory, name, AtFlags::empty()))
    }

    fn kept(&mut self, name: &[u8], expected: Unchanged) -> Result<(), Failure> {
        if !self.note(name, false)? {
            return Ok(());
        }
        let found = statat(&self.top()?.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|stat| !is_a_directory(&stat) && unchanged(&stat) == expected) {
            return Ok(());
        }
        let message = format!("{}: is not the one that was sent as unchanged", self.shown(name));
        Err(Failure::new(FailureKind::Conflict, message))
    }

    /// Removes directories in `/` that the sender does not have.
    fn finish(&mut self) -> Result<(), Failure> {
        let Some(root) = self.levels.first().filter(|_| self.part == Part::Data) else { return Ok(()) };
        let names = entries(&root.directory).map_err(|errno| self.refused(errno, b""))?;
        for name in names {
            if !root.named.contains(&name) && self.admits(&name, true) {
                match remove(&root.directory, &name, 0) {
                    Err(Errno::BUSY) => {}
                    removed => removed.map_err(|errno| self.refused(errno, &name))?,
                }
            }
        }
        Ok(())
    }
}

/// A mount's path as it was given, and where it leads: the image can have links on the way.
fn mount_paths(path: &str) -> impl Iterator<Item = Vec<Vec<u8>>> {
    let real = std::fs::canonicalize(path).ok().map(|real| real.into_os_string().into_vec());
    [Some(path.as_bytes().to_vec()), real]
        .into_iter()
        .flatten()
        .map(|path| path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn is_a_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn made(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
    open_directory(parent, name)
}

/// A new file, or the one that is mounted there, emptied.
fn create(directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match remove(directory, name, 0) {
        Err(Errno::BUSY) => openat(directory, name, flags | OFlags::TRUNC, Mode::empty()),
        removed => {
            removed?;
            openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o600))
        }
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                offset += u64::try_from(count).unwrap_or(u64::MAX);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn owner(meta: &Meta) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))
}

fn times(meta: &Meta) -> Timestamps {
    let time = Timespec { tv_sec: meta.seconds, tv_nsec: i64::from(meta.nanos) };
    Timestamps { last_access: time, last_modification: time }
}

/// Sets what differs, so that a directory of a file system that cannot be written stays without an error.
fn set(file: &OwnedFd, meta: &Meta) -> Result<(), Errno> {
    let stat = fstat(file)?;
    let (uid, gid) = owner(meta);
    let is_owned = (stat.st_uid, stat.st_gid) == (meta.uid, meta.gid);
    if !is_owned {
        fchown(file, uid, gid)?;
    }
    let mode = meta.mode & 0o7777;
    // A change of owner takes setuid bits away.
    if !is_owned || stat.st_mode & 0o7777 != mode {
        match fchmod(file, Mode::from_raw_mode(mode)) {
            // A sandbox with a writable mount sets no setuid bits.
            Err(Errno::PERM) if mode & 0o6000 != 0 => fchmod(file, Mode::from_raw_mode(mode & 0o1777))?,
            set => set?,
        }
    }
    let is_timed = (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)) == (meta.seconds, meta.nanos);
    if is_timed { Ok(()) } else { futimens(file, &times(meta)) }
}

fn entries(directory: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_bytes().to_vec());
        }
    }
    Ok(names)
}

fn remove_unnamed(level: &Level) -> Result<(), Errno> {
    for name in entries(&level.directory)?.into_iter().filter(|name| !level.named.contains(name)) {
        match remove(&level.directory, &name, 0) {
            // A mount of this sandbox's own.
            Err(Errno::BUSY) => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Removes an entry with everything in it; nothing there is no error. `EBUSY` for a mount, whose contents are not touched: they
/// can be the host's.
fn remove(directory: &OwnedFd, name: &[u8], depth: usize) -> Result<(), Errno> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        // POSIX says EPERM for a directory.
        Err(Errno::ISDIR | Errno::PERM) if depth <= MAX_DEPTH => {}
        removed => return removed,
    }
    let inner = open_directory(directory, name)?;
    if fstat(&inner)?.st_dev != fstat(directory)?.st_dev {
        return Err(Errno::BUSY);
    }
    for entry in entries(&inner)? {
        remove(&inner, &entry, depth + 1)?;
    }
    drop(inner);
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(root: &std::path::Path, items: &[Item]) -> Result<(), Failure> {
        let mut stream = Vec::new();
        for item in items {
            item.write(&mut stream).unwrap();
        }
        let directory = open_directory(CWD, root.as_os_str().as_encoded_bytes()).unwrap();
        let mut taker = Taker {
            input: io::Cursor::new(stream),
            part: Part::Data,
            declared: HashSet::new(),
            shared: HashSet::new(),
            levels: vec![Level { directory, named: HashSet::new(), meta: None, name: Vec::new() }],
            ignored: 0,
            buffer: vec![0; MAX_TREE_CHUNK],
        };
        taker.run()
    }

    /// A hard link from the agent's directory to a file of the system: a script that changes the one changes the other.
    #[test]
    fn hard_links_lead_to_no_system_file_whatever_the_sender_skips() {
        let place = std::env::temp_dir().join(format!("ringfence-tree-{}", std::process::id()));
        for directory in ["etc", "data"] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
        }
        std::fs::write(place.join("etc/passwd"), "root").unwrap();
        std::fs::write(place.join("data/own"), "own").unwrap();
        let stat = rustix::fs::stat(place.join("data")).unwrap();
        let meta = Meta { mode: 0o755, uid: stat.st_uid, gid: stat.st_gid, seconds: 1, nanos: 0 };
        let link = |first: [&[u8]; 2]| {
            [
                Item::Skipped { name: b"etc".to_vec() },
                Item::Directory { name: b"data".to_vec(), meta },
                Item::Skipped { name: b"own".to_vec() },
                Item::Name { name: b"linked".to_vec(), first: first.map(<[u8]>::to_vec).to_vec() },
                Item::Leave { whole: true },
                Item::Finish,
            ]
        };
        let refused = taken(&place, &link([b"etc", b"passwd"]));
        let linked_to_system = place.join("data/linked").exists();
        let own = taken(&place, &link([b"data", b"own"]));
        let linked = std::fs::read(place.join("data/linked"));
        std::fs::remove_dir_all(&place).unwrap();
        assert!(refused.is_err() && !linked_to_system, "{refused:?}");
        assert!(own.is_ok() && linked.unwrap() == b"own", "{own:?}");
    }
}
