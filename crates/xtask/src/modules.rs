//! Modules of merged test programs: a package has one program, tests/it, with a module for each subject. Lanes name the modules,
//! and each runs in a process of its own, because tests of one subject share statics, environment and numbers of threads.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::setup::SetupError;

/// The name of a merged program.
pub(crate) const MERGED: &str = "it";

/// The modules with tests that the source of a merged program declares. Those without tests are helpers.
pub(crate) fn of_source(main: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(main).unwrap_or_default();
    let directory = main.parent().unwrap_or(main);
    let declared = source.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    declared
        .filter(|module| has_test(&directory.join(format!("{module}.rs"))) || has_test(&directory.join(module)))
        .map(str::to_owned)
        .collect()
}

fn has_test(path: &Path) -> bool {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        return entries.map(|entry| entry.path()).any(|path| has_test(&path));
    }
    let marks = ["#[test]", "#[tokio::test"];
    std::fs::read_to_string(path).is_ok_and(|source| marks.iter().any(|mark| source.contains(mark)))
}

/// Names of a merged program's tests, as `--list` prints them.
pub(crate) fn list(executable: &Path) -> Result<Vec<String>, SetupError> {
    let failed = |why: String| SetupError::Failed(format!("{} --list: {why}", executable.display()));
    let mut command = Command::new(executable);
    let output = command.arg("--list").stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// A step's arguments for a module: its options, then the exact names of the tests that its filters choose. A filter is matched with
/// the name within the module, as if the module were a program. `None` means that the run's own filter chooses no test of it.
pub(crate) fn arguments(tests: &[String], module: &str, own: &[String], filter: Option<&str>) -> Option<Vec<String>> {
    let (mut options, mut filters, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut words = own.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--skip" => skipped.extend(words.next().map(String::as_str)),
            option if option.starts_with('-') => options.push(option.to_owned()),
            name => filters.push(name),
        }
    }
    let prefix = format!("{module}::");
    let chosen = tests.iter().filter(|test| {
        let Some(name) = test.strip_prefix(&prefix) else { return false };
        let is_wanted = match filter {
            Some(filter) => test.contains(filter),
            None => filters.is_empty() || filters.iter().any(|filter| name.contains(filter)),
        };
        is_wanted && !skipped.iter().any(|skip| name.contains(skip))
    });
    let mut chosen: Vec<String> = chosen.cloned().collect();
    if chosen.is_empty() {
        if filter.is_some() {
            return None;
        }
        // No name at all would mean every test of the program. This one is no test's, and the run fails for want of a test.
        chosen.push(prefix);
    }
    options.push("--exact".into());
    options.extend(chosen);
    Some(options)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory with these files, and the path of its `main.rs`.
    fn sources(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let main = place.path().join("main.rs");
        (place, main)
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn modules_without_a_test_are_helpers() {
        let (_place, main) = sources(&[
            ("main.rs", "//! Tests.\n\nmod attacks;\nmod common;\n#[path = \"x.rs\"]\nmod fake;\nmod run;\n"),
            ("attacks/mod.rs", "mod files;\n"),
            ("attacks/files.rs", "#[tokio::test]\nasync fn a() {}\n"),
            ("common.rs", "pub(crate) fn helper() {}\n"),
            ("run.rs", "#[test]\nfn a() {}\n"),
        ]);
        assert_eq!(of_source(&main), ["attacks", "run"]);
    }

    #[test]
    fn a_modules_tests_are_named_exactly() {
        let tests = words("run::a run::b prun::a run_two::a serve::run::a");
        assert_eq!(arguments(&tests, "run", &[], None).unwrap(), words("--exact run::a run::b"));
        let own = words("--test-threads=8 --skip a");
        assert_eq!(arguments(&tests, "run", &own, None).unwrap(), words("--test-threads=8 --exact run::b"));
        assert_eq!(arguments(&tests, "serve", &words("run"), None).unwrap(), words("--exact serve::run::a"));
    }

    #[test]
    fn a_filter_of_the_run_replaces_a_steps_own_but_not_what_it_skips() {
        let tests = words("run::one run::two run::two_more");
        let own = words("one --skip more");
        assert_eq!(arguments(&tests, "run", &own, Some("two")).unwrap(), words("--exact run::two"));
        assert_eq!(arguments(&tests, "run", &own, Some("three")), None);
    }

    #[test]
    fn a_module_without_a_chosen_test_never_means_the_whole_program() {
        assert_eq!(arguments(&words("run::one"), "run", &words("two"), None).unwrap(), words("--exact run::"));
    }
}
