//! Everything that we show as a task is one.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eval::task::Task;
use profile::{Environment, Facts, Overrides, Request};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The task files among the examples; the others are profile documents.
fn examples() -> Vec<PathBuf> {
    let all = std::fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\ndataset:"))).collect()
}

#[test]
fn every_example_is_a_task_whose_profile_compiles() {
    let examples = examples();
    assert!(examples.len() >= 7, "{examples:?}");
    for path in examples {
        let task = Task::load(&path, &BTreeMap::new()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(Some(task.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        let request = Request::resolve(task.document, &Environment::default(), Overrides::default());
        if let Err(refusal) = profile::compile(&request, &Facts::assumed()) {
            panic!("{}: {refusal:#?}", path.display());
        }
    }
}

/// A scripted model that runs out of words would end a sample for the wrong reason.
#[test]
fn every_example_says_what_its_model_says() {
    for path in examples() {
        let task = Task::load(&path, &BTreeMap::new()).unwrap();
        for sample in &task.dataset.samples {
            assert!(sample.mock.as_ref().is_some_and(|mock| !mock.is_empty()), "{}: {}", path.display(), sample.id);
        }
    }
}

/// What runs commands without isolation is there only for those who ask.
#[test]
fn the_iterative_example_has_commands_only_when_asked() {
    let path = root().join("examples/iterative.yaml");
    let tools = |given: &[(&str, &str)]| -> Vec<String> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let task = Task::load(&path, &given).unwrap();
        let request = Request::resolve(task.document, &Environment::default(), Overrides::default());
        let plan = profile::compile(&request, &Facts::assumed()).unwrap();
        plan.affordances.into_iter().map(|affordance| affordance.name).collect()
    };
    let runs = |tools: Vec<String>| tools.iter().any(|tool| tool == "bash" || tool == "bash_session");
    assert!(!runs(tools(&[])));
    assert!(runs(tools(&[("enable_exec", "true")])));
}

#[test]
fn every_documented_part_is_sound() {
    let page = std::fs::read_to_string(root().join("docs/tasks.md")).unwrap();
    let files: BTreeMap<PathBuf, Vec<u8>> = [
        ("questions.csv", "question,answer,topic\nWhat is 2+2?,4,sums\n"),
        ("questions.jsonl", "{\"input\": \"What is 2+2?\", \"target\": 4}\n"),
        ("base.yaml", "profile: T0.H1.N2\napproval: ci\n"),
        ("prepare.sh", "true\n"),
        ("check.sh", "true\n"),
        ("data.bin", "\u{0}"),
    ]
    .into_iter()
    .map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()))
    .collect();
    let parts: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    assert!(parts.len() >= 6, "{}", parts.len());
    for part in parts {
        let mut text = part.to_owned();
        // A part of a file is completed to one.
        for (key, line) in [
            ("profile:", "profile: T0.H1.N2\n"),
            ("dataset:", "dataset: [{input: a, target: A, choices: [a], metadata: {level: easy}}]\n"),
        ] {
            if !text.lines().any(|line| line.starts_with(key)) {
                text.push_str(line);
            }
        }
        if let Err(problems) = Task::parse("tasks.md", &text, &BTreeMap::new(), &files) {
            panic!("{text}\n{problems:#?}");
        }
    }
}
