//! Replays every kept input of every fuzz target.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzzed::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(directory: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_target_of_libfuzzer_has_a_function_and_seeds() {
    let functions: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(functions.len(), TARGETS.len(), "a name twice");
    assert_eq!(names(&fuzz().join("fuzz_targets")), functions);
    assert_eq!(names(&fuzz().join("seeds")), functions);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is not in fuzz/Cargo.toml");
        let called = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(called.contains(&format!("fuzzed::{name}(bytes)")), "{name} calls another function");
    }
}

#[test]
fn every_kept_input_is_replayed() {
    for (name, check) in TARGETS {
        let mut replayed = 0;
        for entry in fs::read_dir(fuzz().join("seeds").join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            assert!(std::panic::catch_unwind(|| check(&bytes)).is_ok(), "{name} fails with {}", path.display());
            replayed += 1;
        }
        assert!(replayed > 0, "{name} has no kept input");
    }
}
