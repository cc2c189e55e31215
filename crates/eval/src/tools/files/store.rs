//! Files in memory, for one sample: no disk is touched, whatever a path says.

use std::collections::BTreeMap;

use log::message::{ToolError, ToolErrorKind};

use super::disk::{Entry, Sort};
use super::guard::{self, Spot};

/// The most that one sample keeps.
const MAX_BYTES: usize = 64 << 20;
const MAX_FILES: usize = 10_000;

/// Paths below the root with what the files hold. Directories are there while something is in them.
#[derive(Debug, Default)]
pub(super) struct Store {
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
}

impl Store {
    /// Whether something lies below.
    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.below(path).next().is_some()
    }

    fn below(&self, path: &str) -> impl Iterator<Item = (&str, &Vec<u8>)> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let from = self.files.range(prefix.clone()..);
        let length = prefix.len();
        from.take_while(move |(name, _)| name.starts_with(&prefix)).map(move |(name, bytes)| (&name[length..], bytes))
    }

    /// Fails where a file stands in the way of a directory.
    fn require_directories(&self, spot: &Spot) -> Result<(), ToolError> {
        let above = spot.path.match_indices('/').map(|(at, _)| &spot.path[..at]);
        if above.into_iter().any(|directory| self.files.contains_key(directory)) {
            return Err(guard::not_a_directory(spot));
        }
        Ok(())
    }

    pub(super) fn read(&self, spot: &Spot) -> Result<Vec<u8>, ToolError> {
        self.require_directories(spot)?;
        match self.files.get(&spot.path) {
            Some(bytes) => Ok(bytes.clone()),
            None if self.is_directory(&spot.path) => Err(guard::is_a_directory(spot)),
            None => Err(guard::not_found(spot)),
        }
    }

    pub(super) fn write(&mut self, spot: &Spot, bytes: &[u8]) -> Result<(), ToolError> {
        self.require_directories(spot)?;
        let before = self.files.get(&spot.path).map(Vec::len);
        if before.is_none() && self.is_directory(&spot.path) {
            return Err(guard::is_a_directory(spot));
        }
        let total = self.bytes - before.unwrap_or(0) + bytes.len();
        if total > MAX_BYTES || (before.is_none() && self.files.len() >= MAX_FILES) {
            let message = format!(
                "the files of this sample would be more than {MAX_FILES}, or more than {MAX_BYTES} bytes: delete some first"
            );
            return Err(ToolError { kind: ToolErrorKind::Limit, message });
        }
        self.bytes = total;
        self.files.insert(spot.path.clone(), bytes.to_vec());
        Ok(())
    }

    pub(super) fn delete(&mut self, spot: &Spot) -> Result<(), ToolError> {
        let bytes = self.read(spot)?;
        self.files.remove(&spot.path);
        self.bytes -= bytes.len();
        Ok(())
    }

    pub(super) fn list(&self, spot: &Spot) -> Result<Vec<Entry>, ToolError> {
        self.require_directories(spot)?;
        if self.files.contains_key(&spot.path) {
            return Err(guard::not_a_directory(spot));
        }
        if !self.is_directory(&spot.path) {
            return Err(guard::not_found(spot));
        }
        let mut entries: BTreeMap<&str, Sort> = BTreeMap::new();
        for (path, _) in self.below(&spot.path) {
            match path.split_once('/') {
                Some((directory, _)) => entries.insert(directory, Sort::Directory),
                None => entries.insert(path, Sort::File),
            };
        }
        Ok(entries.into_iter().map(|(name, sort)| Entry { name: name.as_bytes().to_vec(), sort }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(path: &str) -> Spot {
        Spot { path: path.into(), shown: path.into() }
    }

    #[test]
    fn files_are_kept_and_directories_follow() {
        let mut store = Store::default();
        assert_eq!(store.list(&spot("")), Ok(Vec::new()));
        store.write(&spot("a/b/c"), b"1").unwrap();
        store.write(&spot("a.txt"), b"2").unwrap();
        let kind = |result: Result<(), ToolError>| result.unwrap_err().kind;
        assert_eq!(kind(store.write(&spot("a"), b"")), ToolErrorKind::IsADirectory);
        assert_eq!(kind(store.write(&spot(""), b"")), ToolErrorKind::IsADirectory);
        assert_eq!(kind(store.write(&spot("a.txt/x"), b"")), ToolErrorKind::Unknown);
        assert_eq!(kind(store.read(&spot("none")).map(drop)), ToolErrorKind::FileNotFound);
        let names = |path: &str| -> Vec<String> {
            let entries = store.list(&spot(path)).unwrap();
            entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect()
        };
        assert_eq!(
            (names(""), names("a"), names("a/b")),
            (vec!["a".into(), "a.txt".into()], vec!["b".into()], vec!["c".into()])
        );
        store.delete(&spot("a/b/c")).unwrap();
        assert_eq!(kind(store.list(&spot("a")).map(drop)), ToolErrorKind::FileNotFound);
        assert_eq!(store.bytes, 1);
    }

    #[test]
    fn a_store_is_bounded() {
        let mut store = Store::default();
        let large = vec![0; MAX_BYTES / 4];
        for number in 0..4 {
            store.write(&spot(&number.to_string()), &large).unwrap();
        }
        assert_eq!(store.write(&spot("more"), b"x").unwrap_err().kind, ToolErrorKind::Limit);
        // Replacing one is no more than before.
        store.write(&spot("0"), &large).unwrap();
        store.write(&spot("0"), b"").unwrap();
        store.write(&spot("more"), b"x").unwrap();
        let mut store = Store::default();
        for number in 0..MAX_FILES {
            store.write(&spot(&number.to_string()), b"").unwrap();
        }
        assert_eq!(store.write(&spot("more"), b"").unwrap_err().kind, ToolErrorKind::Limit);
        store.write(&spot("0"), b"x").unwrap();
    }
}
