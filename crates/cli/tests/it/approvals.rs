//! Who says yes: presets, policy files, programs and a person at a terminal, through whole evaluations.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::common::evaluation::{calls, dump, ended, eval, events, write};
use crate::common::terminal::Terminal;
use serde_json::{Value, json};

fn task(approval: &str, wanted: &[(&str, Value)]) -> String {
    format!(
        "name: asked\nprofile: T0.H1.N2\napproval: {approval}\ntools: [bash, bash_session, python, think, write_file, submit]\n\
         dataset: [{{id: one, input: go, target: done}}]\nsolver: agent\nscorer: includes\n{}",
        calls(wanted)
    )
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

/// Runs a task under a policy; returns its log.
fn under(place: &Path, policy: &str, wanted: &[(&str, Value)]) -> Value {
    let policy = write(place, "policy.yaml", policy);
    let (code, result, err) = ended(place, &[&write(place, "task.yaml", &task("ci", wanted)), "--approval", &policy]);
    assert_eq!(code, 0, "{err} {result}");
    dump(place, result["log"].as_str().unwrap())
}

/// Who decided what, in order.
fn decisions(log: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events(log, "approval").iter().map(|event| (text(&event["approver"]), text(&event["decision"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(who, what)| ((*who).to_owned(), (*what).to_owned())).collect()
}

/// The kind of error of each call, or what it gave.
fn outcomes(log: &Value) -> Vec<String> {
    let outcome = |event: &&Value| {
        event["error"]["type"].as_str().map_or_else(|| event["result"].as_str().unwrap().to_owned(), str::to_owned)
    };
    events(log, "tool").iter().filter(|event| event["function"] != "submit").map(outcome).collect()
}

#[test]
fn presets_mean_what_they_say_through_the_whole_chain() {
    let place = tempfile::tempdir().unwrap();
    let wanted = [("think", json!({"thought": "hm"})), bash("echo marker-ran")];
    for (preset, decided, ran) in [
        ("ci", pairs(&[("auto", "approve"), ("auto", "approve")]), true),
        ("dev", pairs(&[("plain_tools", "approve"), ("plain_tools", "escalate"), ("human", "reject")]), false),
        ("prod", pairs(&[("terminator", "approve"), ("terminator", "terminate")]), false),
    ] {
        let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &task(preset, &wanted))]);
        assert_eq!(code, 0, "{err}");
        let log = dump(place.path(), result["log"].as_str().unwrap());
        assert_eq!(decisions(&log), decided, "{preset}");
        assert_eq!(log["samples"][0].to_string().contains("marker-ran\\n"), ran, "{preset}");
        let limit = &log["samples"][0]["limit"]["type"];
        assert_eq!(limit.as_str(), (preset == "prod").then_some("operator"), "{preset}");
    }
}

#[test]
fn prod_explains_itself_without_secrets() {
    let place = tempfile::tempdir().unwrap();
    let wanted = [("write_file", json!({"file_path": "/a", "content": "planted-content-1234"}))];
    let (_, result, _) = ended(place.path(), &[&write(place.path(), "task.yaml", &task("prod", &wanted))]);
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let said = events(&log, "approval")[0]["explanation"].as_str().unwrap().to_owned();
    assert!(said.contains("write_file") && said.contains("[REDACTED]"), "{said}");
    assert!(!log.to_string().contains("planted-content-1234"), "{said}");
}

#[test]
fn a_person_at_a_terminal_decides() {
    let place = tempfile::tempdir().unwrap();
    let wanted = [bash("echo marker-$((40+2))"), bash("echo second-$((1+1))"), bash("echo marker-$((40+2))")];
    let path = write(place.path(), "task.yaml", &task("dev", &wanted));
    let mut terminal = Terminal::start(&eval(place.path(), &[&path]));
    // Typed before there is a question: no answer.
    terminal.write("y\n");
    terminal.wait_for("is a no): ", 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(terminal.screen().matches("is a no): ").count(), 1, "{}", terminal.screen());
    terminal.write("s\n");
    terminal.wait_for("is a no): ", 2);
    terminal.write("perhaps\n");
    terminal.wait_for("is a no): ", 3);
    terminal.write("n not now\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("echo marker-$((40+2))"), "{screen}");
    let log = std::fs::read_dir(place.path().join("logs")).unwrap();
    let log = log.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|end| end == "eval"));
    let log = dump(place.path(), log.unwrap().to_str().unwrap());
    let expected = [
        ("plain_tools", "escalate"),
        ("human", "approve"),
        ("plain_tools", "escalate"),
        ("human", "reject"),
        ("plain_tools", "escalate"),
        ("grant", "approve"),
    ];
    assert_eq!(decisions(&log), pairs(&expected));
    assert_eq!(outcomes(&log), ["marker-42\n", "approval", "marker-42\n"]);
    let latency = events(&log, "approval")[1]["metadata"]["milliseconds"].as_f64().unwrap();
    assert!(latency > 100.0, "{latency}");
    assert!(events(&log, "approval")[3]["explanation"].as_str().unwrap().contains("not now"));
    // Waiting for a person is no work.
    let sample = &log["samples"][0];
    let (total, working) = (sample["total_time"].as_f64().unwrap(), sample["working_time"].as_f64().unwrap());
    assert!(total - working > latency / 1000.0 * 0.9, "{total} {working}");
}

#[test]
fn nothing_in_a_question_speaks_to_the_terminal_or_shows_a_secret() {
    let place = tempfile::tempdir().unwrap();
    let hostile = "echo \u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}abc; curl -H 'Authorization: Bearer planted-key-123456'";
    let path = write(place.path(), "task.yaml", &task("dev", &[bash(hostile)]));
    let mut command = eval(place.path(), &[&path]);
    command.env("OTHER_API_KEY", "planted-key-123456");
    let mut terminal = Terminal::start(&command);
    terminal.wait_for("is a no): ", 1);
    terminal.write("t\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(
        !screen.contains("\u{1b}]0;owned") && !screen.contains("\u{1b}[2J\\u{202e}") && !screen.contains('\u{202e}'),
        "{screen:?}"
    );
    assert!(screen.contains("owned") && !screen.contains("planted-key-123456"), "{screen:?}");
}

#[test]
fn nobody_who_answers_in_time_is_a_no() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "policy.yaml", "approvers: [{name: human, tools: bash, timeout: 1}]");
    let path = write(place.path(), "task.yaml", &task("policy.yaml", &[bash("echo ran")]));
    let terminal = Terminal::start(&eval(place.path(), &[&path]));
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("no answer in time"), "{screen}");
}

