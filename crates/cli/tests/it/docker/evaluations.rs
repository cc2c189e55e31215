//! `sandbox: docker` in tasks: nothing that a phase runs lives on in the next, and the scorer has a container of its own.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::evaluation::{dump, ended, write};
use crate::common::planted::{FILL_MEMORY, PLANT, SLOW_TO_END, TRY_ALL, works};
use crate::docker::daemon::{DEBIAN, alone, among, docker, exec_to_the_end, gone};
use crate::docker::grants::engine;

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

/// A task of one sample in a container, with more settings of the task and of the sample.
fn judged_with(commands: &[&str], answer: &str, scorer: &Value, (task, sample): (&str, &str)) -> (i32, Value, String) {
    let place = tempfile::tempdir().unwrap();
    let call = |command: &&str| json!({"tool_calls": [{"name": "bash", "arguments": {"command": command}}]});
    let mut calls: Vec<Value> = commands.iter().map(call).collect();
    calls.push(json!({"tool_calls": [{"name": "submit", "arguments": {"answer": answer}}]}));
    let task = format!(
        "name: judged\nprofile: T0.H1.N2\nsandbox: docker\nimage: {DEBIAN}\napproval: ci\ntools: [bash, submit]\n\
         model: mock/scripted\nsolver: {{kind: agent, max_steps: 50}}\nscorer: {scorer}\n{task}\
         dataset: [{{id: one, input: Go on., target: done, {sample}mock: {}}}]\n",
        json!(calls)
    );
    let path = write(place.path(), "task.yaml", &task);
    let (code, result, err) = ended(place.path(), &[&path]);
    let log = result["log"].as_str().map(|log| dump(place.path(), log)).unwrap_or_default();
    (code, log["samples"][0].clone(), format!("{err} {result}"))
}

fn judged(command: &str, answer: &str, script: &str) -> (i32, Value, String) {
    let scorer = json!({"kind": "script", "script": script, "timeout": 10});
    let (code, sample, err) = judged_with(&[command], answer, &scorer, ("", ""));
    (code, sample["scores"]["script"].clone(), err)
}

#[test]
fn nothing_that_the_scorers_interpreters_read_by_default_is_the_agents() {
    let _among = among();
    let scorer = json!({"kind": "script", "script": TRY_ALL});
    let (code, sample, err) = judged_with(&[PLANT], "done", &scorer, ("", ""));
    let score = &sample["scores"]["script"];
    assert_eq!((code, score["value"].as_str()), (0, Some("I")), "{err} {score}");
    let said = score["explanation"].as_str().unwrap();
    assert!(said.contains("; fooled:\n"), "{said} {}", sample["messages"]);
    assert!(sample["messages"].to_string().contains(&works(true)), "the attacks were made: {}", sample["messages"]);
    for name in [
        "python",
        "git-left",
        "git-fetch",
        "bash",
        "perl",
        "perl-debugger",
        "perl-prove",
        "locale",
        "locpath",
        "preload",
    ] {
        assert!(said.contains(&format!(" {name}")), "{said}");
    }
}

#[test]
fn a_shell_that_the_agent_replaced_does_not_run_the_score_script() {
    let _among = among();
    let replace = "for shell in /bin/sh /usr/bin/sh /bin/bash /bin/dash; do printf '#!/usr/bin/python3\\n' > /srv/sh; chmod 755 /srv/sh; \
                   cp /srv/sh $shell.new; mv $shell.new $shell; done; true";
    let (code, score, err) = judged(replace, "done", "exit 1");
    assert_eq!((code, score["value"].as_str()), (0, Some("I")), "{err} {score}");
    // One that is gone is there again.
    let (code, score, err) = judged("rm -rf /bin/sh /usr/bin/sh /bin/dash /usr/bin/dash", "done", "true");
    assert_eq!((code, score["value"].as_str()), (0, Some("C")), "{err} {score}");
}

/// Score scripts run the agent's code, as root of their container. What it does to programs there ends with that script.
#[test]
fn what_one_score_script_runs_decides_nothing_in_the_next() {
    let _among = among();
    let plant = "echo 'echo left > /srv/left; cp --remove-destination /usr/bin/true /usr/bin/sh' > /srv/run";
    let run = "sh /srv/run; sh -c 'exit 3' || exit 1; exit 2";
    let scorers = json!([
        {"kind": "script", "script": run},
        {"kind": "script", "script": "test \"$(cat /srv/left)\" = left; sh /srv/run; echo 0.25"},
        {"kind": "script", "script": "exit 1"},
    ]);
    let (code, sample, err) = judged_with(&[plant], "done", &scorers, ("", ""));
    assert_eq!((code, &sample["error"]), (0, &Value::Null), "{err}");
    let values: Vec<&Value> = sample["scores"].as_object().unwrap().values().map(|score| &score["value"]).collect();
    assert_eq!(values, [&json!("I"), &json!(0.25), &json!("I")], "{}", sample["scores"]);
}

