//! The scene of a scorer: a root directory from before the agent, and in it the directories that the
//! agent may have written to, as it left them.
//!
//! Programs look for code and settings in every directory above the one that they work in, and always in `/`. By which names
//! they look is not known for all programs, so nothing that the agent made directly in `/` is there: neither files nor
//! directories, unless the task declares the directory. Programs and settings of the system are from before the agent too.
//!
//! Whatever would keep the scene's mounts from their places is covered.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use wire::SYSTEM_DIRECTORIES as SYSTEM;

use super::home::Rights;

/// Mount points of the engine's own file systems.
const ENGINE: [&str; 2] = ["dev", "proc"];

/// The names in `/` that differ from the root directory before the agent.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// Directories that the agent removed, or put something else in their place.
    pub(super) removed: Vec<OsString>,
    /// Directories as the agent left them.
    pub(super) left: Vec<Left>,
}

/// A directory of the root as the agent left it.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) name: OsString,
    /// The top one first.
    pub(super) layers: Vec<PathBuf>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The layers that a scene is made of, the top one first.
pub(super) struct Layers<'a> {
    /// Those that no agent has written to.
    pub(super) before: &'a [PathBuf],
    /// All that are judged.
    pub(super) left: &'a [PathBuf],
    /// Of these, the agent's own.
    pub(super) agent: &'a [PathBuf],
}

impl Scene {
    /// Compares names in `/` before and after the agent. `declared` are directories of the task that need not be there
    /// before; `mounted` are names that a mount lies on.
    ///
    /// Only names from before the agent and declared ones are looked at, so an agent cannot make this long.
    pub(super) fn of(
        layers: &Layers<'_>,
        declared: &BTreeSet<&OsStr>,
        mounted: &BTreeSet<&OsStr>,
        rights: Rights,
    ) -> io::Result<Self> {
        let mut names: BTreeSet<OsString> = declared.iter().map(|name| (*name).to_owned()).collect();
        for layer in layers.before {
            for entry in fs::read_dir(layer)? {
                names.insert(entry?.file_name());
            }
        }
        let mut scene = Self::default();
        // Places of mounts are text: a directory whose name is none is as it was before.
        let is_own = |name: &OsString| {
            SYSTEM.iter().chain(&ENGINE).any(|own| name == own) || mounted.contains(&**name) || name.to_str().is_none()
        };
        for name in names.into_iter().filter(|name| !is_own(name)) {
            if !layers.agent.iter().any(|layer| fs::symlink_metadata(layer.join(&name)).is_ok()) {
                continue;
            }
            let before = Found::of(layers.before, &name, rights)?;
            match (before, Found::of(layers.left, &name, rights)?) {
                (Found::Directories(_), Found::Directories(layers)) => scene.left.push(Left::new(name, layers)?),
                (Found::Directories(_), _) => scene.removed.push(name),
                (Found::Nothing, Found::Directories(layers)) if declared.contains(&*name) => {
                    scene.left.push(Left::new(name, layers)?);
                }
                // What is no directory is as it was, and what was not there is not there.
                (Found::Nothing | Found::Other, _) => {}
            }
        }
        Ok(scene)
    }
}

impl Left {
    fn new(name: OsString, layers: Vec<PathBuf>) -> io::Result<Self> {
        let top = layers.first().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let metadata = fs::symlink_metadata(top)?;
        let (mode, uid, gid) = (metadata.mode() & 0o7777, metadata.uid(), metadata.gid());
        Ok(Self { name, layers, mode, uid, gid })
    }
}

/// A name in layers that lie over each other.
enum Found {
    Nothing,
    /// The directories that are merged, the top one first.
    Directories(Vec<PathBuf>),
    /// Something that is no directory.
    Other,
}

impl Found {
    fn of(layers: &[PathBuf], name: &OsStr, rights: Rights) -> io::Result<Self> {
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
                continue;
            }
            let is_removed = kind.is_char_device() && metadata.rdev() == 0;
            if directories.is_empty() && !is_removed {
                return Ok(Self::Other);
            }
            break;
        }
        Ok(if directories.is_empty() { Self::Nothing } else { Self::Directories(directories) })
    }
}

/// Whether a file of a task at this path has to be kept from before the agent: it lies among programs and settings, or
/// directly in `/`.
pub fn is_kept_from_before(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let (first, second) = (parts.next(), parts.next());
    second.is_none() || first.is_some_and(|first| SYSTEM.contains(&first))
}

/// Something in the layers that a mount's place would run into.
pub(super) struct Obstacle {
    /// Directories above it that the layers have, relative to theirs, with their modes, the outermost first.
    above: Vec<(PathBuf, u32)>,
    /// Where it is, relative to the layers' own directory.
    at: PathBuf,
    /// Whether a file is to be mounted there.
    with_file: bool,
}

/// The first thing on the way to `target`, a path below the layers' own directory, that is not a directory, or at its end not
/// of the mount's own kind. An agent can rename the directory around a mount, and leave a link or a file under its name.
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
