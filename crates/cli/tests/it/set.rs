//! `eval-set`, and several models at once: every task with every model, one log each, whatever happens meanwhile.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at its own set-up, and says its figures"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::evaluation::{eval, write};
use crate::common::logs::{Chance, exactly_once, logs};
use crate::fake::{Api, Fake, KEY, Next};
use log::{Reader, Status};
use serde_json::Value;

fn task(name: &str, count: usize) -> String {
    let mut text = format!("name: {name}\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\ndataset:\n");
    // Articles do not count for `exact`, and `a` is one.
    let word = if name == "a" { "alpha" } else { name };
    for number in 0..count {
        let answer = if number % 3 == 0 { "other" } else { word };
        writeln!(text, "  - {{id: s{number}, input: {word}, target: {word}, mock: [{{text: {answer}}}]}}").unwrap();
    }
    text
}

fn set(place: &Path, arguments: &[&str]) -> Command {
    let mut command = crate::common::command(place);
    command.args(["--json", "eval-set"]).args(arguments).arg("--log-dir").arg(place.join("logs"));
    command
}

fn done(mut command: Command) -> (i32, Value, String) {
    let output = command.output().unwrap();
    // Problems are data where machines read.
    let messages = format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), messages)
}

/// How the logs of a directory ended, by task and model.
fn statuses(directory: &Path) -> BTreeMap<(String, String), Vec<Status>> {
    let mut found: BTreeMap<(String, String), Vec<Status>> = BTreeMap::new();
    for log in logs(directory) {
        let reader = Reader::open(&log).unwrap();
        let text = |key: &str| reader.header()["eval"][key].as_str().unwrap().to_owned();
        found.entry((text("task"), text("model"))).or_default().push(reader.status());
    }
    found
}

const MODELS: [&str; 4] = ["--model", "mock/scripted", "--model", "mock/echo"];

#[test]
fn a_set_is_every_task_with_every_model_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let tasks = place.path().join("tasks");
    std::fs::create_dir_all(tasks.join("more")).unwrap();
    write(&tasks, "a.yaml", &task("a", 9));
    write(&tasks, "policy.yaml", "approvers: []\n");
    write(&tasks.join("more"), "b.yaml", &task("b", 6));
    let given = [&[tasks.to_str().unwrap()][..], &MODELS].concat();
    let (code, result, messages) = done(set(place.path(), &given));
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("policy.yaml: it is no task"), "{messages}");
    let rows = result["evaluations"].as_array().unwrap();
    let shown: Vec<(&str, &str, u64, f64)> = rows
        .iter()
        .map(|row| {
            assert_eq!((row["status"].as_str(), row["profile"].as_str()), (Some("success"), Some("T2.H1.N2")));
            let score = row["score"]["value"].as_f64().unwrap();
            (row["task"].as_str().unwrap(), row["model"].as_str().unwrap(), row["samples"].as_u64().unwrap(), score)
        })
        .collect();
    // Whoever repeats the question is right here.
    let expected = [
        ("a", "mock/scripted", 9, 2.0 / 3.0),
        ("a", "mock/echo", 9, 1.0),
        ("b", "mock/scripted", 6, 2.0 / 3.0),
        ("b", "mock/echo", 6, 1.0),
    ];
    for (shown, expected) in std::iter::zip(&shown, expected) {
        assert_eq!((shown.0, shown.1, shown.2), (expected.0, expected.1, expected.2));
        assert!((shown.3 - expected.3).abs() < 1e-9, "{shown:?}");
    }
    let directory = place.path().join("logs");
    let manifest =
        || -> Value { serde_json::from_slice(&std::fs::read(directory.join("eval-set.json")).unwrap()).unwrap() };
    let first = manifest();
    assert_eq!(first["evaluations"].as_array().unwrap().len(), 4);
    assert!(first["evaluations"].as_array().unwrap().iter().all(|entry| entry["status"] == "success"));
    let picture = std::fs::read_to_string(directory.join("eval-set.svg")).unwrap();
    assert_eq!((picture.matches("<circle").count(), picture.starts_with("<svg")), (4, true));
    let all = logs(&directory);
    for log in &all {
        let reader = Reader::open(log).unwrap();
        assert_eq!(reader.header()["eval"]["eval_set_id"], first["id"]);
    }
    // Again: there is nothing to do, and nothing is done.
    let (code, again, _) = done(set(place.path(), &given));
    assert_eq!((code, &again["evaluations"], logs(&directory)), (0, &result["evaluations"], all.clone()));
    assert_eq!(manifest(), first);
    assert_eq!(std::fs::read_to_string(directory.join("eval-set.svg")).unwrap(), picture);
    // One more task and a changed one: the others are not hurt.
    write(&tasks, "c.yaml", &task("c", 3));
    write(&tasks, "a.yaml", &task("a", 9).replace("id: s1,", "id: s99,"));
    write(&tasks, "broken.yaml", "dataset: [\n");
    let (code, result, messages) = done(set(place.path(), &given));
    assert_eq!(code, 3, "{messages}");
    assert!(messages.contains("a.yaml: the task's files have changed since its log was made"), "{messages}");
    let status: Vec<&str> =
        result["evaluations"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    let (refused, success) = ("refused", "success");
    assert_eq!(status, [refused, refused, refused, refused, success, success, success, success]);
    std::fs::remove_file(tasks.join("broken.yaml")).unwrap();
    let (code, _, messages) = done(set(place.path(), &[&given[..], &["--anew"]].concat()));
    assert_eq!(code, 0, "{messages}");
    assert_eq!(logs(&directory).len(), 6);
    assert_eq!(logs(&directory.join("superseded")).len(), 2, "nothing is thrown away");
    assert_eq!(manifest()["evaluations"].as_array().unwrap().len(), 6);
    assert_eq!(manifest()["id"], first["id"]);
    let listed = crate::common::ringfence(place.path(), &["log", "list", directory.to_str().unwrap()]);
    assert_eq!(
        listed.1.lines().count(),
        7 + listed.1.lines().filter(|line| line.starts_with("  ")).count(),
        "{}",
        listed.1
    );
}

