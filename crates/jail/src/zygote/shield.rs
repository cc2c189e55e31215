//! The directories of programs and settings, as they were: for whoever judges what an agent left.
//!
//! An agent may have replaced the shell, a library or the linker's settings. In a scene these are the image's again, each a
//! mount of its own over whatever the agent has there; everything else is as the agent left it.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::home::Rights;

/// What programs are started from, load and read by default. The host's /usr is a mount of its own anyway.
const SYSTEM: [&str; 8] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "usr"];

/// What lies over a name that an agent may have changed.
pub(super) enum Cover {
    /// Nothing was there.
    Nothing,
    /// A link.
    Link(PathBuf),
    /// These directories, the top one first, as a mount.
    Directory(Vec<PathBuf>),
}

impl Cover {
    /// Puts it into a writable layer; says whether there is something that has an owner.
    pub(super) fn put(&self, path: &Path) -> io::Result<bool> {
        match self {
            // A mark of removal, as the kernel makes it.
            Self::Nothing => {
                mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).map(|()| false).map_err(Into::into)
            }
            Self::Link(target) => {
                symlink(target, path)?;
                lchown(path, Some(0), Some(0)).map(|()| false)
            }
            // Whatever the agent has in its place, the mount finds a directory.
            Self::Directory(_) => fs::create_dir(path).map(|()| true),
        }
    }
}

/// What was at these names in layers that no agent has written to.
pub(super) fn covers(layers: &[PathBuf], has_host: bool, rights: Rights) -> io::Result<Vec<(&'static str, Cover)>> {
    let names = SYSTEM.into_iter().filter(|name| !has_host || *name != "usr");
    names.map(|name| Ok((name, found(layers, name, rights)?))).collect()
}

fn found(layers: &[PathBuf], name: &str, rights: Rights) -> io::Result<Cover> {
    let mut directories = Vec::new();
    for layer in layers {
        let path = layer.join(name);
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            let opaque = rustix::fs::getxattr(&path, rights.opaque(), &mut [0; 1]).is_ok();
            directories.push(path);
            if opaque {
                break;
            }
        } else if directories.is_empty() && kind.is_symlink() {
            return Ok(Cover::Link(fs::read_link(&path)?));
        } else {
            // Removed, or something that is no place for programs.
            debug_assert!(!kind.is_char_device() || metadata.rdev() == 0);
            break;
        }
    }
    // Settings are ours to make even where an image has none.
    Ok(if directories.is_empty() && name != "etc" { Cover::Nothing } else { Cover::Directory(directories) })
}
