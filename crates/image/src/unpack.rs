//! A layer's archive becomes a directory. Names are resolved inside it by the kernel, so nothing leads out.
//!
//! What is removed from lower layers becomes what overlay(5) calls whiteouts and opaque directories. Devices are never
//! made. Owners are kept where we are root; a plain user's files are the user's, who is root in a sandbox.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, ResolveFlags, Timespec, Timestamps, XattrFlags, chmodat, chownat, fchmod,
    fsetxattr, futimens, linkat, mkdirat, mknodat, open, openat, openat2, renameat, statat, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::Errno;
use rustix::thread::{Gid, Uid};

use crate::directories::Directories;
use crate::entry::{Entry, Kind, read_all};

/// What a layer, and all layers of an image that are unpacked for it, may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a layer's archive, unpacked.
    pub bytes: u64,
    /// Files, directories and links of a layer.
    pub entries: u64,
    /// Bytes of all layers' archives, unpacked.
    pub image_bytes: u64,
    /// Files, directories and links of all layers.
    pub image_entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 20 << 30, entries: 1_000_000, image_bytes: 60 << 30, image_entries: 3_000_000 }
    }
}

/// Who unpacks: root keeps owners and uses the names that only root can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    Root,
    User,
}

impl Rights {
    pub(crate) fn own() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::User }
    }

    pub(crate) fn opaque(self) -> &'static str {
        match self {
            Self::Root => "trusted.overlay.opaque",
            Self::User => "user.overlay.opaque",
        }
    }
}

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const MAX_DEPTH: usize = 256;
/// The earliest: of what an archive says no time of.
const NO_TIME: (i64, u32) = (0, 0);

/// What became of an archive.
pub(crate) struct Unpacked {
    /// Directories that had to be made and are not in it, each with a zero behind it.
    pub(crate) unlisted: Vec<u8>,
    /// Files, directories and links.
    pub(crate) entries: u64,
}

/// Unpacks an archive of at most so many entries into the empty directory `root`.
pub(crate) fn unpack(archive: impl Read, root: &Path, most: u64, rights: Rights) -> io::Result<Unpacked> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, Mode::empty())?;
    let mut layer = Layer { root, rights, left: most, directories: Directories::default() };
    read_all(archive, |entry, content| layer.add(entry, content).map_err(|error| named(&entry.name, &error)))?;
    layer.finish()?;
    Ok(Unpacked { unlisted: layer.directories.unlisted()?, entries: most - layer.left })
}

fn named(name: &[u8], error: &io::Error) -> io::Error {
    let shown: String = String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).take(200).collect();
    io::Error::new(error.kind(), format!("{shown}: {error}"))
}

pub(crate) fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

struct Layer {
    root: OwnedFd,
    rights: Rights,
    left: u64,
    /// What is put into a directory changes its time, and needs the right to: mode and time are set at the end.
    directories: Directories,
}

/// The parts of a name below the root.
fn parts(name: &[u8]) -> io::Result<Vec<&OsStr>> {
    let mut parts = Vec::new();
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(refused("the name leads upwards")),
            part if part.len() > 255 => return Err(refused("a part of the name is too long")),
            part => parts.push(OsStr::from_bytes(part)),
        }
    }
    if parts.len() > MAX_DEPTH { Err(refused("the name is too deep")) } else { Ok(parts) }
}

pub(crate) fn time(seconds: (i64, u32)) -> Timestamps {
    let time = Timespec { tv_sec: seconds.0, tv_nsec: i64::from(seconds.1) };
    Timestamps { last_access: time, last_modification: time }
}

