//! The logs of a set: which are there, and which are put aside because a later one has all that they have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use log::Reader;
use log::audit::Audit;

/// Where logs go that a later one goes on from.
const ASIDE: &str = "superseded";

/// The logs of a directory that are parts of a set, by part; the newest last.
pub(super) fn find(directory: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_log = |path: &PathBuf| {
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        !hidden
            && !receipt::is_receipt(path)
            && path.extension().is_some_and(|extension| extension == "eval" || extension == "json")
    };
    let mut paths: Vec<PathBuf> = entries.filter(is_log).collect();
    // Their names begin with when they were begun.
    paths.sort();
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in paths {
        let key = Reader::open(&path).ok().and_then(|reader| {
            let key = reader.header().get("eval")?.pointer("/metadata/ringfence/set_key")?;
            Some(key.as_str()?.to_owned())
        });
        if let Some(key) = key {
            found.entry(key).or_default().push(path);
        }
    }
    found
}

/// Moves the logs of a part, but for this one, with their chains and receipts. Nothing is removed: the new chain speaks of them.
pub(super) fn put_aside(directory: &Path, logs: &BTreeMap<String, Vec<PathBuf>>, key: &str, but: &Path) {
    let others = logs.get(key).into_iter().flatten().filter(|log| log.file_name() != but.file_name());
    for log in others {
        let aside = directory.join(ASIDE);
        let _ = std::fs::create_dir_all(&aside);
        // The log last: killed in between, the next one finds it and moves it.
        for path in [&Audit::beside(log), &receipt::beside(log), &receipt::checkpoints_beside(log), log] {
            if let Some(name) = path.file_name() {
                let _ = std::fs::rename(path, aside.join(name));
            }
        }
    }
}