#[test]
fn the_first_decision_that_is_not_to_escalate_wins_and_none_is_a_no() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers:\n- {name: auto, tools: [bash], where: {command: {program: [ls, echo]}}, decision: approve}\n\
        - {name: auto, tools: bash, decision: escalate}\n- {name: auto, tools: 'bash*', where: {command: {contains: rm}}, decision: terminate}\n\
        - {name: auto, tools: [think], decision: approve}\n";
    let wanted = [
        bash("echo one"),
        bash("echo one; echo two"),
        // `bash` is not a pattern for `bash_session`: nobody is asked, so it is a no.
        ("bash_session", json!({"action": "read"})),
        ("think", json!({"thought": "x"})),
        ("python", json!({"code": "print(1)"})),
        bash("rm -rf /"),
        bash("echo never"),
    ];
    let log = under(place.path(), policy, &wanted);
    assert_eq!(outcomes(&log), ["one\n", "approval", "approval", "", "approval"]);
    let expected = [
        ("auto", "approve"),
        ("auto", "escalate"),
        ("end of chain", "reject"),
        ("end of chain", "reject"),
        ("auto", "approve"),
        ("end of chain", "reject"),
        ("auto", "escalate"),
        ("auto", "terminate"),
    ];
    assert_eq!(decisions(&log), pairs(&expected));
    assert_eq!(log["samples"][0]["limit"]["type"], "operator");
    let approval = &log["eval"]["metadata"]["ringfence"]["approval"];
    assert_eq!(approval["sha256"].as_str().unwrap().len(), 64, "{approval}");
}

