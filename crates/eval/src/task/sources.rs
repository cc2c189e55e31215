//! What a task was read from: digests by which a later run knows that it is still the same task.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::files::Files;
use super::host_file::HostFile;
use crate::approval::hexadecimal;

/// Digests of a task's file, and of everything that it includes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// SHA-256 of the task file, in hexadecimal.
    pub task: String,
    /// SHA-256 over names, lengths and contents of all files that it includes: data sets, scripts, files of samples. Of
    /// those that are read only when a sample needs them, the first 16 MiB.
    pub files: String,
    /// How many they are.
    pub count: usize,
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Files that remember what was asked of them.
pub(super) struct Remembered<'a> {
    files: &'a dyn Files,
    seen: RefCell<BTreeMap<PathBuf, (u64, String)>>,
    /// Those that are read only when they are needed: many samples may share a file, which is looked at once.
    located: RefCell<BTreeMap<PathBuf, HostFile>>,
}

impl<'a> Remembered<'a> {
    pub(super) fn new(files: &'a dyn Files) -> Self {
        Self { files, seen: RefCell::default(), located: RefCell::default() }
    }

    /// The paths of all files that were asked for, relative to the task.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.seen.borrow().keys().cloned().collect()
    }

    /// What was read, beside the task file of this text.
    pub(super) fn sources(self, task: &[u8]) -> Sources {
        let seen = self.seen.into_inner();
        let mut hash = Sha256::new();
        for (path, (length, digest)) in &seen {
            let name = path.as_os_str().as_encoded_bytes();
            // Lengths first: no name can stand for another name and a content.
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update(length.to_le_bytes());
            hash.update(digest.as_bytes());
        }
        Sources { task: sha256(task), files: hexadecimal(&hash.finalize()), count: seen.len() }
    }
}

impl Files for Remembered<'_> {
    fn read(&self, relative: &Path, most: u64) -> io::Result<Vec<u8>> {
        let bytes = self.files.read(relative, most)?;
        self.seen.borrow_mut().entry(relative.to_owned()).or_insert_with(|| (bytes.len() as u64, sha256(&bytes)));
        Ok(bytes)
    }

    fn locate(&self, relative: &Path, most: u64) -> io::Result<HostFile> {
        if let Some(known) = self.located.borrow().get(relative) {
            return Ok(known.clone());
        }
        let file = self.files.locate(relative, most)?;
        self.seen.borrow_mut().entry(relative.to_owned()).or_insert_with(|| file.counted());
        self.located.borrow_mut().insert(relative.to_owned(), file.clone());
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_what_is_read_is_another_digest() {
        let digest = |files: &[(&str, &str)], asked: &[&str]| {
            let files: BTreeMap<PathBuf, Vec<u8>> =
                files.iter().map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec())).collect();
            let remembered = Remembered::new(&files);
            for name in asked {
                remembered.read(Path::new(name), 100).unwrap();
            }
            remembered.sources(b"task").files
        };
        let files = [("a", "one"), ("b", "two")];
        let both = digest(&files, &["a", "b"]);
        assert_eq!(both, digest(&files, &["b", "a", "a"]), "the order does not matter");
        for other in [
            digest(&files, &["a"]),
            digest(&[("a", "one"), ("b", "twO")], &["a", "b"]),
            digest(&[("a", "one"), ("c", "two")], &["a", "c"]),
            digest(&files, &[]),
        ] {
            assert_ne!(both, other);
        }
    }
}
