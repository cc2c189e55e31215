//! Changes as a writable layer again: several that lie on each other become one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, SeekFrom, Timespec, Timestamps, XattrFlags, chmodat, chownat, fsetxattr,
    linkat, mkdirat, mknodat, openat, seek, symlinkat, utimensat,
};
use rustix::thread::{Gid, Uid};

use super::{Attributes, Sink};

/// Makes the same changes in an empty directory, whose names are only ours: no link in it is on any path we use.
pub(crate) struct Copy {
    root: OwnedFd,
    opaque: &'static str,
    /// Directories change when something is put into them: their times are set at the end.
    times: Vec<(std::path::PathBuf, (i64, u32))>,
}

fn time(mtime: (i64, u32)) -> Timestamps {
    let time = Timespec { tv_sec: mtime.0, tv_nsec: i64::from(mtime.1) };
    Timestamps { last_access: time, last_modification: time }
}

/// Copies what is there: a file of any size may have no data at all.
fn copy_data(from: &mut File, to: &mut File, size: u64) -> io::Result<()> {
    let mut at = 0;
    // `NXIO`: nothing but a hole follows.
    while let Ok(data) = seek(&*from, SeekFrom::Data(at)) {
        let hole = seek(&*from, SeekFrom::Hole(data))?;
        from.seek(io::SeekFrom::Start(data))?;
        to.seek(io::SeekFrom::Start(data))?;
        io::copy(&mut from.take(hole.saturating_sub(data)), to)?;
        at = hole;
    }
    to.set_len(size)
}

impl Copy {
    /// Into `root`; `opaque` is how its overlay marks what hides everything below.
    pub(crate) fn new(root: OwnedFd, opaque: &'static str) -> Self {
        Self { root, opaque, times: Vec::new() }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        for (name, mtime) in self.times.iter().rev() {
            utimensat(&self.root, name, &time(*mtime), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Owner first: changing it takes the setuid bit away.
    fn own(&self, name: &Path, attributes: &Attributes) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
        Ok(chownat(&self.root, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn finish_file(&self, name: &Path, attributes: &Attributes, file: Option<&OwnedFd>) -> io::Result<()> {
        self.own(name, attributes)?;
        if let Some(file) = file {
            for (key, value) in &attributes.extended {
                fsetxattr(file, key, value, XattrFlags::empty())?;
            }
        }
        let mode = Mode::from_raw_mode(RawMode::from(attributes.mode));
        chmodat(&self.root, name, mode, AtFlags::empty())?;
        Ok(utimensat(&self.root, name, &time(attributes.mtime), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

impl Sink for Copy {
    fn directory(&mut self, name: &Path, attributes: &Attributes, opaque: bool) -> io::Result<()> {
        mkdirat(&self.root, name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&self.root, name, flags, Mode::empty())?;
        if opaque {
            fsetxattr(&directory, self.opaque, b"y", XattrFlags::empty())?;
        }
        self.finish_file(name, attributes, Some(&directory))?;
        self.times.push((name.to_owned(), attributes.mtime));
        Ok(())
    }

    fn whiteout(&mut self, name: &Path) -> io::Result<()> {
        Ok(mknodat(&self.root, name, FileType::CharacterDevice, Mode::empty(), 0)?)
    }

    fn file(&mut self, name: &Path, attributes: &Attributes, mut content: File) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.root, name, flags, Mode::from_raw_mode(0o600))?;
        let mut copy = File::from(rustix::io::dup(&file)?);
        copy_data(&mut content, &mut copy, attributes.size)?;
        self.finish_file(name, attributes, Some(&file))
    }

    fn hard_link(&mut self, name: &Path, first: &Path) -> io::Result<()> {
        Ok(linkat(&self.root, first, &self.root, name, AtFlags::empty())?)
    }

    fn symlink(&mut self, name: &Path, attributes: &Attributes, target: &OsStr) -> io::Result<()> {
        symlinkat(target, &self.root, name)?;
        self.own(name, attributes)?;
        Ok(utimensat(&self.root, name, &time(attributes.mtime), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn fifo(&mut self, name: &Path, attributes: &Attributes) -> io::Result<()> {
        mknodat(&self.root, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        self.finish_file(name, attributes, None)
    }
}