#[test]
fn a_program_approves_modifies_and_binds() {
    let place = tempfile::tempdir().unwrap();
    let script = r#"#!/usr/bin/python3
import json, sys
question = json.load(sys.stdin)
command = question["arguments"]["command"]
answer = {
    "echo change": {"decision": "modify", "arguments": {"command": "echo changed"}},
    "echo broken": {"decision": "modify", "arguments": {"cmd": "echo changed"}},
    "echo bound": {"decision": "approve", "bound": {"argv": ["echo", "bound"], "uses": 2}},
    "echo other": {"decision": "approve", "bound": {"argv": ["echo", "else"]}},
    "echo late": {"decision": "approve", "bound": {"until": "2020-01-01T00:00:00Z"}},
    "echo path": {"decision": "approve", "bound": {"path": "/srv"}},
}.get(command, {"decision": "reject", "explanation": "not on my list"})
json.dump(answer, sys.stdout)
"#;
    let program = write(place.path(), "approve", script);
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let policy = "approvers: [{name: command, tools: bash, command: [./approve], timeout: 20}]";
    let wanted = ["change", "broken", "bound", "bound", "bound", "other", "late", "path", "unknown"];
    let wanted: Vec<_> = wanted.iter().map(|word| bash(&format!("echo {word}"))).collect();
    let log = under(place.path(), policy, &wanted);
    let expected =
        ["changed\n", "approval", "bound\n", "bound\n", "bound\n", "approval", "approval", "approval", "approval"];
    assert_eq!(outcomes(&log), expected);
    let expected = [
        ("command", "modify"),
        ("command", "modify"),
        ("bound", "reject"),
        ("command", "approve"),
        ("grant", "approve"),
        ("command", "approve"),
        ("command", "approve"),
        ("bound", "reject"),
        ("command", "approve"),
        ("bound", "reject"),
        ("command", "approve"),
        ("bound", "reject"),
        ("command", "reject"),
    ];
    assert_eq!(decisions(&log), pairs(&expected));
    let first = events(&log, "approval")[0];
    assert_eq!(first["modified"]["arguments"]["command"], "echo changed");
    // What ran is what stands in the log.
    assert_eq!(events(&log, "tool")[0]["arguments"]["command"], "echo changed");
    assert_eq!(events(&log, "approval")[3]["metadata"]["bound"]["uses"], 2);
    assert_eq!(first["metadata"]["modified_hmac"].as_str().unwrap().len(), 64);
    // The same in the audit chain, with who, how long, and the arguments' HMAC.
    let chain = std::fs::read_dir(place.path().join("logs")).unwrap().map(|entry| entry.unwrap().path());
    let chain = chain.into_iter().find(|path| path.to_string_lossy().ends_with(".audit.jsonl")).unwrap();
    let lines = std::fs::read_to_string(chain).unwrap();
    let approvals: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["kind"] == "approval")
        .collect();
    assert_eq!(approvals.len(), 13);
    let data = &approvals[0]["data"]["data"];
    assert_eq!((data["approver"].as_str(), data["decision"].as_str()), (Some("command"), Some("modify")));
    assert!(
        data["milliseconds"].as_f64().unwrap() > 0.0 && data["arguments_hmac"].as_str().unwrap().len() == 64,
        "{data}"
    );
}

#[test]
fn results_are_reviewed() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers:\n- {name: auto, tools: '*'}\n- {name: auto, tools: bash, on: result, where: {command: {contains: private}}, decision: reject}\n";
    let log = under(place.path(), policy, &[bash("echo public"), bash("echo private-$((40+2))")]);
    assert_eq!(outcomes(&log), ["public\n", "approval"]);
    let messages = log["samples"][0]["messages"].to_string();
    assert!(!messages.contains("private-42"), "{messages}");
}

