//! Files beside a task: data sets, setup scripts, files for the sandbox.
//!
//! A task file may come from somebody else, and an agent may have written beside it. What a task includes therefore stays
//! below its own directory, which is opened once: no absolute path, no `..`, no link in any part, nothing that is not a plain
//! file, and nothing beyond a size. A file that is read only when a sample needs it must be the one that was there when the
//! task was read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use profile::source::Complaints;
use profile::{Place, Problem};

use super::host_file::{Directory, HostFile, Within};

/// The largest data set that is read.
pub const MAX_DATASET_BYTES: u64 = 256 << 20;
/// The largest other file that is included.
pub const MAX_INCLUDED_BYTES: u64 = 100 << 20;

/// Where the files beside a task are read from.
///
/// Paths are relative and without `..`. An implementation answers with an error for what is missing, is no plain file,
/// lies elsewhere, or is larger than `most` bytes; it never blocks on anything but a disk.
pub trait Files {
    /// What a file holds.
    fn read(&self, relative: &Path, most: u64) -> io::Result<Vec<u8>>;

    /// Looks at a file that is read only when it is needed.
    fn locate(&self, relative: &Path, most: u64) -> io::Result<HostFile>;
}

/// The files of one directory and below.
#[derive(Debug)]
pub struct Beside {
    directory: Arc<Directory>,
}

impl Beside {
    /// The directory that holds `task`.
    pub fn task(task: &Path) -> io::Result<Self> {
        let directory = match task.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self { directory: Arc::new(Directory::open(directory)?) })
    }

    /// Its path, without links.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Files for Beside {
    fn read(&self, relative: &Path, most: u64) -> io::Result<Vec<u8>> {
        self.directory.read(&check(relative).map_err(io::Error::other)?, most)
    }

    fn locate(&self, relative: &Path, most: u64) -> io::Result<HostFile> {
        let relative = check(relative).map_err(io::Error::other)?;
        let file = self.directory.file(&relative, most)?;
        HostFile::look(Within::Directory(Arc::clone(&self.directory)), &relative, file, most)
    }
}

/// Files in memory, for tests and for tasks that come without a directory.
impl Files for BTreeMap<PathBuf, Vec<u8>> {
    fn read(&self, relative: &Path, most: u64) -> io::Result<Vec<u8>> {
        let bytes = self.get(relative).ok_or(io::ErrorKind::NotFound)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= most) {
            Ok(bytes.clone())
        } else {
            Err(too_large(most))
        }
    }

    fn locate(&self, relative: &Path, most: u64) -> io::Result<HostFile> {
        let bytes: Arc<[u8]> = self.read(relative, most)?.into();
        HostFile::look(Within::Memory(Arc::clone(&bytes)), relative, bytes.as_ref(), most)
    }
}

pub(super) fn too_large(most: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {}", profile::Bytes(most)))
}

/// Reads a file that may grow meanwhile.
pub(super) fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    at_most(File::open(path)?, most)
}

pub(super) fn at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= most) { Ok(bytes) } else { Err(too_large(most)) }
}

/// The same path without the parts that say nothing, if it cannot lead out by its text alone.
fn check(path: &Path) -> Result<PathBuf, &'static str> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => plain.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("it has `..` in it"),
            Component::RootDir | Component::Prefix(_) => return Err("it is absolute"),
        }
    }
    if plain.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err("it names no file");
    }
    Ok(plain)
}

/// Asks `files` for one file and complains at `place` if it cannot be had.
pub(super) fn included<T>(
    name: &str,
    place: Place,
    complaints: &Complaints,
    ask: impl FnOnce(&Path) -> io::Result<T>,
) -> Option<T> {
    let relative = match check(Path::new(name)) {
        Ok(relative) => relative,
        Err(why) => {
            complaints.add(
                Problem::at(place, format!("`{name}` cannot be included: {why}"))
                    .hint("write a path relative to the task file, in its directory or below"),
            );
            return None;
        }
    };
    ask(&relative)
        .map_err(|error| {
            let problem = Problem::at(place, format!("`{name}` cannot be read: {error}"));
            complaints.add(match error.kind() {
                io::ErrorKind::NotFound => problem.hint("paths are relative to the task file"),
                _ => problem,
            });
        })
        .ok()
}

/// A file's text.
pub(super) fn included_text(
    name: &str,
    place: Place,
    most: u64,
    complaints: &Complaints,
    files: &dyn Files,
) -> Option<String> {
    let bytes = included(name, place, complaints, |path| files.read(path, most))?;
    String::from_utf8(bytes)
        .map_err(|_| complaints.add(Problem::at(place, format!("`{name}` is not text in UTF-8"))))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_tasks_directory_is_included() {
        let place = tempfile::tempdir().unwrap();
        let inside = place.path().join("inside");
        std::fs::create_dir_all(inside.join("data")).unwrap();
        std::fs::write(place.path().join("secret"), "x").unwrap();
        std::fs::write(inside.join("data/plain"), "words").unwrap();
        std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
        std::os::unix::fs::symlink("..", inside.join("up")).unwrap();
        std::os::unix::fs::symlink("data/plain", inside.join("within")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        let files = Beside::task(&inside.join("task.yaml")).unwrap();

        assert_eq!(files.read(Path::new("data/plain"), 5).unwrap(), b"words");
        assert_eq!(files.read(Path::new("./data/plain"), 5).unwrap(), b"words");
        let said = |path: &str, most| {
            let read = files.read(Path::new(path), most).unwrap_err().to_string();
            assert_eq!(files.locate(Path::new(path), most).unwrap_err().to_string(), read);
            read
        };
        assert_eq!(said("data/plain", 4), "it is larger than 4B");
        assert_eq!(said("../secret", 9), "it has `..` in it");
        assert_eq!(said("data/../../secret", 9), "it has `..` in it");
        assert_eq!(said("/etc/passwd", 9), "it is absolute");
        for link in ["link", "up/secret", "within"] {
            assert_eq!(said(link, 9), "it is a link, or a link leads to it");
        }
        for special in ["data", "socket"] {
            assert_eq!(said(special, 9), "it is not a plain file");
        }
        assert_eq!(said("", 9), "it names no file");
    }
}
