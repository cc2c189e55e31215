//! `eval-retry`: killed, failed and cancelled evaluations go on, and logs that lie choose nothing.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at its own set-up, and says its figures"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::evaluation::{calls, dump, ended, eval, write};
use crate::common::logs::{Chance, exactly_once, logs};
use crate::common::terminal::Terminal;
use crate::fake::{Api, Fake, KEY, Next};
use serde_json::{Value, json};

/// A retry of a log: code, result, messages.
fn retry(place: &Path, log: &Path, more: &[&str]) -> (i32, Value, String) {
    let output = retrying(place, log, more).output().unwrap();
    // Problems are data where machines read.
    let messages = format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), messages)
}

/// Names the task file `task.yaml` of `place`, unless `more` names one: without a terminal a log cannot.
fn retrying(place: &Path, log: &Path, more: &[&str]) -> Command {
    let mut command = unnamed(place, log, more);
    if !more.contains(&"--task") {
        command.arg("--task").arg(place.join("task.yaml"));
    }
    command
}

/// The same without a task file.
fn unnamed(place: &Path, log: &Path, more: &[&str]) -> Command {
    let mut command = crate::common::command(place);
    command.args(["--json", "eval-retry"]).arg(log).args(more);
    command
}

/// Samples that answer differently, some of them right: no sandbox is needed.
fn many(count: usize, epochs: usize) -> String {
    let mut text =
        format!("name: many\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\nepochs: {epochs}\ndataset:\n");
    for number in 0..count {
        let answer = if number % 3 == 0 { number + 1 } else { number };
        writeln!(text, "  - {{id: s{number}, input: say {number}, target: '{number}', mock: [{{text: '{answer}'}}]}}")
            .unwrap();
    }
    text
}