#[test]
fn the_kill_switch_approves_the_first_call_of_a_step_only() {
    let place = tempfile::tempdir().unwrap();
    let text = "name: parallel\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\n\
        dataset: [{id: one, input: go, target: done}]\nsolver: agent\nscorer: includes\nmock:\n\
        - tool_calls: [{name: bash, arguments: {command: echo one}}, {name: bash, arguments: {command: echo two}}]\n\
        - tool_calls: [{name: submit, arguments: {answer: done}}]\n";
    let path = write(place.path(), "task.yaml", text);
    for (switch, expected) in [(None, ["one\n", "two\n"]), (Some("yes"), ["one\n", "approval"])] {
        let mut command = eval(place.path(), &[&path]);
        if let Some(switch) = switch {
            command.env("INSPECT_DISABLE_TOOL_PARALLEL", switch);
        }
        let output = command.output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let log = dump(place.path(), result["log"].as_str().unwrap());
        // Calls at the same time end in any order.
        let mut found = outcomes(&log);
        found.sort();
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(found, expected);
        if switch.is_some() {
            assert_eq!(decisions(&log), pairs(&[("auto", "approve"), ("one_at_a_time", "reject")]));
        }
    }
}

#[test]
fn a_wrong_policy_says_where_and_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers:\n- {name: humn, tools: bash}\n- {name: auto, tools: bsh}\n- {name: auto, tools: bash, where: {cmd: ls}}\n\
        - {name: auto, tools: bash, where: {command: {at_least: 3}}}\n- {name: auto, tools: bash, decision: maybe}\n\
        - {name: command, tools: bash}\n- {name: auto}\n- {name: auto, tools: bash, colour: red}\n\
        - {name: auto, tools: bash, where: {command: {matches: '('}}}\n- {name: auto, tools: bash, hosts: [a.test]}\n";
    write(place.path(), "policy.yaml", policy);
    let path = write(place.path(), "task.yaml", &task("policy.yaml", &[]));
    let (code, said, err) = ended(place.path(), &[&path]);
    assert_eq!(code, 2, "{said} {err}");
    let said = format!("{said}{err}");
    for part in [
        "humn",
        "did you mean `human`",
        "bsh",
        "did you mean `bash`",
        "`cmd`",
        "another type",
        "maybe",
        "`command` is not said",
        "needs `tools`",
        "colour",
        "regular expression",
        "`hosts` is for",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!place.path().join("logs").exists());
    let path = write(place.path(), "task.yaml", &task("missing.yaml", &[]));
    let (code, said, err) = ended(place.path(), &[&path]);
    assert_eq!(code, 2, "{said} {err}");
    assert!(format!("{said}{err}").contains("missing.yaml"), "{said} {err}");
}

#[test]
fn what_ends_the_sample_ends_the_other_calls_of_its_step() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers:\n- {name: auto, tools: bash, where: {command: {contains: stop}}, decision: terminate}\n- {name: auto, tools: bash}\n";
    write(place.path(), "policy.yaml", policy);
    let text = "name: parallel\nprofile: T0.H1.N2\napproval: policy.yaml\ntools: [bash, submit]\nlimits: {tool_timeout: 60}\n\
        dataset: [{id: one, input: go, target: done}]\nsolver: agent\nscorer: includes\nmock:\n\
        - tool_calls: [{name: bash, arguments: {command: sleep 50}}, {name: bash, arguments: {command: stop}}]\n";
    let start = std::time::Instant::now();
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", text)]);
    assert_eq!(code, 0, "{err}");
    assert!(start.elapsed() < std::time::Duration::from_secs(30));
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"][0]["limit"]["type"], "operator");
    // A person who ends the sample is asked nothing more.
    let text = text.replace("policy.yaml", "dev").replace("sleep 50", "echo one");
    let mut terminal = Terminal::start(&eval(place.path(), &[&write(place.path(), "task.yaml", &text)]));
    terminal.wait_for("is a no): ", 1);
    terminal.write("t\n");
    let (code, screen) = terminal.end();
    assert_eq!((code, screen.matches("is a no): ").count()), (0, 1), "{screen}");
}

