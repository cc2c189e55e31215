//! What a sandbox changed of its image, read from the writable layers themselves: overlay(5)'s whiteouts and opaque
//! directories, merged where one layer lies on another, in an order that depends on nothing but names.
//!
//! The tree is a stranger's work. No link is followed, nothing but regular files is opened, and depth has a limit.

mod archive;
mod copy;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fgetxattr, flistxattr, openat, readlinkat, statat};
use rustix::io::Errno;

pub(crate) use archive::Archive;
pub(crate) use copy::Copy;

const MAX_DEPTH: usize = 256;
const MAX_ATTRIBUTES: usize = 64 << 10;

/// The writable layers of one mount of a sandbox, the top one first, and where that mount lies in it.
pub(crate) struct Stack {
    pub(crate) place: &'static str,
    pub(crate) layers: Vec<OwnedFd>,
    /// The image's own layers below them, the top one first: only what is there can be removed.
    pub(crate) base: Vec<OwnedFd>,
    /// How their overlay marks a directory that hides what lies below it. The other spelling is anybody's to write.
    pub(crate) opaque: &'static str,
    /// The owner that counts as 0: where a layer cannot be shown through a mapping, the first id of its sandbox.
    pub(crate) first_id: u32,
}

/// What is kept of a file beside its content.
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: (i64, u32),
    pub(crate) size: u64,
    pub(crate) extended: Vec<(String, Vec<u8>)>,
}

/// Who takes the changes.
pub(crate) trait Sink {
    fn directory(&mut self, name: &Path, attributes: &Attributes, opaque: bool) -> io::Result<()>;
    fn whiteout(&mut self, name: &Path) -> io::Result<()>;
    fn file(&mut self, name: &Path, attributes: &Attributes, content: File) -> io::Result<()>;
    fn hard_link(&mut self, name: &Path, first: &Path) -> io::Result<()>;
    fn symlink(&mut self, name: &Path, attributes: &Attributes, target: &OsStr) -> io::Result<()>;
    fn fifo(&mut self, name: &Path, attributes: &Attributes) -> io::Result<()>;
}

/// Hands every change of a stack to a sink, parents before what is in them.
pub(crate) fn walk(stack: &Stack, sink: &mut dyn Sink) -> io::Result<()> {
    let mut walk = Walk { sink, opaque: stack.opaque, first_id: stack.first_id, seen: HashMap::new() };
    let name = PathBuf::from(stack.place);
    if !stack.place.is_empty() {
        let top = stack.layers.first().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let stat = rustix::fs::fstat(top)?;
        walk.sink.directory(&name, &attributes(&stat, stack.first_id, Some(top))?, false)?;
    }
    walk.directory(&stack.layers, &stack.base, &name, 0)
}