/// Starts, waits, kills. Says how long it lived if it ended by itself.
fn kill_after(command: &mut Command, time: Duration) -> Option<Duration> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while start.elapsed() < time {
        if child.try_wait().unwrap().is_some() {
            return Some(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// A proof before the first sample would be most of a run this short, and its moments are not what is tested.
const UNPROVEN: [&str; 4] = ["--verify", "off", "--justification", "killed on purpose"];

#[test]
fn a_run_that_is_killed_at_any_moment_goes_on_to_the_same_end() {
    let mut chance = Chance::new();
    let place = tempfile::tempdir().unwrap();
    let task = write(place.path(), "task.yaml", &many(100, 3));
    let begin = Instant::now();
    let (code, whole, messages) = ended(place.path(), &[&[&*task, "--max-samples", "4"], &UNPROVEN[..]].concat());
    let mut length = begin.elapsed();
    assert_eq!(code, 0, "{messages}");
    let expected = exactly_once(Path::new(whole["log"].as_str().unwrap()));
    assert_eq!(expected.len(), 300);
    let (mut killed, mut kept_some, mut round) = (0_u32, 0, 0);
    // Until 20 were killed: some are faster than the first one was, and end before their moment.
    while killed < 20 {
        round += 1;
        assert!(round <= 100, "the moments are no moments of the run: {killed} were killed");
        let directory = place.path().join(format!("round-{round}"));
        let path = directory.to_str().unwrap();
        let mut first = crate::common::command(place.path());
        first.args(["eval", &task, "--max-samples", "4", "--log-dir", path]).args(UNPROVEN);
        // Spread over the whole run, by chance within each part.
        let moment = length.mul_f64((f64::from(killed) + chance.share()) / 20.0);
        match kill_after(&mut first, moment) {
            Some(lived) => {
                length = length.min(lived);
                continue;
            }
            None => killed += 1,
        }
        let mut log = logs(&directory).pop();
        // Some retries are killed too, and some of those again.
        for _ in 0..3 {
            let Some(old) = log.clone().filter(|_| chance.share() < 0.4) else { break };
            let before = std::fs::read(&old).unwrap();
            kill_after(&mut retrying(place.path(), &old, &UNPROVEN), length.mul_f64(chance.share()));
            assert_eq!(std::fs::read(&old).unwrap(), before, "the old log is untouched");
            log = logs(&directory).pop();
        }
        let (code, result, messages) = match &log {
            Some(old) => {
                let before = std::fs::read(old).unwrap();
                let ended = retry(place.path(), old, &UNPROVEN);
                assert_eq!(std::fs::read(old).unwrap(), before, "the old log is untouched");
                ended
            }
            // Killed before there was a log.
            None => ended(place.path(), &[&[&*task], &UNPROVEN[..]].concat()),
        };
        assert_eq!(code, 0, "round {round}: {messages}");
        let last = PathBuf::from(result["log"].as_str().unwrap());
        assert_eq!(exactly_once(&last), expected, "round {round}");
        let header = dump(place.path(), last.to_str().unwrap());
        assert_eq!(header["status"], "success");
        assert_eq!(header["results"], whole["results"], "round {round}");
        let kept = &header["eval"]["metadata"]["ringfence"]["kept"];
        if kept["samples"].as_u64().is_some_and(|count| (1..300).contains(&count)) {
            kept_some += 1;
        }
        let verified = crate::common::ringfence(place.path(), &["log", "verify", last.to_str().unwrap()]);
        assert_eq!(verified.0, 0, "{}", verified.2);
    }
    println!("a run took {length:?}; {killed} of {round} were killed, {kept_some} kept some samples and ran others");
    assert!(kept_some >= 5, "the moments were no moments of the run: {kept_some}");
}

/// Four questions for a model elsewhere, one after the other.
const REMOTE: &str = "name: remote\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\ngenerate: {max_retries: 0}\n\
    dataset: [{id: a, input: A, target: x}, {id: b, input: B, target: x}, {id: c, input: C, target: x}, {id: d, input: D, target: x}]\n";

fn with(mut command: Command, fake: &Fake) -> (i32, Value, String) {
    let output = command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", fake.base(Api::OpenAi)).output().unwrap();
    // Problems are data where machines read.
    let messages = format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), messages)
}

fn reply(text: &str) -> Next {
    Next::Reply(crate::fake::said(Api::OpenAi, text))
}

fn refusal() -> Next {
    Next::Status(400, Vec::new(), json!({"error": {"message": "not today"}}))
}

fn chain(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log.with_extension("audit.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_failed_runs_again_and_what_is_finished_is_kept_and_bound() {
    for format in ["eval", "json"] {
        let place = tempfile::tempdir().unwrap();
        let task = write(place.path(), "task.yaml", REMOTE);
        let fake = Fake::start(Api::OpenAi, [reply("x"), refusal(), reply("x"), reply("y"), reply("x")]);
        let given = [task.as_str(), "--model", "openai/test", "--max-samples", "1", "--log-format", format];
        let (code, first, messages) = with(eval(place.path(), &given), &fake);
        assert_eq!((code, first["status"].as_str(), fake.requests().len()), (1, Some("error"), 2), "{messages}");
        let old = PathBuf::from(first["log"].as_str().unwrap());
        let before = std::fs::read(&old).unwrap();
        let (code, second, messages) = with(retrying(place.path(), &old, &[]), &fake);
        assert_eq!((code, second["status"].as_str(), fake.requests().len()), (0, Some("success"), 5), "{messages}");
        assert!(messages.contains("1 of 4 samples are kept") && messages.contains("openai/test"), "{messages}");
        assert_eq!(std::fs::read(&old).unwrap(), before);
        assert_eq!(second["results"]["scores"][0]["metrics"]["accuracy"]["value"], 0.75);
        let new = PathBuf::from(second["log"].as_str().unwrap());
        assert_eq!(new.extension(), old.extension(), "in the format of the old one, beside it");
        let (was, is) = (dump(place.path(), old.to_str().unwrap()), dump(place.path(), new.to_str().unwrap()));
        let sample = |log: &Value, id: &str| {
            log["samples"].as_array().unwrap().iter().find(|sample| sample["id"] == id).cloned().unwrap()
        };
        assert_eq!(sample(&was, "a"), sample(&is, "a"));
        assert!(sample(&was, "b")["error"].is_object() && sample(&is, "b")["error"].is_null());
        assert_eq!(is["samples"].as_array().unwrap().len(), 4);
        assert_eq!(is["stats"]["model_usage"]["openai/test"]["total_tokens"], 4 * 37, "what was kept counts too");
        assert_eq!(was["eval"]["task_id"], is["eval"]["task_id"]);
        assert_ne!(was["eval"]["eval_id"], is["eval"]["eval_id"]);
        let kept = &is["eval"]["metadata"]["ringfence"]["kept"];
        assert_eq!(kept["sha256"], log::digest(&old).unwrap());
        assert_eq!(kept["audit"], was["eval"]["metadata"]["ringfence_audit"]);
        assert_eq!((kept["samples"].as_u64(), kept["status"].as_str()), (Some(1), Some("error")));
        let lines = chain(&new);
        assert_eq!((lines[0]["kind"].as_str(), lines[1]["kind"].as_str()), (Some("start"), Some("kept")));
        assert_eq!(lines[1]["data"], *kept);
        // A third time there is nothing to do.
        let (code, third, _) = with(retrying(place.path(), &new, &[]), &fake);
        assert_eq!((code, third["nothing_to_do"].as_bool()), (0, Some(true)));
        assert_eq!(logs(&place.path().join("logs")).len(), 2);
        // A chain that was tampered with, or is not there: nothing of the log is believed.
        let beside = old.with_extension("audit.jsonl");
        let text = std::fs::read_to_string(&beside).unwrap();
        std::fs::write(&beside, text.replacen("T2.H1.N2", "T2.H1.N1", 1)).unwrap();
        let (code, _, messages) = with(retrying(place.path(), &old, &[]), &fake);
        assert!(code == 5 && messages.contains("broken at line 1"), "{code} {messages}");
        std::fs::copy(new.with_extension("audit.jsonl"), &beside).unwrap();
        assert_eq!(with(retrying(place.path(), &old, &[]), &fake).0, 5);
        std::fs::remove_file(&beside).unwrap();
        assert_eq!(with(retrying(place.path(), &old, &[]), &fake).0, 5);
        assert_eq!(logs(&place.path().join("logs")).len(), 2);
    }
}

#[test]
fn a_sample_that_fails_is_tried_again_at_once_where_that_is_said() {
    let place = tempfile::tempdir().unwrap();
    let task = write(place.path(), "task.yaml", REMOTE);
    let fake =
        Fake::start(Api::OpenAi, [refusal(), reply("x"), refusal(), refusal(), refusal(), reply("x"), reply("x")]);
    let given =
        [&task, "--model", "openai/test", "--max-samples", "1", "--retry-on-error", "2", "--fail-on-error", "1"];
    let (code, result, messages) = with(eval(place.path(), &given), &fake);
    assert_eq!((code, result["failed"].as_u64(), fake.requests().len()), (0, Some(1), 7), "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let retries: Vec<usize> = log["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sample| sample["error_retries"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(retries, [1, 2, 0, 0]);
    assert!(log["samples"][0]["error"].is_null() && log["samples"][1]["error"].is_object());
    let lines = chain(Path::new(result["log"].as_str().unwrap()));
    assert_eq!(lines.iter().filter(|line| line["kind"] == "retry").count(), 3);
    // What failed for good is run by a retry, although the log says success: too few failed to fail it.
    let fake = Fake::start(Api::OpenAi, [reply("x")]);
    let (code, result, messages) = with(retrying(place.path(), Path::new(result["log"].as_str().unwrap()), &[]), &fake);
    assert_eq!((code, result["failed"].as_u64(), fake.requests().len()), (0, Some(0), 1), "{messages}");
}

/// A log that was killed: with `done` of its samples.
fn killed(place: &Path, task: &str, more: &[&str]) -> PathBuf {
    let mut given = vec![task, "--max-samples", "1"];
    given.extend(more);
    let mut child = eval(place, &given).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let log = loop {
        assert!(Instant::now() < deadline);
        let found = logs(&place.join("logs")).pop();
        // Its writer may write where we read; the next look sees it whole.
        let begun = |log: &PathBuf| {
            let found = log::Reader::open(log).and_then(|log| log.summaries());
            found.is_ok_and(|found| !found.is_empty())
        };
        match found.filter(begun) {
            Some(log) => break log,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let alive = log::Reader::open(&log).is_ok_and(|log| log.status() == log::Status::Started);
    if alive {
        // Read while its writer writes its directory, a log is no archive for a moment.
        let (code, messages) = loop {
            let (code, _, messages) = retry(place, &log, &[]);
            if code != 2 || !messages.contains("not a zip") || Instant::now() > deadline {
                break (code, messages);
            }
        };
        assert!(code == 0 || (code == 2 && messages.contains("still being written")), "{messages}");
    }
    let _ = child.kill();
    child.wait().unwrap();
    log
}

#[test]
fn what_has_changed_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let text = many(2000, 1);
    let task = write(place.path(), "task.yaml", &text);
    let secret = "granted-0123456789";
    let log = killed(place.path(), &task, &["--env", &format!("LEASE={secret}")]);
    let again = format!("LEASE={secret}");
    let given = ["--env", again.as_str()];
    let refused = |more: &[&str], code: i32, said: &str| {
        let before = logs(&place.path().join("logs")).len();
        let (found, _, messages) = retry(place.path(), &log, more);
        assert!(found == code && messages.contains(said), "{more:?}: {found} {messages}");
        assert_eq!(logs(&place.path().join("logs")).len(), before, "no new log");
    };
    refused(&[], 2, "the environment entry `LEASE` was granted");
    refused(&["--env", &again, "-T", "x=1"], 2, "cannot be another than in the log");
    refused(&["--env", &again, "--profile", "T2.H1.N1"], 3, "the plan has changed");
    refused(&["--env", &again, "--env", "MORE=of-this-kind"], 3, "the plan has changed");
    refused(&["--env", &again, "--task", "/nonexistent.yaml"], 2, "cannot be read");
    std::fs::write(&task, text.replace("say 7,", "say 8,")).unwrap();
    refused(&given, 2, "the task file has changed since the log was made");
    std::fs::remove_file(&task).unwrap();
    refused(&given, 2, "cannot be read");
    // Elsewhere, but the same.
    let moved = write(place.path(), "moved.yaml", &text);
    let (code, result, messages) =
        retry(place.path(), &log, &["--env", &again, "--task", &moved, "--max-samples", "8"]);
    assert_eq!((code, result["samples"].as_u64()), (0, Some(2000)), "{messages}");
    // Another one, if somebody says so; the log says that they did.
    std::fs::write(&moved, text.replace("say 7,", "say 8,")).unwrap();
    let (code, result, messages) =
        retry(place.path(), &log, &["--env", &again, "--task", &moved, "--changed-task", "--max-samples", "8"]);
    assert_eq!(code, 0, "{messages}");
    let header = log::Reader::open(Path::new(result["log"].as_str().unwrap())).unwrap();
    assert_eq!(header.header()["eval"]["metadata"]["ringfence"]["invocation"]["changed_task"], true);
    assert!(!Value::Object(header.header().clone()).to_string().contains(secret));
}

#[test]
fn a_changed_data_file_is_refused() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "data.jsonl", "{\"input\": \"q\", \"target\": \"x\"}\n{\"input\": \"r\", \"target\": \"x\"}\n");
    let text = REMOTE.split("dataset:").next().unwrap().to_owned() + "dataset: data.jsonl\n";
    let task = write(place.path(), "task.yaml", &text);
    let fake = Fake::start(Api::OpenAi, [reply("x"), refusal(), reply("x")]);
    let (_, first, _) = with(eval(place.path(), &[&task, "--model", "openai/test", "--max-samples", "1"]), &fake);
    let log = PathBuf::from(first["log"].as_str().unwrap());
    let data = std::fs::read_to_string(place.path().join("data.jsonl")).unwrap();
    write(place.path(), "data.jsonl", &data.replace("\"r\"", "\"s\""));
    let (code, _, messages) = with(retrying(place.path(), &log, &[]), &fake);
    assert!(code == 2 && messages.contains("a file that the task includes has changed"), "{messages}");
    write(place.path(), "data.jsonl", &data);
    assert_eq!(with(retrying(place.path(), &log, &[]), &fake).0, 0);
}

/// A log in one document that somebody made up, after a real one; with a chain that fits it.
fn made_up(place: &Path, real: &Value, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut log = real.clone();
    change(&mut log);
    let path = place.join("made-up.json");
    let chain = path.with_extension("audit.jsonl");
    let _ = std::fs::remove_file(&chain);
    let audit = log::audit::Audit::create(&chain).unwrap();
    let own = &log["eval"]["metadata"]["ringfence"];
    audit.record("start", json!({"eval_id": log["eval"]["eval_id"], "plan": own["plan_hash"]})).unwrap();
    log["eval"]["metadata"]["ringfence_audit"] = json!(audit.head());
    std::fs::write(&path, log.to_string()).unwrap();
    path
}

#[test]
fn a_log_that_lies_chooses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let task = write(place.path(), "task.yaml", &many(4, 1));
    let (code, result, messages) = ended(place.path(), &[&task, "--log-format", "json"]);
    assert_eq!(code, 0, "{messages}");
    let mut real = dump(place.path(), result["log"].as_str().unwrap());
    real["status"] = json!("error");
    let hidden = write(place.path(), "private.yaml", "hunter2: [");
    let pipe = place.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let invocation = |log: &mut Value, key: &str, value: Value| {
        log["eval"]["metadata"]["ringfence"]["invocation"][key] = value;
    };
    let attacks: [(&str, Value, i32, &str); 17] = [
        // Not even opened: only the log names it.
        ("task_path", json!(hidden), 3, "only the log names the task file"),
        ("task_path", json!(pipe), 2, "is not there"),
        ("task_path", json!("/dev/zero"), 2, "is not there"),
        ("task_path", json!("task.yaml"), 2, "is not there"),
        ("task_path", json!("\u{1b}[2Jx"), 2, "is not there"),
        ("profile", json!("T0.H0.N0"), 2, "which a log alone cannot choose"),
        ("profile", json!("T9"), 2, "which a log alone cannot choose"),
        ("approval", json!("/tmp/policy.yaml"), 2, "which a log alone cannot choose"),
        ("approval", json!("ci"), 2, "which a log alone cannot choose"),
        ("justification", json!("trust me"), 2, "which a log alone cannot choose"),
        ("program", json!("/bin/sh"), 2, "does not say how its evaluation was asked for"),
        ("schema", json!("ringfence.invocation/9"), 2, "does not say how its evaluation was asked for"),
        ("parameters", json!({"key": "[REDACTED]"}), 2, "was taken out of the log"),
        ("sample_ids", json!(["[REDACTED]"]), 2, "a secret was taken out of it"),
        ("limits", json!({"lives": "9"}), 2, "not one that this version knows"),
        ("limit", json!("all of them"), 2, "cannot be read"),
        ("epochs", json!(4_000_000_000_u32), 2, "epochs must be from 1 to"),
    ];
    for (key, value, code, said) in attacks {
        let log = made_up(place.path(), &real, |log| invocation(log, key, value.clone()));
        let command = if key == "task_path" { unnamed } else { retrying };
        let output = command(place.path(), &log, &[]).output().unwrap();
        let found = output.status.code().unwrap();
        let messages = [output.stderr, output.stdout].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(found == code && messages.contains(said), "{key} {value}: {found} {messages}");
        assert!(!messages.contains("hunter2") && !messages.contains('\u{1b}'), "{messages}");
    }
    let log = made_up(place.path(), &real, |log| invocation(log, "task_file", json!("x".repeat(5 << 20))));
    assert_eq!(retry(place.path(), &log, &[]).0, 2);
    let log = made_up(place.path(), &real, |log| log["eval"]["metadata"]["ringfence"]["plan_hash"] = json!("00"));
    let (code, _, messages) = retry(place.path(), &log, &[]);
    assert!(code == 3 && messages.contains("the plan has changed"), "{code} {messages}");
    let log = made_up(place.path(), &real, |log| log["eval"]["model"] = json!("openai/other"));
    assert_eq!(retry(place.path(), &log, &[]).0, 3);
    // Inspect's own.
    let log = made_up(place.path(), &real, |log| log["eval"]["metadata"] = json!({}));
    let (code, _, messages) = retry(place.path(), &log, &[]);
    assert!(code == 2 && messages.contains("not of an evaluation by ringfence"), "{code} {messages}");
}

/// A task that runs a command on this host, and the file that it leaves there.
fn hostile(place: &Path) -> (String, PathBuf) {
    let canary = place.join("canary");
    let head = "name: hostile\nprofile: T0.H0.N0\napproval: ci\njustification: trust me\ntools: [bash, submit]\n\
        solver: {kind: agent}\nscorer: includes\ndataset: [{id: a, input: go, target: done}]\n";
    let run = calls(&[("bash", json!({"command": format!("touch {}", canary.display())}))]);
    (write(place, "hostile.yaml", &format!("{head}{run}")), canary)
}

/// A log whose only sample is not finished.
fn unfinished(place: &Path, task: &str, more: &[&str]) -> PathBuf {
    let (code, result, messages) = ended(place, &[&[task, "--log-format", "json"], more].concat());
    assert_eq!(code, 0, "{messages}");
    let mut real = dump(place, result["log"].as_str().unwrap());
    real["status"] = json!("error");
    made_up(place, &real, |log| log["samples"] = json!([]))
}

#[test]
fn a_task_that_only_a_log_names_does_not_run_on_the_host() {
    let grants = ["--allow-local", "--allow-full-network"];
    let place = tempfile::tempdir().unwrap();
    let (task, canary) = hostile(place.path());
    let log = unfinished(place.path(), &task, &grants);
    std::fs::remove_file(&canary).unwrap();
    let refused = |more: &[&str], said: &str| {
        let output = unnamed(place.path(), &log, more).output().unwrap();
        let messages = [output.stderr, output.stdout].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.code() == Some(3) && messages.contains(said), "{more:?}: {messages}");
        assert!(!canary.exists(), "{more:?}");
    };
    refused(&[], "--task FILE");
    refused(&grants, "only the log names the task file");
    // The operator named the file, and still did not grant what it says.
    refused(&["--task", &task], "--allow-local");
    refused(&["--task", &task, "--allow-local"], "--allow-full-network");
    // A profile that the log names is not the operator's.
    let real: Value = serde_json::from_slice(&std::fs::read(&log).unwrap()).unwrap();
    made_up(place.path(), &real, |log| {
        log["eval"]["metadata"]["ringfence"]["invocation"]["profile"] = json!("T0.H0.N0");
        log["eval"]["metadata"]["ringfence"]["invocation"]["granted"] = json!(["local", "full-network"]);
    });
    refused(&["--task", &task], "--allow-local");
    let (code, _, messages) = retry(place.path(), &log, &["--task", &task, "--allow-local", "--allow-full-network"]);
    assert!(code == 0 && canary.exists(), "{messages}");
}

#[test]
fn a_task_that_a_log_names_is_shown_and_confirmed_on_a_terminal() {
    let grants = ["--allow-local", "--allow-full-network"];
    let place = tempfile::tempdir().unwrap();
    let (task, canary) = hostile(place.path());
    let log = unfinished(place.path(), &task, &grants);
    std::fs::remove_file(&canary).unwrap();
    for (answer, more, expected) in
        [("n\n", &grants[..], 3), ("\n", &grants[..], 3), ("yes\n", &[][..], 3), ("y\n", &grants[..], 0)]
    {
        let mut terminal = Terminal::start(&unnamed(place.path(), &log, more));
        terminal.wait_for("[y]es or [n]o", 1);
        let shown = terminal.screen();
        for part in [task.as_str(), "T0.H0.N0", "bash, submit", "agent", "mock/scripted"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!canary.exists(), "nothing runs before the answer");
        terminal.write(answer);
        let (code, shown) = terminal.end();
        assert_eq!((code, canary.exists()), (expected, expected == 0), "{answer:?} {more:?}: {shown}");
    }
}

#[test]
fn parameters_that_only_a_log_names_are_said_again() {
    let place = tempfile::tempdir().unwrap();
    let text = "name: p\nprofile: T2.H1.N2\nparameters: {word: {type: text, default: x}}\nmetadata: {is: '{{word}}'}\n\
        solver: generate\nscorer: exact\nmodel: mock/echo\ndataset: [{id: a, input: x, target: x}]\n";
    let task = write(place.path(), "task.yaml", text);
    let log = unfinished(place.path(), &task, &["-T", "word=y"]);
    let (code, _, messages) = retry(place.path(), &log, &[]);
    assert!(code == 3 && messages.contains("only the log names the value of the parameter `word`"), "{messages}");
    let (code, _, messages) = retry(place.path(), &log, &["-T", "word=z"]);
    assert!(code == 2 && messages.contains("cannot be another than in the log"), "{messages}");
    assert_eq!(retry(place.path(), &log, &["-T", "word=y"]).0, 0);
}

#[test]
fn samples_that_are_not_what_they_say_run_again() {
    let place = tempfile::tempdir().unwrap();
    let task = write(place.path(), "task.yaml", &many(4, 1));
    let (_, result, _) = ended(place.path(), &[&task, "--log-format", "json"]);
    let mut real = dump(place.path(), result["log"].as_str().unwrap());
    real["status"] = json!("cancelled");
    let find =
        |id: &str| real["samples"].as_array().unwrap().iter().find(|sample| sample["id"] == id).cloned().unwrap();
    let with = |id: &str, key: &str, value: Value| {
        let mut sample = find(id);
        sample[key] = value;
        sample
    };
    let mut other = find("s1");
    other["scores"]["exact"]["value"] = json!(1000);
    let samples = json!([
        find("s1"),
        other,
        with("s0", "epoch", json!(7)),
        with("s0", "id", json!("../../../s0")),
        with("s2", "id", json!(2)),
        with("s2", "scores", json!("all of them")),
        with("s3", "error", json!({"message": "it broke", "traceback": "", "traceback_ansi": ""})),
        {"nothing": "at all"},
    ]);
    let log = made_up(place.path(), &real, |log| log["samples"] = samples);
    let (code, result, messages) = retry(place.path(), &log, &["--log-format", "eval"]);
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("1 of 4 samples are kept"), "{messages}");
    let found = exactly_once(Path::new(result["log"].as_str().unwrap()));
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        ["samples/s0_epoch_1.json", "samples/s1_epoch_1.json", "samples/s2_epoch_1.json", "samples/s3_epoch_1.json"]
    );
    let values: Vec<&str> = found.values().map(|scores| scores["exact"]["value"].as_str().unwrap()).collect();
    assert_eq!(values, ["I", "C", "C", "I"]);
}