/// Data is as the agent left it; programs, settings and names in `/` are as setup left them.
#[test]
fn the_scorers_container_has_the_agents_data_and_the_tasks_programs() {
    let _among = among();
    let act = "echo answer > /srv/answer; rm /srv/given; echo evil > /usr/local/lib/check; echo evil > /etc/of-setup; echo evil > /etc/of-agent; \
               rm -r /usr/local/bin; echo evil > /json.py; mkdir -p /node_modules /job; echo x > /node_modules/x; echo kept > /job/result; \
               printf 'deep' > '/srv/a b'; ln -s /etc/passwd /srv/link; chmod 700 /srv";
    let script = "sh /usr/local/lib/check; test \"$(cat /etc/of-setup)\" = setup; test ! -e /etc/of-agent; test -x /usr/local/bin/tool; \
                  test \"$(cat /srv/answer /job/result)\" = \"$(printf 'answer\\nkept')\"; test ! -e /srv/given; test ! -e /json.py; \
                  test ! -e /node_modules; test \"$(cat '/srv/a b')\" = deep; test \"$(readlink /srv/link)\" = /etc/passwd; \
                  test \"$(stat -c %a /srv)\" = 700; test -e /made-by-setup/x";
    let sample = "files: {/usr/local/lib/check: 'test -e /srv/answer', /srv/given: x, /job/task: task}, \
                  setup: 'echo setup > /etc/of-setup; cp /bin/true /usr/local/bin/tool; mkdir /made-by-setup; echo x > /made-by-setup/x', ";
    let scorers = json!([{"kind": "script", "script": script}, {"kind": "script", "script": "test -e /job/result"}]);
    let (code, ended, err) = judged_with(&[act], "done", &scorers, ("", sample));
    assert_eq!(code, 0, "{err}");
    for (name, score) in ended["scores"].as_object().unwrap() {
        assert_eq!(score["value"], "C", "{name}: {score} {}", ended["messages"]);
    }
    assert_eq!(ended["scores"].as_object().unwrap().len(), 2);
}

#[test]
fn a_process_that_the_kernel_takes_long_to_end_counts_as_wrong() {
    // The daemon is slow for all while it ends that container.
    let _alone = alone();
    let slow = SLOW_TO_END.replace("DIRECTORY", "/srv");
    for scorer in [json!({"kind": "script", "script": "exit 1"}), json!("includes")] {
        let (code, sample, err) = judged_with(&[&slow], "wrong", &scorer, ("", ""));
        assert_eq!((code, &sample["error"]), (0, &Value::Null), "{err}");
        let scores = sample["scores"].as_object().unwrap();
        assert!(scores.values().all(|score| score["value"] == "I") && scores.len() == 1, "{scores:?}");
    }
    gone(Duration::from_mins(5));
}

#[test]
fn an_agent_that_has_its_guest_killed_for_memory_counts_as_wrong() {
    let _among = among();
    // Memory that outlives processes: then the guest is the only one that the kernel can kill.
    let fill = "dd if=/dev/zero of=/dev/shm/full bs=4096 2>/dev/null; true";
    let commands: Vec<&str> = (0..40).map(|turn| if turn % 2 == 0 { fill } else { "ls /" }).collect();
    let scorer = json!({"kind": "script", "script": "true"});
    let limits = ("limits: {memory: 32MiB}\n", "");
    let was_killed = (0..5).any(|_| {
        let (code, sample, err) = judged_with(&commands, "done", &scorer, limits);
        assert_eq!((code, &sample["error"]), (0, &Value::Null), "{err}");
        let was_killed = sample["limit"]["type"] == "custom";
        if was_killed {
            let score = &sample["scores"]["script"];
            assert_eq!((&score["value"], &score["reason"]), (&json!("I"), &json!("scorer_blocked")), "{score}");
        }
        was_killed
    });
    assert!(was_killed, "in none of five runs");
}

#[test]
fn a_score_script_that_has_its_guest_killed_for_memory_counts_as_wrong() {
    let _among = among();
    let plant = format!("cat > /srv/run <<'END'\n{}\nEND\n", FILL_MEMORY.replace("DIRECTORY", "/dev/shm"));
    let script = json!({"kind": "script", "script": "sh /srv/run; exit 1", "timeout": 10});
    let was_killed = (0..5).any(|_| {
        let limits = ("limits: {memory: 32MiB}\n", "");
        let (code, sample, err) = judged_with(&[&plant], "done", &json!([script, script]), limits);
        assert_eq!((code, &sample["error"]), (0, &Value::Null), "{err}");
        let scores = sample["scores"].as_object().unwrap();
        assert!(scores.len() == 2 && scores.values().all(|score| score["value"] == "I"), "{scores:?}");
        let explains = |score: &Value| score["explanation"].to_string().contains("its guest was killed");
        scores.values().any(|score| explains(score) && score["reason"].as_str().unwrap().starts_with("scorer_"))
    });
    assert!(was_killed, "in none of five runs");
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
    let _among = among();
    crate::scorer::impossible_to_judge(&engine(), 10);
    // Deeper than any tree that is carried to the scorer.
    let dig = "cd /srv; python3 -c 'import os\nfor _ in range(600): os.mkdir(\"d\"); os.chdir(\"d\")'";
    let (code, score, err) = judged(dig, "done", "true");
    assert_eq!(
        (code, score["value"].as_str(), score["reason"].as_str()),
        (0, Some("I"), Some("scorer_blocked")),
        "{err}"
    );
}

#[test]
fn what_appears_in_a_writable_mount_counts_as_wrong() {
    let _among = among();
    crate::scorer::too_deep_in_a_mount(&engine());
    crate::scorer::host_socket_in_a_mount(&engine());
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
    gone(Duration::from_mins(1));
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
