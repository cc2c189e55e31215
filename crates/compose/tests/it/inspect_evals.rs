//! Every Compose file that `inspect_evals` ships. The lane `inspect` of `test.sh` unpacks the package, names its place in
//! `RINGFENCE_INSPECT_EVALS`, and has Inspect's own parser say what it finds in each file (`inspect_compose.py`).

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test may stop at its own set-up")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Component, Path, PathBuf};

use compose::{Image, Project, ReadError, Surroundings};
use serde_json::Value;

/// Fragments that only other files use: alone, Compose does not take them either.
const FRAGMENTS: &[&str] = &["theagentcompany/servers/owncloud/compose.yaml"];

/// The unpacked package, if there is one.
fn package() -> Option<PathBuf> {
    let place = std::env::var_os("RINGFENCE_INSPECT_EVALS").map(PathBuf::from);
    if place.is_none() {
        eprintln!("skipped: RINGFENCE_INSPECT_EVALS is not set; the lane `inspect` sets it");
    }
    place
}

/// Compose files below a directory, by their paths in the package.
fn compose_files(directory: &Path, root: &Path, found: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            compose_files(&path, root, found);
        } else if name.contains("compose") && path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml") {
            found.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), path);
        }
    }
}

/// Reads a file of the package: all of the package belongs to its tasks, and a sample has every metadata that is asked for.
fn read(name: &str, path: &Path) -> Result<Project, ReadError> {
    let directory = path.parent().unwrap();
    let files = |path: &Path| -> io::Result<String> { std::fs::read_to_string(directory.join(path)) };
    let sample = |name: &str| name.starts_with("SAMPLE_METADATA_").then(|| "of-the-sample".to_owned());
    let levels_up = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).count() - 1;
    let text = std::fs::read_to_string(path).unwrap();
    compose::read(&text, name, &Surroundings { variables: &|_| None, sample: &sample, files: &files, levels_up })
}

/// What a file comes to, in a few words of a table.
fn row(result: &Result<Project, ReadError>) -> (&'static str, String) {
    let mut words: Vec<String> = match result {
        Ok(project) => project.ignored.iter().map(|ignored| format!("`{}`", ignored.key)).collect(),
        Err(ReadError::Refused(refused)) => refused.unmet.iter().map(|unmet| format!("`{}`", unmet.control)).collect(),
        Err(ReadError::Problems(problems)) => problems.problems.iter().map(|problem| problem.message.clone()).collect(),
    };
    words.sort();
    words.dedup();
    let outcome = match result {
        Ok(project) if project.ignored.is_empty() => "read",
        Ok(_) => "read, with records",
        Err(ReadError::Refused(_)) => "refused",
        Err(ReadError::Problems(_)) => "a fragment",
    };
    (outcome, words.join(", "))
}

#[test]
fn every_file_is_read_or_refused_by_name() {
    let Some(package) = package() else { return };
    let root = package.join("inspect_evals");
    let mut files = BTreeMap::new();
    compose_files(&root, &root, &mut files);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rows = String::new();
    for (name, path) in &files {
        let result = read(name, path);
        if let Err(ReadError::Problems(problems)) = &result {
            assert!(FRAGMENTS.contains(&name.as_str()), "{name}: {:#?}", problems.problems);
        }
        let (outcome, which) = row(&result);
        *counts.entry(outcome).or_default() += 1;
        writeln!(rows, "| `{name}` | {outcome} | {which} |").unwrap();
    }
    let counts: Vec<String> = counts.iter().map(|(outcome, count)| format!("{outcome}: {count}")).collect();
    let summary = format!("{} files. {}.", files.len(), counts.join("; "));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compose-inspect-evals.md");
    let written = std::fs::read_to_string(path).unwrap();
    let (before, _) = written.split_once("\n## The files\n").unwrap();
    let expected = format!("{before}\n## The files\n\n{summary}\n\n| file | outcome | which |\n|---|---|---|\n{rows}");
    if std::env::var_os("RINGFENCE_WRITE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(written == expected, "the table differs; RINGFENCE_WRITE_DOCS=1 writes it");
}

#[test]
fn inspects_own_parser_finds_the_same() {
    let Some(package) = package() else { return };
    let Some(answers) = std::env::var_os("RINGFENCE_INSPECT_COMPOSE") else { panic!("no answers of Inspect's parser") };
    let answers: BTreeMap<String, Value> = serde_json::from_str(&std::fs::read_to_string(answers).unwrap()).unwrap();
    let mut compared = 0;
    for (name, theirs) in &answers {
        let Ok(ours) = read(name, &package.join("inspect_evals").join(name)) else { continue };
        // What it does not know it does not take; `include` is the one such key, and Compose does that for it.
        if theirs.get("error").is_some() {
            continue;
        }
        // Theirs has variables as they are written.
        let own: BTreeMap<String, Value> = ours
            .services
            .iter()
            .filter(|service| service.file.is_none())
            .map(|service| {
                let image = match &service.image {
                    Image::Named(name) => Some(name.value.clone()),
                    Image::Built { tag, .. } => tag.as_ref().map(|tag| tag.value.clone()),
                };
                let limits = &service.limits;
                let mut seen = serde_json::json!({
                    "image": image,
                    "environment": service.environment.iter().map(|(name, value)| format!("{name}={}", value.value)).collect::<Vec<_>>(),
                    "depends_on": service.depends_on.iter().map(|needed| needed.service.as_str()).collect::<Vec<_>>(),
                    "memory": limits.memory.as_ref().map(|memory| memory.value),
                    "millicpus": limits.millicpus.as_ref().map(|cpus| cpus.value),
                    "working_dir": service.working_dir.as_ref().map(|path| path.value.as_str()),
                    "init": service.init,
                });
                if let Some(command) = &service.command {
                    seen["command"] = command.value.clone().into();
                }
                (service.name.to_string(), seen)
            })
            .collect();
        assert_eq!(Value::from_iter(own), theirs["services"], "{name}");
        // A fragment has none by Inspect's rule, and the first by ours.
        if let Some(default) = theirs["default"].as_str() {
            assert_eq!(ours.default.as_str(), default, "{name}");
        }
        compared += 1;
    }
    eprintln!("{compared} of {} files compared", answers.len());
    assert!(compared * 10 > answers.len() * 8, "only {compared} of {} could be compared", answers.len());
}
