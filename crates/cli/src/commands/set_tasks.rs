//! Which tasks a set has: files as they are named, and the task files of directories.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use profile::source::{self, Value};
use profile::{MAX_DOCUMENT_BYTES, Problem, Problems};

/// How deep a directory is looked through.
const DEEPEST: usize = 16;
/// How many files are looked at.
const MOST_FILES: usize = 100_000;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Each once, in order.
    pub(super) tasks: Vec<PathBuf>,
    /// Files of directories that could be tasks by their names, and are none.
    pub(super) skipped: Vec<PathBuf>,
}

/// Finds them. A file that is named is a task, whatever is in it; of a directory those with a `dataset`.
pub(super) fn find(paths: &[PathBuf]) -> Result<Found, Problems> {
    let mut found = Found::default();
    let mut known = HashSet::new();
    let mut problems = Vec::new();
    for path in paths {
        let cannot = |why: String| Problem::new(format!("`{}` {why}", path.display()));
        let files = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                let mut files = Vec::new();
                if let Err(error) = walk(path, 0, &mut files) {
                    problems.push(cannot(format!("cannot be looked through: {error}")));
                }
                files.sort();
                let (tasks, others): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|file| is_task(file));
                if tasks.is_empty() && problems.is_empty() {
                    problems.push(cannot("has no task files".into()).hint("a task has a `dataset`"));
                }
                found.skipped.extend(others);
                tasks
            }
            Ok(_) => vec![path.clone()],
            Err(error) => {
                problems.push(cannot(format!("cannot be read: {error}")));
                continue;
            }
        };
        for file in files {
            if known.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                found.tasks.push(file);
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(Problems { origin: "the command line".into(), problems }) }
}

/// Files below a directory that could be tasks by their names. Links and hidden names are passed over.
fn walk(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() && depth < DEEPEST {
            walk(&path, depth + 1, files)?;
        }
        let named = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if kind.is_file() && named {
            if files.len() >= MOST_FILES {
                return Err(std::io::Error::other(format!("it has more than {MOST_FILES} files")));
            }
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a file is meant to be a task; what is wrong with it is told when it is read.
fn is_task(path: &Path) -> bool {
    let most = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX);
    let mut text = String::new();
    let Ok(file) = std::fs::File::open(path) else { return true };
    if file.take(most + 1).read_to_string(&mut text).is_err() || text.len() > MAX_DOCUMENT_BYTES {
        return false;
    }
    match source::parse(&text) {
        Ok(node) => matches!(node.value, Value::Map(entries) if entries.iter().any(|(key, _)| key.name == "dataset")),
        Err(_) => text.lines().any(|line| line.starts_with("dataset:") || line.trim_start().starts_with("\"dataset\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_s_tasks_are_found_in_order_and_others_are_named() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let b = write("b.yaml", "dataset: [{input: x}]\n");
        let a = write("sub/a.yml", "name: a\ndataset: x.jsonl\n");
        let json = write("c.json", "{\"dataset\": [{\"input\": \"x\"}]}");
        let broken = write("broken.yaml", "dataset: [\n");
        let policy = write("policy.yaml", "approvers: []\n");
        let data = write("data.json", "[{\"input\": \"x\"}]");
        write(".hidden.yaml", "dataset: []\n");
        write("note.txt", "dataset: []\n");
        std::os::unix::fs::symlink(place.path(), place.path().join("loop")).unwrap();
        let found = find(&[place.path().to_owned(), b.clone()]).unwrap();
        assert_eq!(found.tasks, [b, broken, json, a]);
        assert_eq!(found.skipped, [data, policy.clone()]);
        assert_eq!(find(std::slice::from_ref(&policy)).unwrap().tasks, [policy], "a file that is named is a task");
        assert!(find(&[place.path().join("nothing.yaml")]).is_err());
        assert!(find(&[place.path().join("sub/none")]).is_err());
    }
}
