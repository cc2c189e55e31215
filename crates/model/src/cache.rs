//! Answers that were given before: on disk, by the whole request, until they are too old.
//!
//! A file's name is the SHA-256 of everything that makes an answer: the API, the address, the model, the body, the scope.
//! Keys are in none of these. Files are written beside their place and moved there, so that whoever reads finds all or
//! nothing; what cannot be read or written is as if it were not there.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bounded::Budget;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Output;

/// The version of the files.
const VERSION: u32 = 1;
/// Files above this are not kept.
const MAX_ENTRY: u64 = 8 << 20;

/// Where answers are kept, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// The directory.
    pub directory: PathBuf,
    /// How old an answer may be.
    pub expiry: Duration,
    /// How many bytes all answers may have; the oldest go first.
    pub max_bytes: u64,
}

impl CacheSettings {
    /// A week, and a gigabyte.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), expiry: Duration::from_hours(7 * 24), max_bytes: 1 << 30 }
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    version: u32,
    key: String,
    /// Seconds since 1970.
    created: u64,
    output: Output,
}

/// The answers.
#[derive(Debug)]
pub(crate) struct Cache {
    settings: CacheSettings,
}

/// What a request is known by.
pub(crate) fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // With their lengths, so that no two lists read the same.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Cache {
    pub(crate) fn new(settings: CacheSettings) -> Self {
        Self { settings }
    }

    fn place(&self, key: &str) -> PathBuf {
        self.settings.directory.join(format!("{key}.json"))
    }

    /// An answer that is young enough.
    pub(crate) fn get(&self, key: &str, now: SystemTime) -> Option<Output> {
        let mut text = Vec::new();
        File::open(self.place(key)).ok()?.take(MAX_ENTRY + 1).read_to_end(&mut text).ok()?;
        let entry: Entry = bounded::read(&text, &Budget::for_text(&text)).ok()?;
        let created = UNIX_EPOCH.checked_add(Duration::from_secs(entry.created))?;
        // One from the future has a clock that nobody can trust.
        let young = now.duration_since(created).is_ok_and(|age| age <= self.settings.expiry);
        (entry.version == VERSION && entry.key == key && young).then_some(entry.output)
    }

    /// Keeps an answer.
    pub(crate) fn put(&self, key: &str, output: &Output, now: SystemTime) -> io::Result<()> {
        let created = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let entry = Entry { version: VERSION, key: key.to_owned(), created, output: output.clone() };
        let text = serde_json::to_vec(&entry)?;
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if size > MAX_ENTRY.min(self.settings.max_bytes) {
            return Ok(());
        }
        let directory = &self.settings.directory;
        private(directory)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
        file.write_all(&text)?;
        self.make_room(size)?;
        file.persist(self.place(key)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes the oldest until there is room.
    fn make_room(&self, wanted: u64) -> io::Result<()> {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.settings.directory)? {
            let path = entry?.path();
            // Another process may have removed it just now.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_file() && path.extension().is_some_and(|extension| extension == "json") {
                kept.push((metadata.modified()?, metadata.len(), path));
            }
        }
        kept.sort();
        let mut all: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in kept {
            if all.saturating_add(wanted) <= self.settings.max_bytes {
                break;
            }
            let _ = fs::remove_file(path);
            all = all.saturating_sub(size);
        }
        Ok(())
    }
}

/// Answers may hold what a task keeps to itself: nobody else reads them.
fn private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn output(text: &str) -> Output {
        crate::output::Reading { parts: vec![log::message::Part::said(text)], ..Default::default() }.into_output("a/b")
    }

    #[test]
    fn answers_are_kept_until_they_are_too_old() {
        let place = tempfile::tempdir().unwrap();
        let settings = CacheSettings::at(place.path().join("deep/er"));
        let (cache, now, one) = (Cache::new(settings.clone()), SystemTime::now(), key(&["a", "b"]));
        assert_eq!(cache.get(&one, now), None);
        cache.put(&one, &output("yes"), now).unwrap();
        assert_eq!(cache.get(&one, now + Duration::from_secs(5)).unwrap().completion, "yes");
        assert_eq!(cache.get(&key(&["ab", ""]), now), None);
        assert_eq!(cache.get(&one, now + settings.expiry + Duration::from_secs(2)), None);
        assert_eq!(cache.get(&one, now - Duration::from_hours(1)), None);
        // What somebody else wrote there, or half of a file, is no answer.
        let path = cache.place(&one);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(cache.get(&one, now), None);
        let two = key(&["c"]);
        fs::write(cache.place(&two), text).unwrap();
        assert_eq!(cache.get(&two, now), None);
        assert_eq!(fs::metadata(&settings.directory).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let place = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let size =
            serde_json::to_vec(&Entry { version: 1, key: key(&["0"]), created: 1, output: output("0") }).unwrap().len();
        let max_bytes = u64::try_from(size * 3 + size / 2).unwrap();
        let cache = Cache::new(CacheSettings { max_bytes, ..CacheSettings::at(place.path()) });
        for number in 0..10_u64 {
            let name = number.to_string();
            cache.put(&key(&[&name]), &output(&name), now).unwrap();
            let file = File::options().write(true).open(cache.place(&key(&[&name]))).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(number)).unwrap();
        }
        let kept: Vec<u64> = (0..10).filter(|number| cache.get(&key(&[&number.to_string()]), now).is_some()).collect();
        assert!((2..=3).contains(&kept.len()) && kept.contains(&9), "{kept:?}");
        assert!(fs::read_dir(place.path()).unwrap().count() <= 3);
        // A giant is not kept at all.
        cache.put(&key(&["g"]), &output(&"x".repeat(size * 4)), now).unwrap();
        assert_eq!(cache.get(&key(&["g"]), now), None);
    }
}
