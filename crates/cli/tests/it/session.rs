//! `bash_session`: a shell that stays from call to call, in real sandboxes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const CONTAINER: &str = "profile: T0.H1.N2\napproval: ci";
const LOCAL: &str = "profile: T0.H0.N0\nsandbox: local\napproval: ci\njustification: a test";

/// One call of the shell.
fn shell(action: &str, input: &str) -> Value {
    let input = if input.is_empty() { Value::Null } else { Value::from(input) };
    json!({"name": "bash_session", "arguments": {"action": action, "input": input}})
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

/// A task of one sample whose model makes these calls, step by step.
fn task(profile: &str, more: &str, steps: &[Vec<Value>]) -> String {
    let mut text = format!(
        "name: session\n{profile}\ntools: [bash, bash_session, submit]\n{more}\
         dataset: [{{id: one, input: go, target: done}}]\nsolver: {{kind: agent, max_steps: 50}}\nscorer: includes\nmock:\n"
    );
    for calls in steps {
        writeln!(text, "  - {{tool_calls: {}}}", json!(calls)).unwrap();
    }
    text.push_str("  - {tool_calls: [{name: submit, arguments: {answer: done}}]}\n");
    text
}

/// Runs it: the exit code and the whole log.
fn evaluate(place: &Path, text: &str) -> (i32, Value) {
    let path = place.join("task.yaml");
    std::fs::write(&path, text).unwrap();
    let mut command = crate::common::command(place);
    command.arg("--json").arg("eval").arg(&path).arg("--log-dir").arg(place.join("logs"));
    if text.contains(LOCAL) {
        command.args(["--allow-local", "--allow-full-network"]);
    }
    let output = command.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let dump = crate::common::command(place).args(["log", "dump", result["log"].as_str().unwrap()]).output().unwrap();
    (output.status.code().unwrap(), serde_json::from_slice(&dump.stdout).unwrap())
}

/// Runs a task that submits; returns the tool events but the last, and the whole log.
fn run(place: &Path, profile: &str, more: &str, steps: &[Vec<Value>]) -> (Vec<Value>, Value) {
    let (code, log) = evaluate(place, &task(profile, more, steps));
    let sample = &log["samples"][0];
    assert!(code == 0 && sample["error"].is_null(), "{code} {}", sample["error"]);
    let events = sample["events"].as_array().unwrap();
    let mut tools: Vec<Value> = events.iter().filter(|event| event["event"] == "tool").cloned().collect();
    assert_eq!(tools.pop().map(|last| last["function"].clone()), Some("submit".into()));
    (tools, log)
}

fn results(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["result"].as_str().unwrap()).collect()
}

#[test]
fn a_shell_remembers_where_it_is_and_what_it_knows() {
    let place = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (tools, log) = run(
        place.path(),
        CONTAINER,
        "environment: {GRANTED: to-the-shell}\n",
        &[
            vec![shell("type_submit", "cd /srv && number=41")],
            vec![shell("type_submit", "echo \"$PWD $((number + 1)) $GRANTED! $TERM\"")],
            // Two calls in one step are made one after the other.
            vec![shell("type_submit", "touch made"), shell("type_submit", "ls")],
            vec![shell("type", "echo \thal"), shell("type", "ves\n")],
            vec![shell("type_submit", "cat <<'END'\none\n\ttwo\nEND\nprintf '\\033[31mred\\033[0m\\n'")],
            vec![bash("pwd; test -z \"$number\"; echo $?")],
        ],
    );
    let said = results(&tools);
    assert_eq!(said[0], "/srv# ");
    assert_eq!(said[1], "/srv 42 [REDACTED]! dumb\n/srv# ");
    assert_eq!(said[2..4], ["/srv# ", "made\n/srv# "]);
    assert_eq!(said[4..6], ["[nothing was shown]", "halves\n/srv# "]);
    assert!(said[6].contains("one\n\ttwo\n") && said[6].ends_with("red\n/srv# "), "{}", said[6]);
    assert_eq!(said[7].lines().last(), Some("0"), "another shell: {}", said[7]);
    // A prompt is an answer: nobody waits for a pause.
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let events = log["samples"][0]["events"].as_array().unwrap();
    let typed = events.iter().find(|event| event["event"] == "sandbox" && event["input"] == "ls").unwrap();
    assert_eq!((&typed["cmd"], &typed["output"]), (&json!("bash_session type_submit"), &json!("made\n/srv# ")));
    assert!(!log.to_string().contains("\\u001b]"), "a control sequence is in the log");
}

#[test]
fn a_command_that_goes_on_is_read_and_interrupted() {
    let place = tempfile::tempdir().unwrap();
    let (tools, log) = run(
        place.path(),
        CONTAINER,
        "limits: {tool_timeout: 2}\n",
        &[
            vec![shell("type_submit", "sleep 3; echo first; sleep 60")],
            vec![shell("read", "")],
            vec![shell("read", "")],
            vec![shell("interrupt", "")],
            vec![shell("type_submit", "echo alive")],
            vec![shell("read", "")],
        ],
    );
    let said = results(&tools);
    assert!(tools.iter().all(|tool| tool["error"].is_null()), "{tools:#?}");
    assert_eq!(said[0], "[no output within 2 s; the shell goes on, `read` gets what comes]");
    assert_eq!(said[1], "first\n");
    assert!(said[2].starts_with("[no output within 2 s"), "{}", said[2]);
    assert!(said[3].ends_with("# "), "{}", said[3]);
    assert!(said[4].starts_with("alive\n"), "{}", said[4]);
    assert!(said[5].starts_with("[no output within 2 s"), "{}", said[5]);
    assert!(log["samples"][0]["limit"].is_null());
}

