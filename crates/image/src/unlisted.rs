//! Directories that a layer has something in but does not list. They are as they are below: a layer with only `tmp/x` in
//! it does not make `/tmp` another directory.
//!
//! Layers are shared and know nothing of each other, so an unpacked one has something of its own there, which would hide
//! what is below. An image that has such directories gets one more layer on top, of nothing but directories as they
//! should be.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, mkdirat,
    open, openat2, utimensat,
};
use rustix::io::Errno;
use rustix::thread::{Gid, Uid};

use crate::digest::Digest;
use crate::unpack::{Rights, is_kept, refused, time};

/// More than any tool leaves out; who has more wants to keep us busy.
const MAX: usize = 100_000;
/// A few seconds of work.
const MAX_STEPS: usize = 1_000_000;

/// One unpacked layer.
pub(crate) struct Below {
    root: OwnedFd,
    unlisted: BTreeSet<PathBuf>,
}

/// What a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Attributes {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, u32),
    extended: BTreeMap<String, Vec<u8>>,
}

/// What one layer says about a path.
enum Said {
    /// Nothing; what is below shows, or does not.
    Nothing { opaque: bool },
    /// It is a directory here; below, it is one only if nothing above it is opaque.
    Directory { directory: OwnedFd, opaque_above: bool },
    /// Something else is here, or above it.
    Hidden,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Below {
    pub(crate) fn new(root: &Path, unlisted: BTreeSet<PathBuf>) -> io::Result<Self> {
        Ok(Self { root: open(root, DIRECTORY, Mode::empty())?, unlisted })
    }

    /// Links are not followed: a program that lists a directory does not come here by one.
    fn says(&self, path: &Path, rights: Rights) -> io::Result<Said> {
        // An opaque directory hides what is in it below, and is still the same directory.
        let (mut opaque_above, mut opaque) = (false, false);
        let mut ancestors: Vec<&Path> = path.ancestors().filter(|above| !above.as_os_str().is_empty()).collect();
        ancestors.reverse();
        let mut found = None;
        for path in ancestors {
            let strictly = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let directory = match openat2(&self.root, path, DIRECTORY, Mode::empty(), strictly) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => return Ok(Said::Nothing { opaque }),
                // The last is a plain user's own, closed to the user: nothing can be said, and nothing is changed.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(Said::Hidden),
                Err(error) => return Err(error.into()),
            };
            opaque_above = opaque;
            opaque = opaque || fgetxattr(&directory, rights.opaque(), &mut [0; 8]).is_ok();
            found = Some(directory);
        }
        Ok(found.map_or(Said::Hidden, |directory| Said::Directory { directory, opaque_above }))
    }
}

fn attributes(directory: BorrowedFd<'_>) -> io::Result<Attributes> {
    let stat = fstat(directory)?;
    let mut names = vec![0; 64 << 10];
    let count = flistxattr(directory, &mut names[..])?;
    let mut extended = BTreeMap::new();
    for name in names[..count].split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        if is_kept(name, Rights::User) {
            let mut value = vec![0; 64 << 10];
            let count = fgetxattr(directory, name, &mut value[..])?;
            value.truncate(count);
            extended.insert(name.to_owned(), value);
        }
    }
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let mtime = (stat.st_mtime, nanoseconds);
    Ok(Attributes { mode: stat.st_mode & 0o7777, owner: (stat.st_uid, stat.st_gid), mtime, extended })
}

/// What shows at a path, of layers from the top one down: the first that lists it says. `None` where nobody lists it, and
/// where the first that has it does.
fn hidden_below(layers: &[Below], path: &Path, rights: Rights) -> io::Result<Option<Attributes>> {
    let mut is_first = true;
    for layer in layers {
        match layer.says(path, rights)? {
            Said::Hidden | Said::Nothing { opaque: true } => return Ok(None),
            Said::Nothing { opaque: false } => {}
            Said::Directory { directory, opaque_above } => {
                if !layer.unlisted.contains(path) {
                    return if is_first { Ok(None) } else { attributes(directory.as_fd()).map(Some) };
                }
                if opaque_above {
                    return Ok(None);
                }
                is_first = false;
            }
        }
    }
    Ok(None)
}

/// What shows at a path without us.
fn shown(layers: &[Below], path: &Path, rights: Rights) -> io::Result<Attributes> {
    for layer in layers {
        if let Said::Directory { directory, .. } = layer.says(path, rights)? {
            return attributes(directory.as_fd());
        }
    }
    Err(refused("a directory of a layer is gone"))
}

/// Makes that layer in the empty directory `root`, and says what it is called; `None` if there is nothing to make.
pub(crate) fn make(layers: &[Below], root: &Path, rights: Rights) -> io::Result<Option<Digest>> {
    let mut wanted: BTreeMap<PathBuf, Attributes> = BTreeMap::new();
    let candidates: BTreeSet<&PathBuf> = layers.iter().flat_map(|layer| &layer.unlisted).collect();
    if candidates.len() > MAX {
        return Err(refused("more directories than the limit are not listed"));
    }
    // Every one is looked for in every layer, from the root on.
    let steps: usize = candidates.iter().map(|path| path.components().count() * layers.len()).sum();
    if steps > MAX_STEPS {
        return Err(refused("too many directories, too deep, in too many layers, are not listed"));
    }
    for path in candidates {
        if let Some(attributes) = hidden_below(layers, path, rights)? {
            wanted.insert(path.clone(), attributes);
        }
    }
    let above: BTreeSet<PathBuf> =
        wanted.keys().flat_map(|path| path.ancestors().skip(1).map(Path::to_owned)).collect();
    for path in above.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        if let Entry::Vacant(vacant) = wanted.entry(path) {
            let attributes = shown(layers, vacant.key(), rights)?;
            vacant.insert(attributes);
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let root = open(root, DIRECTORY, Mode::empty())?;
    let mut description = String::from("directories/1\n");
    // In this order a directory comes before what is in it; its time is set when nothing more comes.
    for path in wanted.keys() {
        mkdirat(&root, path, Mode::from_raw_mode(0o700))?;
    }
    for (path, attributes) in wanted.iter().rev() {
        let _ = writeln!(description, "{:?} {attributes:?}", path.as_os_str().as_bytes());
        set(root.as_fd(), path.as_os_str(), attributes, rights)?;
    }
    Ok(Some(Digest::of(description.as_bytes())))
}

fn set(root: BorrowedFd<'_>, path: &OsStr, attributes: &Attributes, rights: Rights) -> io::Result<()> {
    let directory = openat2(root, path, DIRECTORY, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?;
    if rights == Rights::Root {
        let (uid, gid) = attributes.owner;
        fchown(&directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    for (name, value) in &attributes.extended {
        fsetxattr(&directory, name, value, XattrFlags::empty())?;
    }
    fchmod(&directory, Mode::from_raw_mode(attributes.mode))?;
    Ok(utimensat(&directory, "", &time(attributes.mtime), AtFlags::EMPTY_PATH)?)
}

/// From what the store keeps: each with a zero behind it.
pub(crate) fn read(bytes: &[u8]) -> BTreeSet<PathBuf> {
    let paths = bytes.split(|&byte| byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}
