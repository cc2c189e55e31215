//! `sandbox: docker` in tasks: phases share a container, and nothing of one lives on in the next.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::evaluation::{dump, ended, write};
use crate::daemon::{DEBIAN, alone, docker, exec_to_the_end};

#[test]
fn a_phase_leaves_no_process_behind() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let task = format!(
        r#"
name: phases
profile: T0.H1.N2
sandbox: docker
image: {DEBIAN}
approval: ci
tools: [bash, submit]
model: mock/scripted
solver: {{kind: agent, max_steps: 10}}
scorer:
  - kind: script
    script: 'test -e /srv/of-agent && ! pgrep -f "sleep 4[0-9]*1" && ! pgrep -f "sleep 5[0-9]*1"'
dataset:
  - id: one
    input: Go on.
    target: done
    setup: '(setsid sleep 4321 >/dev/null 2>&1 &); echo x > /srv/of-setup'
    mock:
      - {{tool_calls: [{{name: bash, arguments: {{command: 'cat /srv/of-setup; pgrep -fc "sleep 4[0-9]*1"; (setsid sleep 5321 >/dev/null 2>&1 &); touch /srv/of-agent'}}}}]}}
      - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}
"#
    );
    let path = write(place.path(), "phases.yaml", &task);
    let (code, result, err) = ended(place.path(), &[&path]);
    assert_eq!(code, 0, "{err} {result}");
    let log = dump(place.path(), result["log"].as_str().or(result["logs"][0].as_str()).unwrap());
    let sample = &log["samples"][0];
    let said = sample["messages"].to_string();
    assert!(said.contains("x\\n0"), "what setup started is gone: {said}");
    let begun = |event: &&Value| event["data"]["kind"] == "sandbox" && event["data"]["action"] == "start";
    let name = sample["events"].as_array().unwrap().iter().find(begun).map(|event| event["data"]["name"].clone());
    assert!(name.as_ref().and_then(Value::as_str).is_some_and(|name| name.starts_with("ringfence-")), "{name:?}");
    assert!(sample["scores"].to_string().contains("\"C\""), "{}", sample["scores"]);
}

/// A task of one sample in a container.
fn judged(command: &str, answer: &str, script: &str) -> (i32, Value, String) {
    let place = tempfile::tempdir().unwrap();
    let calls = serde_json::json!([
        {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
        {"tool_calls": [{"name": "submit", "arguments": {"answer": answer}}]},
    ]);
    let scorer = serde_json::json!({"kind": "script", "script": script, "timeout": 10});
    let task = format!(
        "name: judged\nprofile: T0.H1.N2\nsandbox: docker\nimage: {DEBIAN}\napproval: ci\ntools: [bash, submit]\n\
         model: mock/scripted\nsolver: {{kind: agent, max_steps: 5}}\nscorer: {scorer}\n\
         dataset: [{{id: one, input: Go on., target: done, mock: {calls}}}]\n"
    );
    let path = write(place.path(), "task.yaml", &task);
    let (code, result, err) = ended(place.path(), &[&path]);
    let log = result["log"].as_str().map(|log| dump(place.path(), log)).unwrap_or_default();
    (code, log["samples"][0]["scores"]["script"].clone(), err)
}

#[test]
fn the_scorers_home_and_working_directory_are_not_the_agents() {
    let _alone = alone();
    // In every home that a scorer had or could have, and in the directory that it worked in.
    let plant = "for home in /nonexistent /root /; do mkdir -p $home; echo 'exit 0' | tee $home/.profile > $home/.bash_profile; \
                 echo 'exit 0' > $home/script; done";
    let script =
        "bash -lc 'exit 1' && exit 0; test -z \"$(ls -A . \"$HOME\" \"$TMPDIR\" | grep -v : )\" || exit 0; . ./script";
    let (code, score, err) = judged(plant, "done", script);
    assert_eq!((code, score["value"].as_str()), (0, Some("I")), "{err} {score}");
}

#[test]
fn what_the_agent_makes_impossible_to_judge_is_wrong_and_counts() {
    let _alone = alone();
    for (command, answer, script, reason) in [
        ("mkfifo /srv/answer", "done", "cat /srv/answer", Some("scorer_timeout")),
        ("true", "do\0ne", "test \"$ANSWER\" = done", None),
        // The last that it runs: nothing is left to run another program with.
        ("rm -rf /bin/sh /usr/bin/sh /bin/dash /usr/bin/dash", "done", "true", Some("scorer_blocked")),
    ] {
        let (code, score, err) = judged(command, answer, script);
        assert_eq!(
            (code, score["value"].as_str(), score["reason"].as_str()),
            (0, Some("I"), reason),
            "{command}: {err}"
        );
    }
}

#[test]
fn forty_sandboxes_at_the_same_time_at_n1() {
    let _alone = alone();
    let count: usize = std::env::var("RINGFENCE_CONCURRENT").map_or(40, |count| count.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let mut task = format!(
        r"
name: many
profile: T0.H1.N1
sandbox: docker
image: {DEBIAN}
approval: ci
network: {{allow_domains: [example.org]}}
limits: {{memory: 64MiB, pids: 64, time: 20m, tool_timeout: 15m}}
tools: [bash, submit]
model: mock/scripted
solver: {{kind: agent, max_steps: 10}}
scorer: includes
dataset:
"
    );
    for number in 0..count {
        // Each waits for a file that nobody gets before all are there.
        writeln!(
            task,
            "  - id: s{number}\n    input: Go on.\n    target: done\n    mock:\n      - {{tool_calls: [{{name: bash, arguments: {{command: 'curl -s -m 5 http://192.0.2.1/ || echo refused; for n in $(seq 900); do [ -e /go ] && exit; sleep 1; done'}}}}]}}\n      - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}"
        )
        .unwrap();
    }
    let path = write(place.path(), "many.yaml", &task);
    let most = count.to_string();
    let arguments = [path.as_str(), "--max-samples", &most, "--max-sandboxes", &most, "--dns-upstream", "127.0.0.1:9"];
    let ((code, result, err), most) = std::thread::scope(|scope| {
        let released = scope.spawn(|| release(count));
        (ended(place.path(), &arguments), released.join().unwrap())
    });
    assert_eq!(code, 0, "{err} {result}");
    assert_eq!(most, count, "so many at the same time");
    let log = dump(place.path(), result["log"].as_str().or(result["logs"][0].as_str()).unwrap());
    let samples = log["samples"].as_array().unwrap();
    assert_eq!(samples.len(), count);
    let refused = |sample: &&Value| sample["messages"].to_string().contains("refused");
    assert_eq!(samples.iter().filter(refused).count(), count);
    crate::daemon::gone(Duration::from_mins(1));
}

/// Waits, at most four minutes, until so many of ours run, and lets them go on, a few at a time; returns how many ran.
fn release(count: usize) -> usize {
    let deadline = Instant::now() + Duration::from_mins(4);
    let mut running = Vec::new();
    while running.len() < count && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(200));
        running = docker(&["ps", "--quiet", "--filter", "label=ringfence.run"]).lines().map(str::to_owned).collect();
    }
    std::thread::scope(|scope| {
        for some in running.chunks(running.len().div_ceil(4).max(1)) {
            scope.spawn(move || {
                for container in some {
                    exec_to_the_end(container, &["touch", "/go"]);
                }
            });
        }
    });
    running.len()
}
