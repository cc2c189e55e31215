//! The directories of programs and settings, as they were: for whoever judges what an agent left.
//!
//! An agent may have replaced the shell, a library or the linker's settings. In a scene these are the image's again, each a
//! mount of its own over whatever the agent has there; everything else is as the agent left it.
//!
//! Two more things in `/` are not the agent's: names that programs look for in every directory above the one that they
//! work in, and whatever would keep the scene's own mounts from their places.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::home::Rights;

/// What programs are started from, load and read by default. The host's /usr is a mount of its own anyway.
const SYSTEM: [&str; 8] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "usr"];

/// Names that interpreters and build tools look for in every directory above the one that they work in, `/` included, and
/// take code or settings from. `pyvenv.cfg` is looked for beside and above the program itself: above `/bin/python3` is `/`.
pub const SEARCHED_ABOVE: [&str; 34] = [
    ".bazelrc",
    ".cargo",
    ".config",
    ".deno",
    ".env",
    ".git",
    ".hg",
    ".mise.toml",
    ".mvn",
    ".node-version",
    ".npmrc",
    ".pnp.cjs",
    ".python-version",
    ".ruby-version",
    ".tool-versions",
    ".yarnrc",
    ".yarnrc.yml",
    "Cargo.toml",
    "Gemfile",
    "Rakefile",
    "conftest.py",
    "deno.json",
    "go.mod",
    "go.work",
    "mise.toml",
    "node_modules",
    "package.json",
    "pyproject.toml",
    "pytest.ini",
    "pyvenv.cfg",
    "rust-toolchain",
    "rust-toolchain.toml",
    "setup.cfg",
    "tox.ini",
];
/// The longest file that is put back in the place of what an agent has there.
const MAX_FILE: u64 = 4 << 20;

/// What lies over a name that an agent may have changed.
pub(super) enum Cover {
    /// Nothing was there.
    Nothing,
    /// A link.
    Link(PathBuf),
    /// A copy of this file.
    File(PathBuf),
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
            Self::File(original) => {
                let mut open = fs::OpenOptions::new();
                let file = open.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(original)?;
                let mut bytes = Vec::new();
                file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
                if u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_FILE) {
                    fs::write(path, bytes).map(|()| true)
                } else {
                    Err(io::Error::from_raw_os_error(libc::EFBIG))
                }
            }
            // Whatever the agent has in its place, the mount finds a directory.
            Self::Directory(_) => fs::create_dir(path).map(|()| true),
        }
    }
}

/// What was at these names in layers that no agent has written to. `left` are the layers that are judged: of names that are
/// only searched for, those that none of them has need no cover.
pub(super) fn covers(
    layers: &[PathBuf],
    left: &[PathBuf],
    has_host: bool,
    rights: Rights,
) -> io::Result<Vec<(&'static str, Cover)>> {
    let is_left = |name: &&str| left.iter().any(|layer| fs::symlink_metadata(layer.join(name)).is_ok());
    let system = SYSTEM.into_iter().filter(|name| !has_host || *name != "usr");
    let names = system.chain(SEARCHED_ABOVE.into_iter().filter(is_left));
    names.map(|name| Ok((name, found(layers, name, rights)?))).collect()
}

/// Whether a path inside lies in a directory of programs and settings.
pub fn is_system(path: &str) -> bool {
    path.split('/').find(|part| !part.is_empty()).is_some_and(|first| SYSTEM.contains(&first))
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
        } else if directories.is_empty() && kind.is_file() {
            return Ok(Cover::File(path));
        } else {
            // Removed, or something that is no place for programs.
            debug_assert!(!kind.is_char_device() || metadata.rdev() == 0);
            break;
        }
    }
    // Settings are ours to make even where an image has none.
    Ok(if directories.is_empty() && name != "etc" { Cover::Nothing } else { Cover::Directory(directories) })
}

/// Something in the layers that a mount's place would run into.
pub(super) struct Obstacle {
    /// Directories above it that the layers have, relative to the root, with their modes, the outermost first.
    above: Vec<(PathBuf, u32)>,
    /// Where it is, relative to the root.
    at: PathBuf,
    /// Whether a file is to be mounted there.
    with_file: bool,
}

/// The first thing on the way to `target` that is not a directory, or at its end not of the mount's own kind. An agent can
/// rename the directory around a mount, and leave a link or a file under its name.
pub(super) fn obstacle(
    layers: &[PathBuf],
    target: &str,
    to_file: bool,
    rights: Rights,
) -> io::Result<Option<Obstacle>> {
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty()).collect();
    let mut merged: Vec<PathBuf> = layers.to_vec();
    let (mut above, mut at) = (Vec::new(), PathBuf::new());
    for (number, part) in parts.iter().enumerate() {
        at.push(part);
        let mut inner = Vec::new();
        let mut mode = 0;
        for directory in &merged {
            // Only ever one name below a directory that was looked at itself: no link is followed.
            let path = directory.join(part);
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let kind = metadata.file_type();
            if kind.is_dir() {
                if inner.is_empty() {
                    mode = metadata.mode() & 0o7777;
                }
                let opaque = rustix::fs::getxattr(&path, rights.opaque(), &mut [0; 1]).is_ok();
                inner.push(path);
                if opaque {
                    break;
                }
                continue;
            }
            let removed = kind.is_char_device() && metadata.rdev() == 0;
            let fits = kind.is_file() && to_file && number + 1 == parts.len();
            if inner.is_empty() && !removed && !fits {
                return Ok(Some(Obstacle { above, at, with_file: to_file && number + 1 == parts.len() }));
            }
            break;
        }
        if inner.is_empty() {
            // Nothing is there, or the file that the mount covers.
            return Ok(None);
        }
        if to_file && number + 1 == parts.len() {
            return Ok(Some(Obstacle { above, at, with_file: true }));
        }
        above.push((at.clone(), mode));
        merged = inner;
    }
    Ok(None)
}

impl Obstacle {
    /// Puts an empty directory or file into a writable layer in its place; returns what was made and needs an owner.
    pub(super) fn cover(&self, upper: &Path) -> io::Result<Vec<PathBuf>> {
        let mut made = Vec::new();
        for (directory, mode) in &self.above {
            let path = upper.join(directory);
            match fs::create_dir(&path) {
                Ok(()) => {
                    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(*mode))?;
                    made.push(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let path = upper.join(&self.at);
        let put = if self.with_file { fs::write(&path, []) } else { fs::create_dir(&path) };
        match put {
            Ok(()) => made.push(path),
            // For another mount with the same directory above it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(made)
    }
}
