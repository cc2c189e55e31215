//! Directories of the host that are images, held open while a sandbox or a snapshot is made of them.
//!
//! A path leads to whatever has its name at the moment. The directory that the caller checked is opened once, compared by its
//! numbers, and from then on used through the descriptor: for the sandbox, for snapshots of it and for their archives.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::protocol::Image;

/// Open directories, by device and inode number.
#[derive(Default)]
pub(super) struct Bases(Vec<((u64, u64), OwnedFd)>);

impl Bases {
    /// Replaces the path of an image's directory by one that leads to the directory with these numbers, always.
    ///
    /// `ESTALE` if the path leads to another directory by now, `ELOOP` if a link has come into it.
    pub(super) fn hold(&mut self, image: &mut Image, numbers: Option<(u64, u64)>) -> io::Result<()> {
        match image {
            Image::Directory(path) => {
                let numbers = numbers.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
                *path = self.path(path, numbers)?;
                Ok(())
            }
            Image::Over(base, _) => self.hold(base, numbers),
            Image::Host | Image::Layers(_) | Image::Snapshot(_) | Image::Scene { .. } => Ok(()),
        }
    }

    /// Closes the directories that none of these images is made of.
    pub(super) fn keep_only<'a>(&mut self, images: impl Iterator<Item = &'a Image>) {
        if self.0.is_empty() {
            return;
        }
        let used: Vec<&str> = images.filter_map(bottom).collect();
        self.0.retain(|(_, held)| used.contains(&through(held).as_str()));
    }

    fn path(&mut self, path: &str, numbers: (u64, u64)) -> io::Result<String> {
        if let Some((_, held)) = self.0.iter().find(|(known, _)| *known == numbers) {
            return Ok(through(held));
        }
        let opened = open_checked(Path::new(path), OFlags::DIRECTORY, numbers)?;
        let path = through(&opened);
        self.0.push((numbers, opened));
        Ok(path)
    }
}

/// The path that leads to an open directory, whatever has its name.
fn through(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// The directory at the bottom of an image.
fn bottom(image: &Image) -> Option<&str> {
    match image {
        Image::Directory(path) => Some(path),
        Image::Over(base, _) => bottom(base),
        Image::Host | Image::Layers(_) | Image::Snapshot(_) | Image::Scene { .. } => None,
    }
}

/// Opens a path (`O_PATH`) that may have no links in it and must lead to the file with these device and inode numbers.
pub(super) fn open_checked(path: &Path, flags: OFlags, numbers: (u64, u64)) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(CWD, path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    let found = fstat(&opened)?;
    if (found.st_dev, found.st_ino) == numbers { Ok(opened) } else { Err(io::Error::from_raw_os_error(libc::ESTALE)) }
}
