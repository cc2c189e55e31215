//! The directories of a layer while it is unpacked: their modes and times are set when everything is in them.
//!
//! An archive of a few megabytes can hold a hundred thousand directories with names of 4096 bytes. They are kept as a tree in
//! which every part of a name is kept once, 32 bytes beside its own, and found by a hash whose key the archive's author
//! does not know. The number of parts and their bytes are limited.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::unpack::refused;

/// The most parts of names. With their table they take 36 MiB; layers of real images have a tenth of it.
const MAX_PARTS: usize = 1 << 19;
/// The most bytes of all parts together.
const MAX_BYTES: usize = 16 << 20;
/// The most bytes of the list of directories that a layer has something in but does not list.
const MAX_UNLISTED: usize = 8 << 20;

/// One part of a name, below another.
#[derive(Debug, Clone, Copy)]
struct Part {
    above: u32,
    /// Where its bytes begin; they end where the next part's begin.
    name: u32,
    mode: u32,
    /// Whether a directory of this name was made or listed; a part of another name need not be a directory.
    state: State,
    mtime: (i64, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    Listed,
    Unlisted,
}

/// All directories of a layer.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    /// Parts after those above them; number 0 is the root's.
    parts: Vec<Part>,
    names: Vec<u8>,
    by_hash: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Directories {
    /// Remembers a directory that the archive lists; the last one counts.
    pub(crate) fn list(&mut self, parts: &[&OsStr], mode: u32, mtime: (i64, u32)) -> io::Result<()> {
        self.set(parts, mode, mtime, State::Listed)
    }

    /// Remembers a directory that had to be made for what is in it.
    pub(crate) fn make(&mut self, parts: &[&OsStr], mode: u32, mtime: (i64, u32)) -> io::Result<()> {
        self.set(parts, mode, mtime, State::Unlisted)
    }

    fn set(&mut self, parts: &[&OsStr], mode: u32, mtime: (i64, u32), state: State) -> io::Result<()> {
        let mut at = 0;
        for part in parts {
            at = self.below(at, part.as_bytes())?;
        }
        if let Some(part) = usize::try_from(at).ok().and_then(|at| self.parts.get_mut(at)) {
            *part = Part { mode, state, mtime, ..*part };
        }
        Ok(())
    }

    /// The number of a part, which is added where it is not there.
    fn below(&mut self, above: u32, name: &[u8]) -> io::Result<u32> {
        const ROOT: Part = Part { above: 0, name: 0, mode: 0, state: State::Between, mtime: (0, 0) };
        if self.parts.is_empty() {
            self.parts.push(ROOT);
        }
        let hash = self.hasher.hash_one((above, name));
        if let Some(known) = self.by_hash.get(&hash) {
            return Ok(*known);
        }
        if self.parts.len() >= MAX_PARTS || self.names.len() + name.len() > MAX_BYTES {
            return Err(refused("more directories, or longer names of directories, than a layer may have"));
        }
        let too_many = |_| refused("more directories than a layer may have");
        let number = u32::try_from(self.parts.len()).map_err(too_many)?;
        let start = u32::try_from(self.names.len()).map_err(too_many)?;
        self.names.extend_from_slice(name);
        self.parts.push(Part { above, name: start, ..ROOT });
        self.by_hash.insert(hash, number);
        Ok(number)
    }

    fn path(&self, mut number: usize) -> PathBuf {
        let mut names = Vec::new();
        while let (true, Some(part)) = (number > 0, self.parts.get(number)) {
            let end = self.parts.get(number + 1).map_or(self.names.len(), |next| next.name as usize);
            names.push(OsStr::from_bytes(self.names.get(part.name as usize..end).unwrap_or_default()));
            number = part.above as usize;
        }
        names.iter().rev().collect()
    }

    /// Every directory with its mode and time; what is in a directory comes before it.
    pub(crate) fn inner_first(&self) -> impl Iterator<Item = (PathBuf, u32, (i64, u32))> + '_ {
        // A part is always added after the one above it.
        let made = self.parts.iter().enumerate().rev().filter(|(_, part)| part.state != State::Between);
        made.map(|(number, part)| (self.path(number), part.mode, part.mtime))
    }

    /// Directories that were made and never listed, in the order of their names, as the store keeps them: each with a zero
    /// behind it.
    pub(crate) fn unlisted(&self) -> io::Result<Vec<u8>> {
        let (mut paths, mut bytes) = (Vec::new(), 0);
        for (number, _) in self.parts.iter().enumerate().filter(|(_, part)| part.state == State::Unlisted) {
            let path = self.path(number);
            bytes += path.as_os_str().len() + 1;
            if bytes > MAX_UNLISTED {
                return Err(refused("too many directories that have something in them are not listed"));
            }
            paths.push(path);
        }
        paths.sort_unstable();
        Ok(paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0])).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> Vec<&OsStr> {
        path.split('/').map(OsStr::new).collect()
    }

    #[test]
    fn directories_come_back_once_each_with_what_is_in_them_before_them() {
        let mut directories = Directories::default();
        directories.make(&parts("a"), 0o755, (0, 0)).unwrap();
        directories.make(&parts("a/b"), 0o755, (0, 0)).unwrap();
        directories.list(&parts("a/b/c"), 0o700, (5, 6)).unwrap();
        directories.list(&parts("x/y"), 0o711, (1, 0)).unwrap();
        directories.list(&parts("a"), 0o500, (7, 8)).unwrap();
        let found: Vec<_> = directories.inner_first().collect();
        let path = PathBuf::from;
        assert_eq!(
            found,
            [
                (path("x/y"), 0o711, (1, 0)),
                (path("a/b/c"), 0o700, (5, 6)),
                (path("a/b"), 0o755, (0, 0)),
                (path("a"), 0o500, (7, 8)),
            ]
        );
        assert_eq!(directories.unlisted().unwrap(), b"a/b\0");
    }

    #[test]
    fn parts_and_their_bytes_are_limited() {
        let mut directories = Directories::default();
        let long = "n".repeat(250);
        let added = (0..MAX_BYTES / 250 + 2)
            .map(|number| directories.list(&[OsStr::new(&format!("{number:06}{long}"))], 0, (0, 0)))
            .take_while(Result::is_ok);
        assert!(added.count() < MAX_BYTES / 250);
        let mut directories = Directories::default();
        let added = (0..=MAX_PARTS).map(|number| directories.list(&[OsStr::new(&format!("{number:x}"))], 0, (0, 0)));
        assert_eq!(added.take_while(Result::is_ok).count(), MAX_PARTS - 1);
    }

    #[test]
    fn deep_directories_that_are_not_listed_are_limited() {
        let mut directories = Directories::default();
        let name = "d".repeat(200);
        let deep: Vec<&OsStr> = std::iter::repeat_n(OsStr::new(&name), 18).collect();
        for number in 0..4000 {
            let own = number.to_string();
            let path: Vec<&OsStr> = [&[OsStr::new(&own)], &deep[..]].concat();
            for depth in 1..=path.len() {
                directories.make(&path[..depth], 0o755, (0, 0)).unwrap();
            }
        }
        assert!(directories.unlisted().is_err());
    }
}