#[test]
fn a_restart_ends_background_jobs() {
    let place = tempfile::tempdir().unwrap();
    let job = "(setsid sh -c 'while :; do date +%N > /tmp/next; mv /tmp/next /tmp/tick; sleep 0.05; done' >/dev/null 2>&1 &); number=1";
    let (tools, _) = run(
        place.path(),
        CONTAINER,
        "",
        &[
            vec![shell("type_submit", job)],
            vec![bash("sleep 0.5; test -s /tmp/tick")],
            vec![shell("restart", "")],
            vec![bash("a=$(cat /tmp/tick); sleep 0.5; test \"$a\" = \"$(cat /tmp/tick)\" && echo still")],
            vec![shell("type_submit", "echo \"<$number>\"")],
        ],
    );
    let said = results(&tools);
    assert!(said[2].starts_with("A new shell"), "{}", said[2]);
    assert_eq!(said[3], "still\n");
    assert!(said[4].starts_with("<>\n"), "{}", said[4]);
}

#[test]
fn a_shell_that_exited_says_so_until_it_is_restarted() {
    let place = tempfile::tempdir().unwrap();
    let (tools, _) = run(
        place.path(),
        CONTAINER,
        "",
        &[
            vec![shell("type_submit", "exit 3")],
            vec![shell("type_submit", "echo lost")],
            vec![shell("restart", "")],
            vec![shell("type_submit", "echo back")],
            vec![shell("type_submit", "kill -9 $$")],
            vec![shell("read", "")],
            vec![json!({"name": "bash_session", "arguments": {"action": "type"}})],
        ],
    );
    let said = results(&tools);
    assert!(said[0].ends_with("[the shell has ended: exit code 3; `restart` begins a new one]"), "{}", said[0]);
    assert_eq!(tools[1]["error"]["type"], "unknown");
    assert!(said[1].contains("exit code 3") && said[1].contains("restart"), "{}", said[1]);
    assert!(said[3].starts_with("back\n"), "{}", said[3]);
    assert!(said[4].contains("signal 9") && said[5].contains("signal 9"), "{} {}", said[4], said[5]);
    assert_eq!(tools[6]["error"]["type"], "parsing");
}

#[test]
fn a_flood_and_binary_output_are_bounded_and_stay_text() {
    let place = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (tools, log) = run(
        place.path(),
        CONTAINER,
        "limits: {tool_timeout: 2}\n",
        &[
            vec![shell("type_submit", "yes | head -c 2000000000")],
            // It is behind already when somebody looks again.
            vec![bash("sleep 1")],
            vec![shell("interrupt", "")],
            vec![shell("type_submit", "head -c 3000 /dev/urandom; echo; echo after")],
            vec![shell("type_submit", "head -c 300000 /dev/zero | tr '\\0' x; echo")],
            vec![shell("type_submit", "echo alive")],
        ],
    );
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    let said = results(&tools);
    assert!(said[0].len() < 20_000 && said[0].contains("bytes"), "{}", said[0].len());
    assert!(tools[0]["truncated"][0].as_u64().unwrap() > 16_384, "{}", tools[0]["truncated"]);
    assert!(said[3].contains("after"), "{}", said[3]);
    assert!(said[3].chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    assert!(tools[4]["truncated"][0].as_u64().unwrap() >= 300_000, "{}", tools[4]["truncated"]);
    assert!(said[5].contains("alive\n"), "{}", said[5]);
    assert!(log["samples"][0]["limit"].is_null());
}

#[test]
fn a_shell_does_not_outlive_its_sample() {
    let place = tempfile::tempdir().unwrap();
    let mark = place.path().join("tick");
    let job = format!("while :; do date +%N > {0}.next; mv {0}.next {0}; sleep 0.05; done &", mark.display());
    let (tools, _) = run(
        place.path(),
        LOCAL,
        "",
        &[vec![shell("type_submit", &job)], vec![bash(&format!("sleep 0.5; cat {}", mark.display()))]],
    );
    assert!(tools[1]["error"].is_null() && !results(&tools)[1].is_empty(), "{tools:#?}");
    let before = std::fs::read(&mark).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(std::fs::read(&mark).unwrap(), before, "it still runs");
}

#[test]
fn a_sample_ends_at_its_limit_whatever_its_shell_does() {
    let place = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let steps = [vec![shell("type_submit", "sleep 100")]];
    let (code, log) = evaluate(place.path(), &task(CONTAINER, "limits: {time: 2, tool_timeout: 60}\n", &steps));
    assert_eq!((code, log["samples"][0]["limit"]["type"].as_str()), (0, Some("time")));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_shell_whose_sandbox_dies_fails_its_sample() {
    let place = tempfile::tempdir().unwrap();
    // Without isolation, a process may end whoever holds it: its keeper's parent.
    let steps = [vec![shell("type_submit", "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)")], vec![shell("read", "")]];
    let (code, log) = evaluate(place.path(), &task(LOCAL, "", &steps));
    let why = log["samples"][0]["error"]["message"].as_str().unwrap_or_default();
    assert!(code == 1 && why.contains("the sandbox is gone"), "{code} {why}");
}

#[test]
fn an_image_without_bash_has_no_shell_and_says_so() {
    let place = tempfile::tempdir().unwrap();
    crate::common::sh(place.path(), "mkdir -p root/bin root/etc root/tmp; cp \"$(command -v busybox)\" root/bin/sh");
    let image = format!("{CONTAINER}\nimage: dir:{}", place.path().join("root").display());
    let (tools, _) = run(place.path(), &image, "", &[vec![shell("type_submit", "echo hi")], vec![shell("read", "")]]);
    for tool in &tools {
        assert_eq!(tool["error"]["type"], "file_not_found", "{tool}");
        assert!(tool["result"].as_str().unwrap().contains("no bash"), "{tool}");
    }
}
