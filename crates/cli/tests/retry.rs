//! `eval-retry`: killed, failed and cancelled evaluations go on, and logs that lie choose nothing.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::evaluation::{dump, ended, eval, write};
use common::logs::{Chance, exactly_once, logs};
use serde_json::Value;

/// A retry of a log: code, result, messages.
fn retry(place: &Path, log: &Path, more: &[&str]) -> (i32, Value, String) {
    let output = retrying(place, log, more).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), messages)
}

fn retrying(place: &Path, log: &Path, more: &[&str]) -> Command {
    let mut command = common::command(place);
    command.args(["--json", "eval-retry"]).arg(log).args(more);
    command
}

/// Samples that answer differently, some of them right: no sandbox is needed.
fn many(count: usize, epochs: usize) -> String {
    let mut text = format!("name: many\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\nepochs: {epochs}\ndataset:\n");
    for number in 0..count {
        let answer = if number % 3 == 0 { number + 1 } else { number };
        writeln!(text, "  - {{id: s{number}, input: say {number}, target: '{number}', mock: [{{text: '{answer}'}}]}}").unwrap();
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

#[test]
fn a_run_that_is_killed_at_any_moment_goes_on_to_the_same_end() {
    let mut chance = Chance::new();
    let place = tempfile::tempdir().unwrap();
    let task = write(place.path(), "task.yaml", &many(100, 3));
    let begin = Instant::now();
    let (code, whole, messages) = ended(place.path(), &[&task, "--max-samples", "4"]);
    let length = begin.elapsed();
    assert_eq!(code, 0, "{messages}");
    let expected = exactly_once(Path::new(whole["log"].as_str().unwrap()));
    assert_eq!(expected.len(), 300);
    let (mut killed, mut kept_some) = (0, 0);
    for round in 0..20_u32 {
        let directory = place.path().join(format!("round-{round}"));
        let path = directory.to_str().unwrap();
        let mut first = common::command(place.path());
        first.args(["eval", &task, "--max-samples", "4", "--log-dir", path]);
        // Spread over the whole run, by chance within each part.
        let moment = length.mul_f64((f64::from(round) + chance.share()) / 20.0);
        if kill_after(&mut first, moment).is_none() {
            killed += 1;
        }
        let mut log = logs(&directory).pop();
        // Some retries are killed too, and some of those again.
        for _ in 0..3 {
            let Some(old) = log.clone().filter(|_| chance.share() < 0.4) else { break };
            let before = std::fs::read(&old).unwrap();
            kill_after(&mut retrying(place.path(), &old, &[]), length.mul_f64(chance.share()));
            assert_eq!(std::fs::read(&old).unwrap(), before, "the old log is untouched");
            log = logs(&directory).pop();
        }
        let (code, result, messages) = match &log {
            Some(old) => {
                let before = std::fs::read(old).unwrap();
                let ended = retry(place.path(), old, &[]);
                assert_eq!(std::fs::read(old).unwrap(), before, "the old log is untouched");
                ended
            }
            // Killed before there was a log.
            None => ended(place.path(), &[&task]),
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
        let verified = common::ringfence(place.path(), &["log", "verify", last.to_str().unwrap()]);
        assert_eq!(verified.0, 0, "{}", verified.2);
    }
    println!("a run took {length:?}; {killed} of 20 were killed, {kept_some} kept some samples and ran others");
    assert!(killed >= 10 && kept_some >= 3, "the moments were no moments of the run: {killed}, {kept_some}");
}

#[test]
fn what_is_kept_is_bound_by_the_new_chain_and_said_in_the_new_log() {
    let place = tempfile::tempdir().unwrap();
    // One that fails: its model has nothing to say.
    let text = many(3, 1).replace("mock: [{text: '1'}]", "mock: []");
    let task = write(place.path(), "task.yaml", &text.replace("id: s1", "id: broken"));
    let (code, result, messages) = ended(place.path(), &[&task, "--fail-on-error", "false", "--limit", "1-3"]);
    assert_eq!((code, result["failed"].as_u64()), (0, Some(0)), "{messages} {result}");
}