impl Layer {
    /// A directory of the layer, made with its parents where it is not there. Links are followed inside the layer, as
    /// they would be by a program that has it as its root.
    ///
    /// One that the archive does not list has the earliest time, not today's: the same layer is the same tree everywhere.
    fn directory(&mut self, parts: &[&OsStr]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut path = PathBuf::from(".");
        path.extend(parts);
        match open_inside(&self.root, &path, flags) {
            Ok(directory) => return Ok(directory),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let Some((last, above)) = parts.split_last() else { return Err(Errno::NOENT.into()) };
        let parent = self.directory(above)?;
        match mkdirat(&parent, *last, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                // A short archive with deep names would make far more than it has entries.
                self.count()?;
                self.directories.make(parts, 0o755, NO_TIME)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(open_inside(&self.root, &path, flags)?)
    }

    fn count(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| refused("more entries than the limit"))?;
        Ok(())
    }

    fn add(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        self.count()?;
        let parts = parts(&entry.name)?;
        let Some((last, above)) = parts.split_last() else {
            // The layer's own root: its attributes are the sandbox's.
            return Ok(());
        };
        let parent = self.directory(above)?;
        if last.as_bytes() == OPAQUE {
            fsetxattr(&parent, self.rights.opaque(), b"y", XattrFlags::empty())?;
            return Ok(());
        }
        if let Some(hidden) = last.as_bytes().strip_prefix(WHITEOUT) {
            return whiteout(parent.as_fd(), OsStr::from_bytes(hidden));
        }
        match &entry.kind {
            Kind::Device => return Ok(()),
            Kind::Directory => self.make_directory(parent.as_fd(), last, &parts, entry)?,
            kind => {
                remove(parent.as_fd(), last)?;
                match kind {
                    Kind::File => write_file(parent.as_fd(), last, content)?,
                    Kind::Symlink(target) => symlinkat(OsStr::from_bytes(target), &parent, *last)?,
                    Kind::HardLink(target) => return self.link(target, parent.as_fd(), last),
                    Kind::Fifo => mknodat(&parent, *last, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?,
                    Kind::Directory | Kind::Device => {}
                }
                self.set_attributes(parent.as_fd(), last, entry)?;
                utimensat(&parent, *last, &time(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(())
    }

    fn make_directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        parts: &[&OsStr],
        entry: &Entry,
    ) -> io::Result<()> {
        match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) if is_directory(parent, name) => {}
            Err(Errno::EXIST) => {
                remove(parent, name)?;
                mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
            }
            Err(error) => return Err(error.into()),
        }
        self.set_attributes(parent, name, entry)?;
        self.directories.list(parts, entry.mode, entry.mtime)
    }

    fn link(&mut self, target: &[u8], parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        let parts = parts(target)?;
        let Some((last, above)) = parts.split_last() else { return Err(refused("a link to the root")) };
        let from = self.directory(above)?;
        if statat(&from, *last, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_whiteout(&stat)) {
            return Err(refused("a link to what is removed"));
        }
        Ok(linkat(&from, *last, parent, name, AtFlags::empty())?)
    }

    /// Owner first: changing it takes the setuid bit away.
    fn set_attributes(&self, parent: BorrowedFd<'_>, name: &OsStr, entry: &Entry) -> io::Result<()> {
        if self.rights == Rights::Root {
            let id = |number: u64| u32::try_from(number).ok().filter(|id| *id < 65_536);
            let (Some(uid), Some(gid)) = (id(entry.uid), id(entry.gid)) else {
                return Err(refused("an owner beyond the ids of a sandbox (0 to 65535)"));
            };
            chownat(parent, name, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if matches!(entry.kind, Kind::Symlink(_)) {
            return Ok(());
        }
        if !entry.attributes.is_empty() && matches!(entry.kind, Kind::File | Kind::Directory) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(parent, name, flags, Mode::empty())?;
            for (key, value) in entry.attributes.iter().filter(|(key, _)| is_kept(key, self.rights)) {
                fsetxattr(&file, key, value, XattrFlags::empty())?;
            }
        }
        // A directory stays open to us until everything is in it.
        let open = if entry.kind == Kind::Directory { 0o700 } else { 0 };
        Ok(chmodat(parent, name, Mode::from_raw_mode(RawMode::from(entry.mode | open)), AtFlags::empty())?)
    }

    fn finish(&self) -> io::Result<()> {
        // What is in a directory comes before it: afterwards it may be closed.
        for (path, mode, mtime) in self.directories.inner_first() {
            // A later entry may have put something else in its place.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(directory) = open_inside(&self.root, &path, flags) {
                fchmod(&directory, Mode::from_raw_mode(RawMode::from(mode)))?;
                futimens(&directory, &time(mtime))?;
            }
        }
        Ok(())
    }
}

/// Opens a path as a program does that has `root` as its root. The kernel cannot tell that `..` stays inside while anything is
/// renamed or mounted anywhere on the machine (`EAGAIN`, openat2(2)): then it is asked again.
fn open_inside(root: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    const MAX_TRIES: usize = 10_000;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let open = || match openat2(root, path, flags, Mode::empty(), inside) {
        Err(Errno::AGAIN) => None,
        opened => Some(opened),
    };
    (0..MAX_TRIES).find_map(|_| open()).unwrap_or(Err(Errno::AGAIN))
}

/// Users' own attributes and file capabilities. Never those by which an overlay is steered.
pub(crate) fn is_kept(attribute: &str, rights: Rights) -> bool {
    match attribute.split_once('.') {
        Some(("user", rest)) => !rest.starts_with("overlay."),
        Some(("security", "capability")) => rights == Rights::Root,
        _ => false,
    }
}

/// Something of a lower layer is gone.
fn whiteout(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." {
        return Err(refused("a whiteout of nothing"));
    }
    if name.as_bytes().starts_with(WHITEOUT) {
        // Other marks of an old file system; they mean nothing here.
        return Ok(());
    }
    // What this layer itself brings is not what it removes.
    if statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0)?;
        utimensat(parent, name, &time(NO_TIME), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn is_directory(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn is_whiteout(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Whatever is at this name, gone.
fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => remove_tree(parent, name),
        Err(error) => Err(error.into()),
    }
}

/// A directory with everything in it, however deep; never follows a link.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let mut open = vec![name.to_owned()];
    let mut made = 0;
    while let Some(name) = open.pop() {
        remove_below((parent, &mut open, &mut made), parent, &name, 0)?;
    }
    Ok(())
}

/// What lies too deep for one walk is moved up, and removed in its turn.
fn remove_below(
    (top, open, made): (BorrowedFd<'_>, &mut Vec<OsString>, &mut u64),
    parent: BorrowedFd<'_>,
    name: &OsStr,
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        *made += 1;
        let aside = OsString::from(format!(".removed-{}-{made}", std::process::id()));
        renameat(parent, name, top, &aside)?;
        open.push(aside);
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // A plain user's directory without rights is still the user's.
            chmodat(parent, name, Mode::from_raw_mode(0o700), AtFlags::empty())?;
            openat(parent, name, flags, Mode::empty())?
        }
        opened => opened?,
    };
    let _ = fchmod(&directory, Mode::from_raw_mode(0o700));
    let mut entries = rustix::fs::Dir::read_from(&directory)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => remove_below((top, open, made), directory.as_fd(), name, depth + 1)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

fn write_file(parent: BorrowedFd<'_>, name: &OsStr, content: &mut dyn Read) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(openat(parent, name, flags, Mode::from_raw_mode(0o600))?);
    io::copy(content, &mut file)?;
    Ok(())
}
