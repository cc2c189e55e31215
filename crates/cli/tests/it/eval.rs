//! `eval` as a user runs it: offline, with real sandboxes.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod inputs;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::evaluation::{calls, write};
use crate::common::ringfence;
use serde_json::Value;

pub(crate) use inputs::{files_in_writable_mounts, swapped_files};

fn example(name: &str) -> PathBuf {
    // A plain user has no way to the sources: the lane puts the examples beside the command.
    match std::env::var_os("RINGFENCE_EXAMPLES") {
        Some(directory) => PathBuf::from(directory).join(name),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name),
    }
}

fn eval(place: &Path, arguments: &[&str]) -> Command {
    let mut command = crate::common::command(place);
    command.arg("--json").arg("eval").args(arguments).arg("--log-dir").arg(place.join("logs"));
    command
}

/// Runs to the end: code, result, messages.
fn ended(place: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let output = eval(place, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_str(&said).unwrap_or(Value::Null), messages)
}

fn task(place: &Path, text: &str) -> String {
    let path = place.join("task.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn accuracy(result: &Value) -> f64 {
    result["results"]["scores"][0]["metrics"]["accuracy"]["value"].as_f64().unwrap()
}

/// The whole log, by our own reader.
fn dump(place: &Path, log: &str) -> Value {
    let output = crate::common::command(place).args(["log", "dump", log]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn shell_task(commands: &[&str], scorer: &str) -> String {
    let mut mock = String::new();
    for command in commands {
        let command = serde_json::json!(command);
        writeln!(mock, "  - {{tool_calls: [{{name: bash, arguments: {{command: {command}}}}}]}}").unwrap();
    }
    format!(
        "name: shell\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\n\
         dataset: [{{id: one, input: go, target: done}}]\nsolver: {{kind: agent, tools: [bash]}}\nscorer: {scorer}\n\
         mock:\n{mock}  - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}\n"
    )
}

/// A mount of a task that a link leads elsewhere, or that holds keys, is refused before anything runs.
#[test]
fn mounts_through_links_and_of_keys_are_refused_before_a_task_starts() {
    mounts_of_links_and_keys("");
}

/// The same with these lines about the engine in the task.
pub(crate) fn mounts_of_links_and_keys(engine: &str) {
    let place = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(data.path().join("keys/.ssh")).unwrap();
    std::os::unix::fs::symlink("/usr", data.path().join("planted")).unwrap();
    for (name, why) in [("planted", "is a link, and leads to /usr"), ("keys", ".ssh holds credentials")] {
        let mount = format!("{engine}mounts: ['{}:/o']\n", data.path().join(name).display());
        let file = task(place.path(), &(shell_task(&["ls /o"], "includes") + &mount));
        let (code, _, err) = ended(place.path(), &[&file]);
        assert!(code == 3 && err.contains(why) && err.contains("hint: "), "{name}: {code} {err}");
    }
    assert!(!place.path().join("logs").exists(), "nothing was begun");
    let file = place.path().join("task.yaml").display().to_string();
    let (code, _, err) = ended(place.path(), &[&file, "--dangerously-mount-secrets"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn the_first_example_is_solved_and_logged() {
    let place = tempfile::tempdir().unwrap();
    let (code, result, err) = ended(place.path(), &[example("first.yaml").to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!((result["status"].as_str(), result["profile"].as_str()), (Some("success"), Some("T0.H1.N2")));
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let own = &log["eval"]["metadata"]["ringfence"];
    assert_eq!(own["plan_hash"].as_str().unwrap().len(), 64);
    assert!(own["affordances"].as_array().unwrap().iter().any(|one| one["name"] == "bash" && one["runs"] == "sandbox"));
    let events = log["samples"][0]["events"].as_array().unwrap();
    for kind in ["sample_init", "span_begin", "span_end", "model", "tool", "approval", "sandbox", "info", "score"] {
        assert!(events.iter().any(|event| event["event"] == kind), "{kind}");
    }
}

#[test]
fn examples_run_or_are_refused_as_they_say() {
    let place = tempfile::tempdir().unwrap();
    for (name, expected) in [("text-only.yaml", 0), ("ctf.yaml", 0), ("remote-pods.yaml", 3), ("remote-vm.yaml", 3)] {
        let (code, result, err) = ended(place.path(), &[example(name).to_str().unwrap()]);
        assert_eq!(code, expected, "{name}: {result} {err}");
        if expected == 0 {
            assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{name}: {result}");
        }
    }
}

fn events<'a>(log: &'a Value, kind: &str) -> Vec<&'a Value> {
    log["samples"][0]["events"].as_array().unwrap().iter().filter(|event| event["event"] == kind).collect()
}

/// What of our own was said, by its kind.
fn said<'a>(log: &'a Value, kind: &str) -> Vec<&'a Value> {
    events(log, "info").into_iter().map(|event| &event["data"]).filter(|data| data["kind"] == kind).collect()
}

#[test]
fn small_steps_run_commands_only_when_asked() {
    let place = tempfile::tempdir().unwrap();
    let path = example("iterative.yaml");
    let path = path.to_str().unwrap();
    for (given, ran) in [(vec![path], false), (vec![path, "-T", "enable_exec=true"], true)] {
        let grants = ["--allow-local", "--allow-full-network"];
        let (code, result, err) = ended(place.path(), &[&given[..], &grants].concat());
        assert_eq!(code, 0, "{err}");
        assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
        let log = dump(place.path(), result["log"].as_str().unwrap());
        let offered: Vec<&str> = events(&log, "model")[0]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(offered.contains(&"bash"), ran, "{offered:?}");
        assert!(offered.contains(&"todo_write") && !offered.contains(&"submit"), "{offered:?}");
        // Every call that can be made was put to somebody.
        let tools = events(&log, "tool");
        assert_eq!((tools.len(), events(&log, "approval").len()), (5, if ran { 5 } else { 4 }));
        let bash = tools.iter().find(|tool| tool["function"] == "bash").unwrap();
        assert_eq!((bash["result"] == "42\n", bash["error"]["type"] == "parsing"), (ran, !ran), "{bash}");
        assert_eq!(said(&log, "iterative")[0]["ended"], "steps");
        let near = said(&log, "limit_nearing");
        assert_eq!(near.len(), 1, "{near:?}");
        assert_eq!((near[0]["limit"].as_str(), near[0]["at"].as_f64()), (Some("steps"), Some(0.8)));
        let messages = log["samples"][0]["messages"].to_string();
        assert_eq!(messages.matches("A limit is near: 5 of 6 steps are used.").count(), 1, "{messages}");
    }
}

#[test]
fn small_steps_end_with_their_time_and_are_scored() {
    let place = tempfile::tempdir().unwrap();
    let text = shell_task(&["echo first > /tmp/made", "sleep 60"], "includes")
        .replace("kind: agent", "kind: iterative, time: 3")
        .replace("tools: [bash, submit]", "tools: [bash]\nlimits: {tool_timeout: 30}")
        .replace("mock:\n", "mock:\n  - {text: It is done.}\n");
    let start = Instant::now();
    let (code, result, err) = ended(place.path(), &[&task(place.path(), &text)]);
    assert_eq!(code, 0, "{err}");
    assert!(start.elapsed() < Duration::from_secs(20));
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let sample = &log["samples"][0];
    assert!(sample["limit"].is_null() && sample["error"].is_null(), "a normal end");
    assert_eq!(sample["scores"].as_object().unwrap().len(), 1);
    assert_eq!(said(&log, "iterative")[0]["ended"], "time");
    let last = sample["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((last["role"].as_str(), last["error"]["type"].as_str()), (Some("tool"), Some("cancelled")));
}

#[test]
fn a_long_conversation_is_sent_in_part_and_kept_whole() {
    let place = tempfile::tempdir().unwrap();
    let text = shell_task(&["head -c 5000 /dev/zero | tr '\\0' x"; 6], "includes")
        .replace("kind: agent", "kind: iterative, max_steps: 7, keep_messages: 6, max_message: 1KiB")
        .replace("tools: [bash, submit]", "tools: [bash]")
        .replace("{tool_calls: [{name: submit, arguments: {answer: done}}]}", "{text: done}");
    let (code, result, err) = ended(place.path(), &[&task(place.path(), &text)]);
    assert_eq!(code, 0, "{err}");
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let sent = events(&log, "model").last().unwrap()["input"].as_array().unwrap().clone();
    assert!(sent.len() <= 8, "{}", sent.len());
    assert_eq!((&sent[0]["role"], &sent[1]["content"]), (&"system".into(), &"go".into()));
    let results: Vec<&str> =
        sent.iter().filter(|one| one["role"] == "tool").map(|one| one["content"].as_str().unwrap()).collect();
    assert!(!results.is_empty() && results.iter().all(|one| one.len() < 1200 && one.contains("bytes are left out")));
    let all = log["samples"][0]["messages"].as_array().unwrap();
    assert_eq!(all.iter().filter(|one| one["content"].as_str().is_some_and(|text| text.len() == 5000)).count(), 6);
}

#[test]
fn limits_that_come_near_are_said_once() {
    let place = tempfile::tempdir().unwrap();
    let near = |text: &str| {
        let (code, result, err) = ended(place.path(), &[&task(place.path(), text)]);
        assert_eq!(code, 0, "{err}");
        let log = dump(place.path(), result["log"].as_str().unwrap());
        let limits: Vec<String> =
            said(&log, "limit_nearing").iter().map(|data| data["limit"].as_str().unwrap().to_owned()).collect();
        (limits, log["samples"][0]["limit"]["type"].as_str().map(str::to_owned))
    };
    let with = |commands: &[&str], limits: &str| {
        shell_task(commands, "includes")
            .replace("tools: [bash, submit]", &format!("tools: [bash, submit]\nlimits: {{{limits}}}"))
    };
    // Whatever it is doing when its time comes to an end.
    assert_eq!(near(&with(&["sleep 60"], "time: 2, tool_timeout: 30")), (vec!["time".into()], Some("time".into())));
    assert_eq!(near(&with(&["true"; 4], "messages: 11")), (vec!["message".into()], None));
    assert_eq!(near(&with(&["true"; 2], "messages: 100, tokens: 1000000")), (vec![], None));
}

#[test]
fn agent_daemon_survives_into_score() {
    let place = tempfile::tempdir().unwrap();
    // Moved into its place, so that there is never half of it, whenever it is ended.
    let daemon = "(setsid sh -c 'while :; do date +%N > /tmp/next; mv /tmp/next /tmp/tick; sleep 0.05; done' >/dev/null 2>&1 &); sleep 0.3; test -s /tmp/tick";
    // Its files are there, its process is not.
    let script = "test -s /tmp/tick; before=$(cat /tmp/tick); sleep 0.5; test \"$before\" = \"$(cat /tmp/tick)\"";
    let text = shell_task(&[daemon], &format!("{{kind: script, script: {}}}", serde_json::json!(script)));
    let (code, result, err) = ended(place.path(), &[&task(place.path(), &text)]);
    assert_eq!(code, 0, "{err}");
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
}

#[test]
fn agent_tampers_with_scorer_tools() {
    let place = tempfile::tempdir().unwrap();
    // A shell, a library setting and a Python that all say yes; the work itself is not done.
    let tamper = "rm -f /bin; mkdir /bin; printf '#!/usr/bin/perl\\nexit 0' > /bin/sh; chmod 755 /bin/sh; \
        cp /bin/sh /usr/bin/grep 2>/dev/null; echo /tmp/evil.so > /etc/ld.so.preload; \
        mkdir -p /root/.local/lib/python3/site-packages; echo 'import os; os._exit(0)' > /root/.local/lib/python3/site-packages/usercustomize.py; \
        echo wrong > /srv/answer; true";
    let script = "grep -q right /srv/answer";
    let text = shell_task(&[tamper], &format!("{{kind: script, script: {}}}", serde_json::json!(script)));
    let (code, result, err) = ended(place.path(), &[&task(place.path(), &text)]);
    assert_eq!(code, 0, "{err}");
    assert!(accuracy(&result).abs() < 1e-9, "{result}");
    // And an honest one is still found right.
    let text =
        shell_task(&["echo right > /srv/answer"], &format!("{{kind: script, script: {}}}", serde_json::json!(script)));
    let (_, result, _) = ended(place.path(), &[&task(place.path(), &text)]);
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
}

#[test]
fn tool_errors_are_answers_and_long_output_is_cut() {
    let place = tempfile::tempdir().unwrap();
    let text = "name: tools\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, python, submit]\nlimits: {tool_timeout: 1}\n\
        dataset: [{id: one, input: go, target: done}]\nsolver: {kind: agent, tools: [bash, python]}\nscorer: includes\nmock:\n\
        \x20 - {tool_calls: [{name: bash, arguments: {cmd: ls}}, {name: rm, arguments: {}}, {name: bash, arguments: 'not json'}]}\n\
        \x20 - {tool_calls: [{name: bash, arguments: {command: sleep 30}}]}\n\
        \x20 - {tool_calls: [{name: bash, arguments: {command: 'head -c 100000 /dev/zero | tr \"\\\\0\" x'}}]}\n\
        \x20 - {tool_calls: [{name: python, arguments: {code: 'print(6*7)'}}]}\n\
        \x20 - {text: thinking}\n\
        \x20 - {tool_calls: [{name: submit, arguments: {answer: done}}]}\n";
    let (code, result, err) = ended(place.path(), &[&task(place.path(), text)]);
    assert_eq!(code, 0, "{err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let events = log["samples"][0]["events"].as_array().unwrap();
    let tools: Vec<&Value> = events.iter().filter(|event| event["event"] == "tool").collect();
    let errors: Vec<Option<&str>> = tools.iter().map(|tool| tool["error"]["type"].as_str()).collect();
    assert_eq!(errors[..4], [Some("parsing"), Some("parsing"), Some("parsing"), Some("timeout")], "{errors:?}");
    assert_eq!(tools[4]["truncated"][0], 100_000);
    assert!(tools[4]["result"].as_str().unwrap().len() < 20_000);
    assert_eq!(tools[5]["result"], "42\n");
}

#[test]
fn approvals_mean_what_they_say() {
    let place = tempfile::tempdir().unwrap();
    let path = task(place.path(), &shell_task(&["echo hi > /tmp/x"], "includes"));
    let (code, result, err) = ended(place.path(), &[&path, "--approval", "dev"]);
    assert_eq!(code, 0, "{err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let events = log["samples"][0]["events"].as_array().unwrap();
    let decisions: Vec<&str> = events
        .iter()
        .filter(|event| event["event"] == "approval")
        .map(|event| event["decision"].as_str().unwrap())
        .collect();
    assert_eq!(decisions, ["escalate", "reject"]);
    assert!(!events.iter().any(|event| event["event"] == "sandbox" && event["action"] == "exec"), "it did not run");
    let (_, result, _) = ended(place.path(), &[&path, "--approval", "prod"]);
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"][0]["limit"]["type"], "operator");
}

#[test]
fn what_the_profile_does_not_grant_is_refused_before_anything_starts() {
    let place = tempfile::tempdir().unwrap();
    let text = "name: t\nprofile: T2.H1.N2\ndataset: [{input: a, target: b}]\nsolver: {kind: agent, tools: [bash]}\nscorer: includes\n";
    let (code, refused, err) = ended(place.path(), &[&task(place.path(), text)]);
    assert_eq!(code, 3, "{err}");
    let said = refused.to_string();
    assert!(said.contains("bash") && said.contains("submit"), "{said}");
    assert!(!place.path().join("logs").exists());
    let (code, _, err) = ended(
        place.path(),
        &[&task(place.path(), &text.replace("agent, tools: [bash]", "agnt")), "--model", "mock/none"],
    );
    assert_eq!(code, 2, "{err}");
}

#[test]
fn limits_end_a_sample_and_it_is_scored() {
    let place = tempfile::tempdir().unwrap();
    let text = shell_task(&["sleep 60"], "includes")
        .replace("tools: [bash, submit]", "tools: [bash, submit]\nlimits: {time: 1, tool_timeout: 30}");
    let start = Instant::now();
    let (code, result, err) = ended(place.path(), &[&task(place.path(), &text)]);
    assert_eq!(code, 0, "{err}");
    assert!(start.elapsed() < Duration::from_secs(20));
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"][0]["limit"]["type"], "time");
    assert!(log["samples"][0]["events"].as_array().unwrap().iter().any(|event| event["event"] == "sample_limit"));
    let text = shell_task(&["true", "true", "true"], "includes")
        .replace("tools: [bash, submit]", "tools: [bash, submit]\nlimits: {messages: 4}");
    let (_, result, _) = ended(place.path(), &[&task(place.path(), &text)]);
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"][0]["limit"]["type"], "message");
}

/// With fewer sandboxes than samples at the same time, one sample's time is not used up by the others.
#[test]
fn waiting_for_the_sandboxes_of_other_samples_takes_none_of_a_samples_time() {
    let place = tempfile::tempdir().unwrap();
    let text = shell_task(&["sleep 2"], "includes")
        .replace(
            "dataset: [{id: one, input: go, target: done}]",
            "epochs: 6\ndataset: [{id: one, input: go, target: done}]",
        )
        .replace("tools: [bash, submit]", "tools: [bash, submit]\nlimits: {time: 8, tool_timeout: 8}");
    let (code, result, err) =
        ended(place.path(), &[&task(place.path(), &text), "--max-samples", "6", "--max-sandboxes", "1"]);
    assert_eq!((code, accuracy(&result)), (0, 1.0), "{result} {err}");
}

#[test]
fn an_interrupt_leaves_a_log_that_says_cancelled() {
    let place = tempfile::tempdir().unwrap();
    let path = task(
        place.path(),
        &shell_task(&["sleep 60"], "includes")
            .replace("tools: [bash, submit]", "tools: [bash, submit]\nlimits: {tool_timeout: 60}"),
    );
    let child = eval(place.path(), &[&path]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::fs::read_dir(place.path().join("logs")).map_or(0, Iterator::count) < 2 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["status"], "cancelled");
    assert_eq!(dump(place.path(), result["log"].as_str().unwrap())["status"], "cancelled");
}

#[test]
fn a_killed_runner_leaves_a_log_that_opens_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let mut text = shell_task(&["sleep 60"], "includes")
        .replace("tools: [bash, submit]", "tools: [bash, submit]\nlimits: {tool_timeout: 60}");
    // One that is done, and one that is not.
    text = text.replace(
        "dataset: [{id: one, input: go, target: done}]",
        "dataset: [{id: fast, input: go, target: done, mock: [{tool_calls: [{name: submit, arguments: {answer: done}}]}]}, {id: slow, input: go, target: done}]",
    );
    let mut child =
        eval(place.path(), &[&task(place.path(), &text)]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = || -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(place.path().join("logs")).ok()?.flatten().map(|entry| entry.path());
        entries.find(|path| path.extension().is_some_and(|extension| extension == "eval"))
    };
    // Readable while it is written: the first sample is in it before the second is done.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !log().is_some_and(|log| dump(place.path(), log.to_str().unwrap())["samples"][0]["id"] == "fast") {
        assert!(Instant::now() < deadline, "the first sample is not in the log");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let log = dump(place.path(), log().unwrap().to_str().unwrap());
    assert_eq!(log["status"], "started");
    let ids: Vec<&str> =
        log["samples"].as_array().unwrap().iter().map(|sample| sample["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["fast"]);
}

#[test]
fn epochs_parameters_and_slices() {
    let place = tempfile::tempdir().unwrap();
    let text = "name: many\nprofile: T2.H1.N2\nparameters: {word: {type: text, default: right}}\n\
        dataset: [{input: a, target: right}, {input: b, target: wrong}, {input: c, target: right}]\n\
        solver: generate\nscorer: exact\nmock: [{text: '{{word}}'}]\nepochs: {count: 2, reducer: [mean, max]}\n";
    let path = task(place.path(), text);
    let (code, result, err) = ended(place.path(), &[&path]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(result["samples"], 6);
    assert!((accuracy(&result) - 2.0 / 3.0).abs() < 1e-9, "{result}");
    assert_eq!(result["results"]["scores"].as_array().unwrap().len(), 2);
    let (_, result, _) = ended(place.path(), &[&path, "-T", "word=wrong", "--limit", "2", "--epochs", "1"]);
    assert!((accuracy(&result) - 0.5).abs() < 1e-9, "{result}");
    let (_, result, _) = ended(place.path(), &[&path, "--sample-id", "2", "--epochs", "1"]);
    assert_eq!(result["samples"], 1);
}

#[test]
fn granted_entries_reach_the_agent_and_no_log() {
    let place = tempfile::tempdir().unwrap();
    let text = shell_task(&["echo $SECRET; printenv SECRET | base64; echo $SECRET > /tmp/x"], "includes")
        .replace("tools: [bash, submit]", "tools: [bash, submit]\nenvironment: {SECRET: hunter2-is-long}");
    let (code, result, err) = ended(place.path(), &[&task(place.path(), &text)]);
    assert_eq!(code, 0, "{err}");
    let path = result["log"].as_str().unwrap();
    let log = dump(place.path(), path).to_string();
    assert!(log.contains("[REDACTED]") && !log.contains("hunter2"), "{log}");
    let audit = std::fs::read_to_string(path.replace(".eval", ".audit.jsonl")).unwrap();
    assert!(!audit.contains("hunter2"));
    let verified = crate::common::command(place.path()).args(["log", "verify", path]).output().unwrap();
    assert!(verified.status.success());
    // A shortened chain is found: the log says where it ends.
    let shorter: Vec<&str> = audit.lines().take(audit.lines().count() - 1).collect();
    std::fs::write(path.replace(".eval", ".audit.jsonl"), shorter.join("\n") + "\n").unwrap();
    let verified = crate::common::command(place.path()).args(["log", "verify", path]).output().unwrap();
    assert_eq!(verified.status.code(), Some(5), "{}", String::from_utf8_lossy(&verified.stderr));
}

/// A sandbox, or the gateway, that is gone in the middle of a sample.
#[test]
fn what_dies_in_the_middle_fails_its_sample_and_leaves_a_whole_log() {
    for victim in ["ringfence-zygote", "ringfence-gateway"] {
        let place = tempfile::tempdir().unwrap();
        let text = shell_task(&["sleep 60"], "includes")
            .replace("tools: [bash, submit]", "tools: [bash, submit]\nlimits: {tool_timeout: 60}");
        let child = eval(place.path(), &[&task(place.path(), &text)])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        // Helpers are as many as were needed; the gateway is one.
        let named = || -> Vec<i32> {
            let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
            let children =
                threads.map(|thread| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default());
            let children: Vec<String> = children.collect();
            let is_victim = |pid: &&str| {
                std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(victim.as_bytes()))
            };
            let pids = children.iter().flat_map(|line| line.split_whitespace()).filter(is_victim);
            pids.map(|pid| pid.parse().unwrap()).collect()
        };
        while named().is_empty() {
            assert!(Instant::now() < deadline, "no {victim}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Once the sample is under way.
        std::thread::sleep(Duration::from_millis(1500));
        for pid in named() {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{victim}: {}", String::from_utf8_lossy(&output.stdout));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["status"], "error");
        let log = dump(place.path(), result["log"].as_str().unwrap());
        assert_eq!(log["status"], "error");
        assert!(log["samples"][0]["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{victim}");
    }
}

/// A small file system for logs, gone with this.
struct Tiny(PathBuf);

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_the_log_opens() {
    if !crate::common::is_root() {
        return; // Nobody else may mount.
    }
    let place = tempfile::tempdir().unwrap();
    let logs = place.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    assert!(
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&logs).status().unwrap().success()
    );
    let _tiny = Tiny(logs.clone());
    let (code, _, err) = ended(place.path(), &[example("ctf.yaml").to_str().unwrap()]);
    assert!(code == 1 && err.contains("No space left"), "{code} {err}");
    let log = std::fs::read_dir(&logs).unwrap().flatten().map(|entry| entry.path());
    let log = log.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "eval")).unwrap();
    assert_eq!(dump(place.path(), log.to_str().unwrap())["status"], "started");
}

/// H0, N0 and writable mounts are the operator's to grant, whatever a document says and justifies.
#[test]
fn a_document_alone_runs_nothing_on_the_host_and_writes_to_no_mount() {
    let place = tempfile::tempdir().unwrap();
    let canary = place.path().join("canary");
    let out = place.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let task = |name: &str, head: &str, command: &str| {
        let run = calls(&[("bash", serde_json::json!({"command": command}))]);
        let text = format!(
            "name: {name}\n{head}approval: ci\ntools: [bash, submit]\nsolver: {{kind: agent}}\nscorer: includes\n\
             dataset: [{{id: a, input: go, target: done}}]\n{run}"
        );
        write(place.path(), &format!("{name}.yaml"), &text)
    };
    let local = task("local", "profile: T0.H0.N0\njustification: j\n", &format!("touch {}", canary.display()));
    let open = task("open", "profile: T0.H1.N0\njustification: j\n", "true");
    let setup = "profile: T0.H1.N2\njustification: j\nphases: {setup: {network: N0}}\n";
    let setup = task("setup", setup, "true");
    let mount = format!("profile: T0.H1.N2\nmounts: ['{}:/out:rw']\n", out.display());
    let mount = task("mount", &mount, "echo x > /out/written");
    for (task, flag) in [
        (&local, "--allow-local"),
        (&open, "--allow-full-network"),
        (&setup, "--allow-full-network"),
        (&mount, "--allow-writable-mounts"),
    ] {
        let directory = place.path().join("set").display().to_string();
        for arguments in [&["eval", task][..], &["eval-set", task, "--log-dir", &directory]] {
            let (code, _, err) = ringfence(place.path(), arguments);
            assert!(code == 3 && err.contains(flag), "{arguments:?}: {code} {err}");
        }
    }
    for (text, flag) in [
        ("profile: T0.H0.N0\njustification: j\n".to_owned(), "--allow-local"),
        ("profile: T0.H1.N0\njustification: j\n".to_owned(), "--allow-full-network"),
        (format!("profile: T0.H1.N2\nmounts: ['{}:/out:rw']\n", out.display()), "--allow-writable-mounts"),
    ] {
        let document = write(place.path(), "document.yaml", &format!("{text}approval: ci\n"));
        let touch = canary.display().to_string();
        for arguments in [&["run", "--profile", &document, "--", "touch", &touch][..], &["verify", &document]] {
            let (code, _, err) = ringfence(place.path(), arguments);
            assert!(code == 3 && err.contains(flag), "{arguments:?}: {code} {err}");
        }
        // Looking at it refuses nothing, and says what will be asked for.
        let (code, _, err) = ringfence(place.path(), &["profile", "check", &document]);
        assert!(code == 0 && err.contains(flag), "{code} {err}");
    }
    assert!(!canary.exists() && !out.join("written").exists());
    // With the operator's word, by option or by their own configuration, they run.
    let (code, _, err) = ended(place.path(), &[&mount, "--allow-writable-mounts"]);
    assert!(code == 0 && out.join("written").exists(), "{err}");
    let (code, _, err) = ended(place.path(), &[&local, "--profile", "T0.H0.N0"]);
    assert!(code == 0 && canary.exists(), "{err}");
    std::fs::remove_file(&canary).unwrap();
    let grants = place.path().join("config/ringfence/grants");
    std::fs::create_dir_all(grants.parent().unwrap()).unwrap();
    std::fs::write(&grants, "local\nfull-network\n").unwrap();
    let (code, result, err) = ended(place.path(), &[&local]);
    assert!(code == 0 && canary.exists(), "{err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let invocation = &log["eval"]["metadata"]["ringfence"]["invocation"];
    assert_eq!(invocation["granted"], serde_json::json!(["local", "full-network"]));
    // A file that others can change grants nothing.
    std::fs::set_permissions(&grants, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let (code, _, err) = ringfence(place.path(), &["eval", &local]);
    assert!(code == 2 && err.contains("others can write it"), "{code} {err}");
}

/// Memory that outlives processes leaves the guest as the only one that the kernel can kill: its sample would leave the denominator.
#[test]
fn an_agent_that_has_its_guest_killed_for_memory_is_scored() {
    if !crate::common::is_root() {
        // Without control groups nothing bounds memory, and the plan says so.
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let command = |command: &str| ("bash", serde_json::json!({"command": command}));
    // Whom the kernel kills is its choice: most of the time the guest within a few of these.
    let fill = "for i in 1 2 3 4 5 6; do dd if=/dev/zero bs=4096 >> /srv/z$i; done";
    let fills = (0..32).map(|turn| command(if turn % 4 < 2 { fill } else { "ls" }));
    let run = calls(&std::iter::once(command("echo kept > /srv/answer")).chain(fills).collect::<Vec<_>>());
    for network in ["profile: T0.H1.N2\n", "profile: T0.H1.N1\nnetwork: {allow_domains: [example.org]}\n"] {
        let text = format!(
            "name: t\n{network}approval: ci\ntools: [bash, submit]\nsolver: {{kind: agent, max_steps: 40}}\n\
             limits: {{memory: 64MiB, disk: 256MiB}}\nscorer: {{kind: script, script: 'cat /srv/answer; exit 1'}}\n\
             dataset: [{{id: a, input: go, target: done}}]\n{run}"
        );
        let was_killed = (0..5).any(|_| {
            let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
            assert_eq!(code, 0, "{network}: {err}");
            let log = dump(place.path(), result["log"].as_str().unwrap());
            let sample = &log["samples"][0];
            let score = &sample["scores"]["script"];
            assert_eq!(
                (&score["value"], &score["explanation"]),
                (&"I".into(), &"kept\n".into()),
                "what it wrote is judged"
            );
            sample["limit"]["type"] == "custom"
        });
        assert!(was_killed, "{network}: in none of five runs");
    }
}

/// What the agent left can fill the memory when the score script runs it, until only the guest is left to be killed.
#[test]
fn a_score_script_that_has_its_guest_killed_for_memory_is_scored() {
    if !crate::common::is_root() {
        // Without control groups nothing bounds memory, and the plan says so.
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let plant =
        format!("cat > /srv/run <<'END'\n{}\nEND\n", crate::common::planted::FILL_MEMORY.replace("DIRECTORY", "/srv"));
    let run = calls(&[("bash", serde_json::json!({"command": plant}))]);
    // Whom the kernel kills is its choice: most of the time the guest within a few of these.
    let scripts: Vec<_> =
        (0..6).map(|_| serde_json::json!({"kind": "script", "script": "sh /srv/run; exit 1", "timeout": 10})).collect();
    let scripts = serde_json::json!(scripts);
    for network in ["profile: T0.H1.N2\n", "profile: T0.H1.N1\nnetwork: {allow_domains: [example.org]}\n"] {
        let text = format!(
            "name: t\n{network}approval: ci\ntools: [bash, submit]\nsolver: {{kind: agent, max_steps: 9}}\n\
             limits: {{memory: 64MiB, disk: 256MiB}}\nscorer: {scripts}\n\
             dataset: [{{id: a, input: go, target: done}}]\n{run}"
        );
        let was_killed = (0..5).any(|_| {
            let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
            assert_eq!(code, 0, "{network}: {err}");
            let log = dump(place.path(), result["log"].as_str().unwrap());
            let scores = log["samples"][0]["scores"].as_object().unwrap();
            assert!(scores.len() == 6 && scores.values().all(|score| score["value"] == "I"), "{scores:?}");
            let is_of_guest = |score: &Value| {
                score["reason"] == "scorer_killed"
                    && score["explanation"].as_str().unwrap().contains("its guest was killed")
            };
            scores.values().any(is_of_guest)
        });
        assert!(was_killed, "{network}: in none of five runs");
    }
}
