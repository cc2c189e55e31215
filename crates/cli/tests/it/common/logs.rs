//! Logs as files: which are there, and what is in them byte by byte, without our own reader's kindness.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The logs of a directory, the newest last.
pub(crate) fn logs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ends = path.extension().is_some_and(|end| end == "eval" || end == "json");
        ends && !name.starts_with('.') && name != "eval-set.json"
    };
    let mut found: Vec<PathBuf> = entries.filter(is_log).collect();
    found.sort();
    found
}

fn number(bytes: &[u8], at: usize, count: usize) -> usize {
    bytes[at..at + count].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Every entry of a zip, by its directory: names that are there twice are twice here. Contents are unpacked.
pub(crate) fn entries(log: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(log).unwrap();
    let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06").unwrap();
    let (count, mut at) = (number(&bytes, end + 10, 2), number(&bytes, end + 16, 4));
    let mut all = Vec::new();
    for _ in 0..count {
        let (name, extra, remark) =
            (number(&bytes, at + 28, 2), number(&bytes, at + 30, 2), number(&bytes, at + 32, 2));
        let (packed, offset) = (number(&bytes, at + 20, 4), number(&bytes, at + 42, 4));
        let text = String::from_utf8(bytes[at + 46..at + 46 + name].to_vec()).unwrap();
        let start = offset + 30 + number(&bytes, offset + 26, 2) + number(&bytes, offset + 28, 2);
        all.push((text, zstd::decode_all(&bytes[start..start + packed]).unwrap()));
        at += 46 + name + extra + remark;
    }
    all
}

/// The scores of every sample of a finished log, by its name; each is exactly once among the entries and in the summaries.
pub(crate) fn exactly_once(log: &Path) -> BTreeMap<String, Value> {
    let entries = entries(log);
    let mut samples = BTreeMap::new();
    for (name, content) in entries.iter().filter(|(name, _)| name.starts_with("samples/")) {
        let sample: Value = serde_json::from_slice(content).unwrap();
        let key = format!("samples/{}_epoch_{}.json", sample["id"].as_str().unwrap(), sample["epoch"]);
        assert_eq!(*name, key, "{}", log.display());
        assert!(samples.insert(key, sample["scores"].clone()).is_none(), "{name} is twice in {}", log.display());
    }
    let (_, summaries) = entries.iter().find(|(name, _)| name == "summaries.json").unwrap();
    let summaries: Vec<Value> = serde_json::from_slice(summaries).unwrap();
    let mut listed: Vec<String> = summaries
        .iter()
        .map(|summary| format!("samples/{}_epoch_{}.json", summary["id"].as_str().unwrap(), summary["epoch"]))
        .collect();
    listed.sort();
    assert_eq!(listed, samples.keys().cloned().collect::<Vec<_>>(), "summaries of {}", log.display());
    samples
}

/// Numbers by chance, the same for the same seed.
pub(crate) struct Chance(u64);

impl Chance {
    /// A seed that is printed, or the one that the variable `RINGFENCE_SEED` gives.
    pub(crate) fn new() -> Self {
        let own = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        let seed = std::env::var("RINGFENCE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(own);
        println!("RINGFENCE_SEED={seed}");
        Self(seed | 1)
    }

    /// From 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }
}