struct Walk<'a> {
    sink: &'a mut dyn Sink,
    opaque: &'static str,
    first_id: u32,
    /// The first name of a file that has several.
    seen: HashMap<(u64, u64), PathBuf>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_whiteout(stat: &Stat) -> bool {
    kind(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

impl Walk<'_> {
    /// One directory, of which every layer in `layers` has a part; nothing that lies below shows through an opaque one.
    fn directory(&mut self, layers: &[OwnedFd], base: &[OwnedFd], name: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(invalid("a directory is too deep"));
        }
        let mut entries: BTreeMap<OsString, Vec<(usize, Stat)>> = BTreeMap::new();
        for (number, layer) in layers.iter().enumerate() {
            for entry in Dir::read_from(layer)? {
                let entry = entry?;
                let file = OsString::from_vec(entry.file_name().to_bytes().to_vec());
                if file == "." || file == ".." {
                    continue;
                }
                let stat = statat(layer, &file, AtFlags::SYMLINK_NOFOLLOW)?;
                entries.entry(file).or_default().push((number, stat));
            }
        }
        for (file, found) in entries {
            self.entry((layers, base), &name.join(&file), &file, &found, depth)?;
        }
        Ok(())
    }

    /// What the topmost layer says of a name counts; directories are merged as far down as they are ones.
    fn entry(
        &mut self,
        (layers, base): (&[OwnedFd], &[OwnedFd]),
        name: &Path,
        file: &OsStr,
        found: &[(usize, Stat)],
        depth: usize,
    ) -> io::Result<()> {
        let Some((number, stat)) = found.first() else { return Ok(()) };
        let layer = &layers[*number];
        if is_whiteout(stat) {
            // Of something that only ever was in these layers, nothing is left to say. A mark without need would even show:
            // the kernel looks for marks only in directories that it merges.
            return if exists(base, file) { self.sink.whiteout(name) } else { Ok(()) };
        }
        match kind(stat) {
            FileType::Directory => {
                let mut parts = Vec::new();
                let mut opaque = false;
                for (number, stat) in found {
                    if kind(stat) != FileType::Directory {
                        opaque = true;
                        break;
                    }
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let part = openat(&layers[*number], file, flags, Mode::empty())?;
                    opaque = is_opaque(&part, self.opaque);
                    parts.push(part);
                    if opaque {
                        break;
                    }
                }
                self.sink.directory(name, &attributes(stat, self.first_id, parts.first())?, opaque)?;
                let below = if opaque { Vec::new() } else { parts_below(base, file, self.opaque)? };
                self.directory(&parts, &below, name, depth + 1)
            }
            FileType::RegularFile => {
                let one = (stat.st_dev, stat.st_ino);
                if let Some(first) = self.seen.get(&one) {
                    return self.sink.hard_link(name, first);
                }
                if stat.st_nlink > 1 {
                    self.seen.insert(one, name.to_owned());
                }
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let content = openat(layer, file, flags, Mode::empty())?;
                self.sink.file(name, &attributes(stat, self.first_id, Some(&content))?, content.into())
            }
            FileType::Symlink => {
                let target = readlinkat(layer, file, Vec::new())?;
                self.sink.symlink(name, &attributes(stat, self.first_id, None)?, OsStr::from_bytes(target.to_bytes()))
            }
            FileType::Fifo => self.sink.fifo(name, &attributes(stat, self.first_id, None)?),
            // A socket is nothing without who listens; devices cannot be made.
            _ => Ok(()),
        }
    }
}

/// Whether the image has something of this name here.
fn exists(base: &[OwnedFd], file: &OsStr) -> bool {
    let found = base.iter().find_map(|layer| statat(layer, file, AtFlags::SYMLINK_NOFOLLOW).ok());
    found.is_some_and(|stat| !is_whiteout(&stat))
}

/// The parts of one of the image's directories, as far down as they are merged.
fn parts_below(base: &[OwnedFd], file: &OsStr, mark: &str) -> io::Result<Vec<OwnedFd>> {
    let mut parts = Vec::new();
    for layer in base {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(layer, file, flags, Mode::empty()) {
            Ok(part) => {
                let opaque = is_opaque(&part, mark);
                parts.push(part);
                if opaque {
                    break;
                }
            }
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR | Errno::LOOP) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(parts)
}

fn is_opaque(directory: impl AsFd, mark: &str) -> bool {
    let mut value = [0; 1];
    fgetxattr(&directory, mark, &mut value).is_ok_and(|length| length == 1 && value[0] == b'y')
}

/// Maps a host id to the sandbox's id; ids outside of its range become the overflow id, as the kernel shows them inside.
fn inner(id: u32, first: u32) -> u32 {
    const OVERFLOW_ID: u32 = 65_534;
    if first == 0 { id } else { id.checked_sub(first).filter(|&id| u16::try_from(id).is_ok()).unwrap_or(OVERFLOW_ID) }
}

fn attributes(stat: &Stat, first_id: u32, file: Option<&OwnedFd>) -> io::Result<Attributes> {
    Ok(Attributes {
        mode: stat.st_mode & 0o7777,
        uid: inner(stat.st_uid, first_id),
        gid: inner(stat.st_gid, first_id),
        mtime: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        extended: file.map(extended).transpose()?.unwrap_or_default(),
    })
}

/// What users set, and file capabilities; the overlay's own marks are not the sandbox's.
fn extended(file: &OwnedFd) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut names = vec![0; MAX_ATTRIBUTES];
    let length = flistxattr(file, &mut names[..])?;
    let mut found = Vec::new();
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let user = name.strip_prefix("user.").is_some_and(|rest| !rest.starts_with("overlay."));
        if user || name == "security.capability" {
            let mut value = vec![0; MAX_ATTRIBUTES];
            let length = fgetxattr(file, name, &mut value[..])?;
            value.truncate(length);
            found.push((name.to_owned(), value));
        }
    }
    found.sort();
    Ok(found)
}
