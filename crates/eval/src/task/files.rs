//! Files beside a task: data sets, setup scripts, files for the sandbox.
//!
//! A task file may come from somebody else. What it includes therefore stays below its own directory: no absolute path,
//! no `..`, no link that leads out, nothing that is not a plain file, and nothing beyond a size.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use profile::source::Complaints;
use profile::{Place, Problem};

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

    /// Where a file is on the host, for what is read only when it is needed.
    fn locate(&self, relative: &Path, most: u64) -> io::Result<PathBuf>;
}

/// The files of one directory and below.
#[derive(Debug)]
pub struct Beside {
    directory: PathBuf,
}

impl Beside {
    /// The directory that holds `task`.
    pub fn task(task: &Path) -> io::Result<Self> {
        let directory = match task.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self { directory: directory.canonicalize()? })
    }
}

impl Files for Beside {
    fn read(&self, relative: &Path, most: u64) -> io::Result<Vec<u8>> {
        let path = self.locate(relative, most)?;
        read_at_most(&path, most)
    }

    fn locate(&self, relative: &Path, most: u64) -> io::Result<PathBuf> {
        let path = self.directory.join(check(relative).map_err(io::Error::other)?).canonicalize()?;
        if !path.starts_with(&self.directory) {
            return Err(io::Error::other("a link leads out of the task's directory"));
        }
        let metadata = path.metadata()?;
        // Opening a pipe would wait for whoever writes into it.
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a plain file"));
        }
        if metadata.len() > most { Err(too_large(most)) } else { Ok(path) }
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

    fn locate(&self, relative: &Path, most: u64) -> io::Result<PathBuf> {
        self.read(relative, most).map(|_| relative.to_owned())
    }
}

fn too_large(most: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {}", profile::Bytes(most)))
}

/// Reads a file that may grow meanwhile.
pub(super) fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
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
        std::os::unix::fs::symlink("data/plain", inside.join("good")).unwrap();
        let files = Beside::task(&inside.join("task.yaml")).unwrap();

        assert_eq!(files.read(Path::new("data/plain"), 5).unwrap(), b"words");
        assert_eq!(files.read(Path::new("./good"), 5).unwrap(), b"words");
        let said = |path: &str, most| files.read(Path::new(path), most).unwrap_err().to_string();
        assert_eq!(said("data/plain", 4), "it is larger than 4B");
        assert_eq!(said("../secret", 9), "it has `..` in it");
        assert_eq!(said("data/../../secret", 9), "it has `..` in it");
        assert_eq!(said("/etc/passwd", 9), "it is absolute");
        assert_eq!(said("link", 9), "a link leads out of the task's directory");
        assert_eq!(said("up/secret", 9), "a link leads out of the task's directory");
        assert_eq!(said("data", 9), "it is not a plain file");
        assert_eq!(said("", 9), "it names no file");
    }
}
