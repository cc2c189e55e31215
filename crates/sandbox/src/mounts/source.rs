//! Opens a mount's source name by name, so that no link decides what is mounted.
//!
//! An agent that may write to a directory can replace a subdirectory by a link, and wait until the operator mounts that
//! subdirectory. Its link is owned by the operator (or by root), so owners do not tell it from the operator's own links.
//! Therefore links are followed only where no agent can have made them; all others are refused with their target.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat, readlinkat};

use crate::sandbox::StartError;

/// Directories whose links are followed, as `/home` → `/data/home`. No sandbox is ever given one of them whole
/// (`profile::check_mount_source` refuses them), so no agent writes there.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/", "/home", "/var"];
/// As many as the kernel follows (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// A mount's source, open. The descriptor keeps its inode number from being used again.
#[derive(Debug)]
pub struct MountSource {
    pub(super) descriptor: OwnedFd,
    path: String,
    /// The numbers by which the kernel tells this file from all others.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(super) kind: FileType,
}

impl MountSource {
    /// Opens a host path without following links, except those of the system's own directories. The host's own places are
    /// refused, wherever such a link leads.
    pub fn open(path: &str) -> Result<Self, StartError> {
        let failed = |source: io::Error| StartError::MountSource { path: path.to_owned(), source };
        let refused = |why: String, hint| StartError::Mount { path: path.to_owned(), why, hint };
        let (descriptor, real) = walk(path, failed, refused)?;
        let real = real.into_os_string().into_string();
        let real = real.map_err(|_| refused("its name is not UTF-8".into(), None))?;
        // As the target of any mount would be: a colon in the path has a meaning of its own.
        format!("{real}:/x").parse::<profile::Mount>().map_err(|error| refused(error.to_string(), None))?;
        let stat = fstat(&descriptor).map_err(|errno| failed(errno.into()))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        Ok(Self { descriptor, path: real, device: stat.st_dev, inode: stat.st_ino, kind })
    }

    /// Its path without links.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Refuses a source whose path leads to another file by now. For engines that open it again by its path.
    pub fn check_unchanged(&self) -> Result<(), StartError> {
        let now = Self::open(&self.path)?;
        if (now.device, now.inode) == (self.device, self.inode) {
            return Ok(());
        }
        let why = "it was replaced since it was checked".to_owned();
        Err(StartError::Mount { path: self.path.clone(), why, hint: None })
    }
}

fn walk(
    path: &str,
    failed: impl Fn(io::Error) -> StartError,
    refused: impl Fn(String, Option<&'static str>) -> StartError,
) -> Result<(OwnedFd, PathBuf), StartError> {
    let root = || open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let mut ahead = names(&std::path::absolute(path).map_err(&failed)?)
        .ok_or_else(|| refused("it has `..` in it, which hides where it leads".into(), None))?;
    let mut at = PathBuf::from("/");
    let mut here = root().map_err(|errno| failed(errno.into()))?;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = openat(&here, &name, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let stat = fstat(&next).map_err(|errno| failed(errno.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            at.push(name);
            here = next;
            continue;
        }
        // Of the link that was opened, whatever has its name by now.
        let target = readlinkat(&next, "", Vec::new()).map_err(|errno| failed(errno.into()))?;
        let target = lexical(&at.join(PathBuf::from(OsString::from_vec(target.into_bytes()))));
        links += 1;
        if links > MAX_LINKS || !is_system(&at, &here).map_err(&failed)? {
            let why = format!("`{}` is a link, and leads to {}", at.join(name).display(), target.display());
            let hint = "an agent that could write there may have planted it: name the target itself if you mean it";
            return Err(refused(why, Some(hint)));
        }
        // `at` has no links in it, so what a link says is exact when it is read from the root.
        let mut rest = names(&target).unwrap_or_default();
        rest.append(&mut ahead);
        ahead = rest;
        at = PathBuf::from("/");
        here = root().map_err(|errno| failed(errno.into()))?;
    }
    Ok((here, at))
}

/// The names of an absolute path; `None` if one of them is `..`.
fn names(path: &Path) -> Option<VecDeque<OsString>> {
    let mut names = VecDeque::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push_back(name.to_owned()),
            Component::ParentDir => return None,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(names)
}

/// An absolute path without `.` and `..`. Exact only where what comes before a `..` is not a link.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// Whether links in this directory are the system's: it is on the list, root's, and nobody else may write to it.
fn is_system(at: &Path, here: &OwnedFd) -> io::Result<bool> {
    let stat = fstat(here)?;
    let only_root = stat.st_uid == 0 && stat.st_mode & 0o022 == 0;
    Ok(only_root && SYSTEM_DIRECTORIES.iter().any(|directory| at == Path::new(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_at_any_depth_is_refused_and_shown_with_its_target() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("real/deep")).unwrap();
        std::os::unix::fs::symlink("real", place.join("planted")).unwrap();
        let plain = place.join("real/deep").display().to_string();
        assert_eq!(MountSource::open(&plain).unwrap().path(), plain);
        for path in ["planted", "planted/deep", "./planted/"] {
            match MountSource::open(&place.join(path).display().to_string()) {
                Err(StartError::Mount { why, hint, .. }) => {
                    let target = place.join("real").display().to_string();
                    assert!(why.contains("planted` is a link") && why.contains(&target), "{why}");
                    assert!(hint.is_some());
                }
                other => panic!("{path}: {other:?}"),
            }
        }
        assert!(matches!(MountSource::open("/tmp/../etc"), Err(StartError::Mount { .. })));
    }

    #[test]
    fn links_of_system_directories_are_followed() {
        // Every Linux of today has one: /bin, /lib, or both.
        let link = std::fs::read_dir("/").unwrap().flatten().find(|entry| {
            entry.path().is_symlink() && entry.path().canonicalize().is_ok_and(|real| real.starts_with("/usr"))
        });
        let Some(link) = link else { return };
        let source = MountSource::open(link.path().to_str().unwrap()).unwrap();
        assert_eq!(Path::new(source.path()), link.path().canonicalize().unwrap());
        // One that leads to what is never mounted leads nowhere.
        if Path::new("/var/run").is_symlink() {
            assert!(matches!(MountSource::open("/var/run"), Err(StartError::Mount { .. })));
        }
    }
}