#[test]
fn a_killed_run_with_sandboxes_leaves_none_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let mut text = String::from(
        "name: boxes\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nsolver: {kind: agent, tools: [bash]}\nscorer: includes\ndataset:\n",
    );
    for number in 0..10 {
        writeln!(
            text,
            "  - {{id: s{number}, input: go, target: 'done {number}', mock: [{{tool_calls: [{{name: bash, arguments: {{command: 'sleep 0.3; echo {number} > /tmp/x'}}}}]}}, {{tool_calls: [{{name: submit, arguments: {{answer: done {number}}}}}]}}]}}"
        )
        .unwrap();
    }
    let task = write(place.path(), "task.yaml", &text);
    let mut child =
        eval(place.path(), &[&task, "--max-samples", "2"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    let finished = |log: &PathBuf| {
        let found = log::Reader::open(log).and_then(|log| log.summaries());
        found.is_ok_and(|found| found.len() >= 3)
    };
    let log = loop {
        assert!(Instant::now() < deadline, "three samples are not finished");
        match logs(&place.path().join("logs")).pop().filter(finished) {
            Some(log) => break log,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let id = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, result, messages) = retry(place.path(), &log, &[]);
    assert_eq!((code, result["samples"].as_u64()), (0, Some(10)), "{messages}");
    let last = PathBuf::from(result["log"].as_str().unwrap());
    assert_eq!(exactly_once(&last).len(), 10);
    assert_eq!(result["results"]["scores"][0]["metrics"]["accuracy"]["value"], 1.0);
    let kept = dump(place.path(), last.to_str().unwrap())["eval"]["metadata"]["ringfence"]["kept"]["samples"].as_u64();
    assert!(kept.is_some_and(|kept| (3..10).contains(&kept)), "{kept:?}");
    // Nothing of the killed run lives: its sandboxes were named after it.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let (_, listed, _) = crate::common::ringfence(place.path(), &["--json", "sandbox", "list"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let alive = listed["sandboxes"].as_array().unwrap().iter().any(|run| {
            run["alive"] == true && run["name"].as_str().unwrap_or_default().contains(&format!("eval-{id}-"))
        });
        if !alive {
            break;
        }
        assert!(Instant::now() < deadline, "{listed}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_log_that_is_not_as_it_was_written_is_not_gone_on_from() {
    let place = tempfile::tempdir().unwrap();
    // A sample fails, so there is something left to do.
    let task = write(
        place.path(),
        "task.yaml",
        "name: x\nprofile: T2.H1.N2\nscorer: exact\nmock: ['yes']\ndataset:\n  - {id: a, input: q, target: 'yes'}\n  - {id: b, input: q, target: 'yes', mock: []}\n",
    );
    let (_, result, _) = ended(place.path(), &[&task, "--fail-on-error", "false"]);
    let log = PathBuf::from(result["log"].as_str().unwrap());
    let mut bytes = std::fs::read(&log).unwrap();
    // One byte more than was written, where few would look: behind the end.
    bytes.push(b' ');
    std::fs::write(&log, bytes).unwrap();
    let before = logs(&place.path().join("logs")).len();
    let (code, _, said) = retry(place.path(), &log, &[]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("log verify"), "{said}");
    assert_eq!(logs(&place.path().join("logs")).len(), before);
    // Whoever opens a pipe waits for its writer.
    let pipe = place.path().join("logs/pipe.eval");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let start = Instant::now();
    let (code, _, said) = retry(place.path(), &pipe, &[]);
    assert!(code == 2 && start.elapsed() < Duration::from_secs(20), "{code} {said}");
    let listed =
        crate::common::command(place.path()).args(["log", "list"]).arg(place.path().join("logs")).output().unwrap();
    assert!(listed.status.success() && start.elapsed() < Duration::from_secs(20));
}