#[test]
fn a_set_that_is_killed_at_any_moment_ends_with_one_finished_log_each() {
    let mut chance = Chance::new();
    let place = tempfile::tempdir().unwrap();
    let names = ["one", "two", "three"];
    let files: Vec<String> =
        names.iter().map(|name| write(place.path(), &format!("{name}.yaml"), &task(name, 120))).collect();
    let given: Vec<&str> =
        files.iter().map(String::as_str).chain(MODELS).chain(["--max-samples", "2", "--max-tasks", "2"]).collect();
    let whole = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let (code, expected, messages) = done(set(whole.path(), &given));
    let length = begin.elapsed();
    assert_eq!(code, 0, "{messages}");
    // Whenever one has come to its end, another is begun, until ten were killed.
    let (mut dead, mut tries, mut round) = (0, 0, 0);
    let mut ends = 0;
    while dead < 10 || ends == 0 {
        tries += 1;
        assert!(tries <= 100, "{dead} were killed");
        let own = place.path().join(format!("round-{round}"));
        std::fs::create_dir_all(&own).unwrap();
        let (said, told) = (own.join("said"), own.join("told"));
        let file = |path: &Path| Stdio::from(std::fs::File::create(path).unwrap());
        let mut child = set(&own, &given).stdout(file(&told)).stderr(file(&said)).spawn().unwrap();
        let moment = Instant::now() + length.mul_f64(chance.share() * if dead < 10 { 0.7 } else { 20.0 });
        while Instant::now() < moment && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(status) = child.try_wait().unwrap() {
            let said = [said, told].map(|path| std::fs::read_to_string(path).unwrap()).concat();
            assert!(status.success(), "{status}: {said}");
            round += 1;
            ends += 1;
            compare(&own, &given, &expected);
        } else {
            dead += 1;
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    println!("a set took {length:?}; {dead} of {tries} were killed, {ends} came to their ends");
}

/// One finished log for each part, the same as of a set that nobody disturbed.
fn compare(place: &Path, given: &[&str], expected: &Value) {
    let (code, result, messages) = done(set(place, given));
    assert_eq!(code, 0, "{messages}");
    let found = statuses(&place.join("logs"));
    assert_eq!(found.len(), 6);
    assert!(found.values().all(|statuses| *statuses == [Status::Success]), "{found:?}");
    let rows = std::iter::zip(result["evaluations"].as_array().unwrap(), expected["evaluations"].as_array().unwrap());
    for (row, expected) in rows {
        for key in ["task", "model", "status", "samples", "total", "score"] {
            assert_eq!(row[key], expected[key], "{row}");
        }
        let log = |row: &Value| exactly_once(&PathBuf::from(row["log"].as_str().unwrap()));
        assert_eq!(log(row), log(expected));
    }
}

#[test]
fn two_sets_do_not_mix_and_a_dead_one_s_lock_holds_nothing() {
    let place = tempfile::tempdir().unwrap();
    let file = write(place.path(), "a.yaml", &task("a", 2));
    let directory = place.path().join("logs");
    std::fs::create_dir_all(&directory).unwrap();
    let lock = std::fs::File::create(directory.join("eval-set.lock")).unwrap();
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let (code, _, messages) = done(set(place.path(), &[&file]));
    assert!(code == 2 && messages.contains("another eval-set is at work here"), "{messages}");
    drop(lock);
    assert_eq!(done(set(place.path(), &[&file])).0, 0);
    write(&directory, "eval-set.json", "{}");
    let (code, _, messages) = done(set(place.path(), &[&file]));
    assert!(code == 2 && messages.contains("its manifest cannot be read"), "{messages}");
}

#[test]
fn an_interrupt_ends_all_of_a_set_and_completes_its_logs() {
    let place = tempfile::tempdir().unwrap();
    let files = ["one", "two"].map(|name| write(place.path(), &format!("{name}.yaml"), &task(name, 30)));
    let replies = || std::iter::repeat_n(Next::Reply(crate::fake::said(Api::OpenAi, "one")), 200);
    let fake = Fake::with_pace(Api::OpenAi, replies(), Duration::from_millis(50));
    let remote = |mut command: Command| {
        command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", fake.base(Api::OpenAi));
        command
    };
    let given = [files[0].as_str(), &files[1], "--model", "openai/test", "--max-samples", "2"];
    let mut child = remote(set(place.path(), &given)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let directory = place.path().join("logs");
    let deadline = Instant::now() + Duration::from_secs(30);
    let begun = |log: &PathBuf| {
        let found = Reader::open(log).and_then(|log| log.summaries());
        found.is_ok_and(|found| found.len() >= 2)
    };
    while logs(&directory).iter().filter(|log| begun(log)).count() < 2 {
        assert!(Instant::now() < deadline, "they do not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(
        statuses(&directory).values().all(|statuses| *statuses == [Status::Cancelled]),
        "{:?}",
        statuses(&directory)
    );
    let (code, result, messages) = done(remote(set(place.path(), &given)));
    assert_eq!(code, 0, "{messages}");
    assert_eq!(result["evaluations"][0]["score"]["value"], 1.0);
    assert_eq!(result["evaluations"][1]["score"]["value"], 0.0);
    assert!(statuses(&directory).values().all(|statuses| *statuses == [Status::Success]), "{:?}", statuses(&directory));
    let asked = fake.requests().len();
    assert!((60..=64).contains(&asked), "what was finished is not asked again: {asked}");
}

#[test]
fn one_task_is_answered_by_several_models_at_once() {
    let place = tempfile::tempdir().unwrap();
    let file = write(place.path(), "a.yaml", &task("a", 3));
    let (code, result, messages) =
        done(eval(place.path(), &[&[file.as_str()][..], &MODELS, &["--model", "mock/echo"]].concat()));
    assert_eq!(code, 0, "{messages}");
    assert_eq!(result["schema"], "ringfence.evaluations/1");
    let found = statuses(&place.path().join("logs"));
    assert_eq!(found.len(), 2, "each once");
    assert!(found.values().all(|statuses| *statuses == [Status::Success]));
    assert!(!place.path().join("logs/eval-set.json").exists());
    // One that cannot answer is said before anything starts.
    let (code, _, messages) =
        done(eval(place.path(), &[&[file.as_str()][..], &MODELS, &["--model", "nobody/here"]].concat()));
    assert!(code == 2 && messages.contains("nobody/here"), "{messages}");
    assert_eq!(logs(&place.path().join("logs")).len(), 2);
}

#[test]
fn a_part_with_failed_samples_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let text = |mock: &str| {
        format!(
            "name: x\nprofile: T2.H1.N2\nscorer: exact\nmodel: openai/test\ndataset: [{{id: a, input: {mock}, target: 'yes'}}]\n"
        )
    };
    let task = write(place.path(), "x.yaml", &text("q"));
    let api = Api::OpenAi;
    let refused = Next::Status(400, Vec::new(), serde_json::json!({"error": {"message": "no"}}));
    let fake = Fake::start(api, [refused, Next::Reply(crate::fake::said(api, "yes"))]);
    for (round, failed) in [(1, 1), (2, 0), (3, 0)] {
        let mut command = set(place.path(), &[&task, "--fail-on-error", "false"]);
        command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", fake.base(api));
        let (code, result, said) = done(command);
        assert_eq!(code, 0, "{round}: {said}");
        let text = result.to_string();
        assert_eq!(fake.requests().len(), round.min(2), "{text}");
        let log = logs(&place.path().join("logs")).pop().unwrap();
        let found = Reader::open(&log).unwrap().summaries().unwrap();
        assert_eq!(found.iter().filter(|summary| summary["error"].is_string()).count(), failed, "{round}: {text}");
    }
}
