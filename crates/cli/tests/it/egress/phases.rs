//! Phases of an evaluation, each with its own network: nothing of one lives on into the next.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::egress::net::{Net, net};

/// Runs a task; what it says of itself.
fn eval(net: &Net, task: &str) -> Value {
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    std::fs::write(&file, task).unwrap();
    let output = net.eval(&file, &scratch.path().join("logs")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let result: Value =
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    assert!(Path::new(result["log"].as_str().unwrap()).exists());
    result
}

fn accuracy(result: &Value) -> f64 {
    assert_eq!(result["status"], "success", "{result}");
    result["results"]["scores"][0]["metrics"]["accuracy"]["value"].as_f64().unwrap()
}

/// An agent that runs these commands, and a script that judges.
fn task(phases: &str, setup: &str, commands: &[&str], script: &str) -> String {
    let mut mock = String::new();
    for command in commands {
        let command = serde_json::json!(command);
        writeln!(mock, "  - {{tool_calls: [{{name: bash, arguments: {{command: {command}}}}}]}}").unwrap();
    }
    format!(
        "name: phases\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nphases:\n{phases}\
         dataset:\n  - {{id: one, input: go, target: done, setup: {}}}\n\
         solver: {{kind: agent, tools: [bash]}}\nscorer: {{kind: script, script: {}}}\n\
         mock:\n{mock}  - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}\n",
        serde_json::json!(setup),
        serde_json::json!(script)
    )
}

const SETUP_N1: &str = "  setup: {network: {level: N1, allow_domains: [www.example.org]}}\n";
const SCORE_N1: &str = "  score: {network: {level: N1, allow_domains: [www.example.org]}}\n";
/// Opens a connection, says something when a file appears, and leaves what comes back in another.
const DAEMON: &str = r#"perl -e 'use IO::Socket::IP; my $s = IO::Socket::IP->new(PeerHost => "www.example.org", PeerPort => 80) or die; open my $f, ">", "/tmp/open"; close $f; select undef, undef, undef, 0.05 until -e "/tmp/go"; print $s "GET /late HTTP/1.1\r\nHost: www.example.org\r\nConnection: close\r\n\r\n"; open my $o, ">", "/tmp/came"; print $o $_ while <$s>' >/dev/null 2>&1"#;

#[test]
fn setup_daemon_keeps_connection() {
    let net = net();
    // Setup reaches the server; the connection that it leaves open is gone when the agent begins.
    let setup = format!(
        "curl -sS --max-time 10 http://www.example.org/ok >/tmp/reached; ({DAEMON} &); until [ -e /tmp/open ]; do sleep 0.05; done"
    );
    let agent = [
        "test -s /tmp/reached && touch /tmp/go; sleep 1; ls /proc/[0-9]*/exe 2>/dev/null | wc -l; cat /tmp/came; true",
    ];
    let result = eval(&net, &task(SETUP_N1, &setup, &agent, "test -s /tmp/reached && test ! -s /tmp/came"));
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
    let seen = net.arrived();
    assert!(seen.iter().any(|seen| format!("{seen:?}").contains("/ok")), "setup has its network: {seen:?}");
    assert!(!seen.iter().any(|seen| format!("{seen:?}").contains("/late")), "{seen:?}");
}

#[test]
fn agent_deferred_download_in_score() {
    let net = net();
    // What the agent leaves behind waits for the scorer, which may reach what the agent may.
    let wait =
        "until [ -e /tmp/scoring ]; do sleep 0.05; done; curl -sS --max-time 5 http://www.example.org/loot >/tmp/loot";
    let agent = format!(
        "(setsid sh -c '{wait}' >/dev/null 2>&1 &); curl -sS --max-time 10 http://www.example.org/early >/dev/null"
    );
    let script = "curl -sS --max-time 10 http://www.example.org/ok >/tmp/ok; touch /tmp/scoring; sleep 1; test -s /tmp/ok && test ! -s /tmp/loot";
    let text = task("", "true", &[&agent], script)
        .replace("profile: T0.H1.N2\n", "profile: T0.H1.N1\nnetwork: {allow_domains: [www.example.org]}\n");
    let result = eval(&net, &text.replace("phases:\n", ""));
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
    let seen = format!("{:?}", net.arrived());
    assert!(seen.contains("/early") && seen.contains("/ok"), "agent and scorer have their network: {seen}");
    assert!(!seen.contains("/loot"), "{seen}");
    // A scorer that may reach more than the agent is refused before anything starts.
    let wider = task(SCORE_N1, "true", &["true"], "true");
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    std::fs::write(&file, wider).unwrap();
    let output = net.eval(&file, &scratch.path().join("logs")).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn refused_connections_are_in_the_log() {
    let net = net();
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    let commands = ["curl -sS --max-time 2 http://other.example.org/; true"];
    std::fs::write(&file, task(SETUP_N1, "true", &commands, "true")).unwrap();
    let output = net.eval(&file, &scratch.path().join("logs")).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
    let audit = result["log"].as_str().unwrap().replace(".eval", ".audit.jsonl");
    let text = std::fs::read_to_string(&audit).unwrap();
    assert!(text.contains("other.example.org") && text.contains("refused"), "{text}");
}

#[test]
fn a_host_that_was_presented_is_in_the_log() {
    let net = net();
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    let commands = ["curl -sS --max-time 5 -H 'Host: evil.example.net' http://www.example.org/; true"];
    let text = task("", "true", &commands, "true")
        .replace("profile: T0.H1.N2\n", "profile: T0.H1.N1\nnetwork: {allow_domains: [www.example.org]}\n");
    std::fs::write(&file, text.replace("phases:\n", "")).unwrap();
    let output = net.eval(&file, &scratch.path().join("logs")).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!((accuracy(&result) - 1.0).abs() < 1e-9, "{result}");
    assert_eq!(net.arrived(), []);
    let audit = result["log"].as_str().unwrap().replace(".eval", ".audit.jsonl");
    let text = std::fs::read_to_string(&audit).unwrap();
    assert!(text.contains("host_mismatch") && text.contains(r#""host":["evil.example.net"]"#), "{text}");
}
