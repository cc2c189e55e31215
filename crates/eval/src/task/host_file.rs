//! Files below one open directory, opened without links, and those that are read only later.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::files::{at_most, too_large};
use crate::approval::hexadecimal;

/// How much of a file that is only needed later counts for the task's own digest; its length counts whatever it is.
const LOOKED_AT: u64 = 16 << 20;
/// How often a file is opened again that was renamed while it was looked up (`openat2(2)`, EAGAIN).
const MAX_TRIES: usize = 16;

/// A file beside a task that is read when a sample needs it, as it was when the task was read.
#[derive(Debug, Clone)]
pub struct HostFile {
    within: Within,
    relative: PathBuf,
    length: u64,
    /// SHA-256 of all of it, and of its first 16 MiB, in hexadecimal.
    digests: [String; 2],
}

#[derive(Debug, Clone)]
pub(super) enum Within {
    Directory(Arc<Directory>),
    Memory(Arc<[u8]>),
}

impl PartialEq for HostFile {
    fn eq(&self, other: &Self) -> bool {
        (&self.relative, self.length, &self.digests) == (&other.relative, other.length, &other.digests)
    }
}

impl Eq for HostFile {}

impl HostFile {
    pub(super) fn look(within: Within, relative: &Path, mut content: impl Read, most: u64) -> io::Result<Self> {
        let (mut whole, mut head) = (Sha256::new(), Sha256::new());
        let (mut buffer, mut length) = (vec![0; 1 << 16], 0_u64);
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            let left = usize::try_from(LOOKED_AT.saturating_sub(length)).unwrap_or(usize::MAX).min(bytes.len());
            head.update(bytes.get(..left).unwrap_or_default());
            whole.update(bytes);
            length += u64::try_from(count).unwrap_or(u64::MAX);
            if length > most {
                return Err(too_large(most));
            }
        }
        let digests = [hexadecimal(&whole.finalize()), hexadecimal(&head.finalize())];
        Ok(Self { within, relative: relative.to_owned(), length, digests })
    }

    /// Its length, and the digest that counts for the task's own.
    pub(super) fn counted(&self) -> (u64, String) {
        (self.length, self.digests[1].clone())
    }

    /// Its path, relative to the task.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// What it holds. An error if that is not what it held when the task was read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = match &self.within {
            Within::Directory(directory) => directory.read(&self.relative, self.length)?,
            Within::Memory(bytes) => bytes.to_vec(),
        };
        if hexadecimal(&Sha256::digest(&bytes)) == self.digests[0] { Ok(bytes) } else { Err(changed()) }
    }
}

fn changed() -> io::Error {
    io::Error::other("it has changed since the task was read")
}

/// A directory that is open.
#[derive(Debug)]
pub(super) struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { descriptor, path })
    }

    /// Its path when it was opened, without links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a plain file below it, without following a link and without waiting.
    pub(super) fn file(&self, relative: &Path, most: u64) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = || match openat2(&self.descriptor, relative, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            opened => Some(opened),
        };
        let file = match (0..MAX_TRIES).find_map(|_| open()).unwrap_or(Err(Errno::AGAIN)) {
            Ok(descriptor) => File::from(descriptor),
            Err(Errno::LOOP) => return Err(io::Error::other("it is a link, or a link leads to it")),
            Err(Errno::XDEV) => return Err(io::Error::other("it leads out of the task's directory")),
            // A socket cannot be opened at all.
            Err(Errno::NXIO) => return Err(io::Error::other("it is not a plain file")),
            Err(error) => return Err(error.into()),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a plain file"));
        }
        if metadata.len() > most { Err(too_large(most)) } else { Ok(file) }
    }

    /// Reads a file that may grow meanwhile.
    pub(super) fn read(&self, relative: &Path, most: u64) -> io::Result<Vec<u8>> {
        at_most(self.file(relative, most)?, most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::{Beside, Files as _};
    use super::*;

    #[test]
    fn a_file_that_was_swapped_after_the_task_was_read_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("data");
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "secret").unwrap();
        let files = Beside::task(&place.path().join("task.yaml")).unwrap();
        let located = || {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, "words!").unwrap();
            let located = files.locate(Path::new("data"), 9).unwrap();
            assert_eq!(located.read().unwrap(), b"words!");
            located
        };
        let said = |file: &HostFile| file.read().unwrap_err().to_string();

        let file = located();
        std::fs::write(&path, "WORDS!").unwrap();
        assert_eq!(said(&file), "it has changed since the task was read");
        std::fs::write(&path, "words").unwrap();
        assert_eq!(said(&file), "it has changed since the task was read");
        std::fs::write(&path, "words! and more").unwrap();
        assert_eq!(said(&file), "it is larger than 6B");

        let file = located();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(secret.path(), &path).unwrap();
        assert_eq!(said(&file), "it is a link, or a link leads to it");

        // A pipe that nobody writes to: opening it must not wait.
        let file = located();
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(said(&file), "it is not a plain file");

        // The directory is the one that was opened, whatever its name leads to now.
        let file = located();
        let moved = place.path().with_extension("moved");
        std::fs::rename(place.path(), &moved).unwrap();
        std::fs::create_dir(place.path()).unwrap();
        std::fs::write(&path, "other!").unwrap();
        assert_eq!(file.read().unwrap(), b"words!");
        std::fs::remove_dir_all(moved).unwrap();
    }
}