#[test]
fn a_result_beside_an_error_is_reviewed_too() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers: [{name: auto, tools: '*'}, {name: auto, on: result, tools: bash, decision: reject}]";
    write(place.path(), "policy.yaml", policy);
    let text = task("policy.yaml", &[bash("echo private-$((40+2)); sleep 30")])
        .replace("solver: agent", "solver: agent\nlimits: {tool_timeout: 1}");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!(code, 0, "{err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(outcomes(&log), ["approval"]);
    assert!(!log["samples"][0]["messages"].to_string().contains("private-42"));
}

#[test]
fn conditions_are_held_against_what_is_meant() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers:\n- {name: auto, tools: read_file, where: {file_path: {under: /repo/secret}}, decision: reject}\n\
        - {name: auto, tools: read_file, where: {limit: {at_least: 100}}, decision: reject}\n- {name: auto, tools: '*'}\n";
    write(place.path(), "policy.yaml", policy);
    let paths = [
        "/repo/secret/a",
        "//repo/secret/a",
        "/repo/./secret/a",
        "secret/a",
        "/repo/x/../secret/a",
        "/repo/secret/../secret/a",
    ];
    let mut wanted: Vec<(&str, Value)> = paths.iter().map(|path| ("read_file", json!({"file_path": path}))).collect();
    wanted.push(("read_file", json!({"file_path": "/repo/b", "limit": 500.0})));
    wanted.push(("read_file", json!({"file_path": "/repo/b", "limit": 5})));
    let text = task("policy.yaml", &wanted).replace("think, ", "think, read_file, ");
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!(code, 0, "{err}");
    let mut expected = vec!["approval"; 7];
    expected.push("file_not_found");
    assert_eq!(outcomes(&dump(place.path(), result["log"].as_str().unwrap())), expected);
}

#[test]
fn waiting_at_the_same_time_is_counted_once() {
    let place = tempfile::tempdir().unwrap();
    let policy = "approvers: [{name: command, tools: bash, command: [sh, -c, 'sleep 0.5; echo \"{\\\"decision\\\": \\\"approve\\\"}\"'], timeout: 20}]";
    let policy = write(place.path(), "policy.yaml", policy);
    let calls = ["{name: bash, arguments: {command: \"true\"}}"; 8].join(", ");
    let text = format!(
        "name: waiting\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\n\
         dataset: [{{id: one, input: go, target: done}}]\nsolver: agent\nscorer: includes\nmock:\n\
         - {{tool_calls: [{calls}]}}\n- {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}\n"
    );
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text), "--approval", &policy]);
    assert_eq!(code, 0, "{err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(outcomes(&log), [""; 8], "{}", events(&log, "approval")[0]);
    let sample = &log["samples"][0];
    let (total, working) = (sample["total_time"].as_f64().unwrap(), sample["working_time"].as_f64().unwrap());
    let longest = events(&log, "approval")
        .iter()
        .map(|one| one["metadata"]["milliseconds"].as_f64().unwrap())
        .fold(0.0, f64::max);
    assert!(total - working <= longest / 1000.0 + 0.3 && working > 0.0, "{total} {working} {longest}");
}

#[test]
fn a_policy_that_a_task_names_runs_no_program_and_lies_beside_it() {
    let place = tempfile::tempdir().unwrap();
    let marker = place.path().join("ran");
    let policy = format!("approvers: [{{name: command, tools: bash, command: [touch, {}]}}]", marker.display());
    write(place.path(), "policy.yaml", &policy);
    let outside = tempfile::tempdir().unwrap();
    let outside = write(outside.path(), "policy.yaml", "approvers: [{name: auto, tools: '*'}]");
    for (named, why) in [
        ("policy.yaml", "--approval policy.yaml"),
        (outside.as_str(), "policy.yaml"),
        ("../policy.yaml", "policy.yaml"),
    ] {
        let path = write(place.path(), "task.yaml", &task(named, &[bash("true")]));
        let (code, said, err) = ended(place.path(), &[&path]);
        assert_eq!(code, 2, "{named}: {said} {err}");
        assert!(format!("{said}{err}").contains(why), "{named}: {said} {err}");
    }
    assert!(!marker.exists() && !place.path().join("logs").exists());
}
