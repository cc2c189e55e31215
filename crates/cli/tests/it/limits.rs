//! Limits that hold: of one sample and of the whole run, in tokens, dollars, messages and time; and who answers where.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::evaluation::{calls, dump, ended, eval, events, write};
use crate::fake::{Api, Fake, KEY, Next};
use serde_json::{Value, json};

/// A task of so many samples that ask the model once.
fn asking(samples: usize, more: &str) -> String {
    let mut text = format!("name: limits\nprofile: T2.H1.N2\nscorer: includes\n{more}\ndataset:\n");
    for number in 1..=samples {
        writeln!(text, "  - {{id: s{number}, input: say yes, target: 'yes'}}").unwrap();
    }
    text
}

/// Runs a task against a server that says `yes` to everybody.
fn asked(place: &Path, task: &str, script: Vec<Next>, more: &[&str]) -> (i32, Value, String, Fake) {
    let api = Api::OpenAi;
    let path = write(place, "task.yaml", task);
    let prices = write(place, "prices.yaml", "version: 1\nmodels: {openai/test: {input: 1000000, output: 0}}\n");
    let fake = Fake::start(api, script);
    let mut command = eval(place, &[&[path.as_str(), "--model", "openai/test"], more].concat());
    command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", fake.base(api)).env("RINGFENCE_PRICES", prices);
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), result, messages, fake)
}

fn both(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn yes(count: usize) -> Vec<Next> {
    vec![Next::Reply(crate::fake::said(Api::OpenAi, "yes")); count]
}

/// What one answer of the server uses, as its log has it.
fn usage(log: &Value) -> (u64, f64) {
    let usage = &log["samples"][0]["model_usage"]["openai/test"];
    (usage["total_tokens"].as_u64().unwrap(), usage["total_cost"].as_f64().unwrap())
}

#[test]
fn a_run_over_its_limit_ends_and_what_was_under_way_is_not_scored() {
    let place = tempfile::tempdir().unwrap();
    let (code, result, messages, _) = asked(place.path(), &asking(1, ""), yes(1), &[]);
    assert_eq!(code, 0, "{messages}");
    let (tokens, cost) = usage(&dump(place.path(), result["log"].as_str().unwrap()));
    assert!(tokens > 0 && cost > 0.0);
    // Each asks twice. The third answer reaches it: one sample is whole, one is cut, and no other was begun.
    let limits = [
        ("token", "--run-token-limit", (tokens * 3).to_string()),
        ("cost", "--run-cost-limit", format!("{}", cost * 3.0)),
        ("message", "--run-message-limit", "5".to_owned()),
    ];
    for (kind, option, limit) in limits {
        let task = asking(20, "solver: [generate, generate]");
        let (code, result, messages, fake) =
            asked(place.path(), &task, yes(40), &[option, &limit, "--max-samples", "1"]);
        assert_eq!((code, result["status"].as_str()), (1, Some("error")), "{kind}: {messages}");
        let error = result["error"].as_str().unwrap();
        assert!(error.contains("the run has") && error.contains("no more samples are begun"), "{error}");
        let log = dump(place.path(), result["log"].as_str().unwrap());
        let samples = log["samples"].as_array().unwrap();
        assert_eq!((samples.len(), fake.requests().len()), (2, 3), "{kind}");
        for sample in samples {
            let cut = sample["error"].is_object();
            let event = sample["events"].as_array().unwrap().iter().find(|event| event["event"] == "sample_limit");
            assert_eq!(cut, event.is_some(), "{kind}: {sample}");
            assert_eq!(cut, sample["scores"] == json!({}), "{kind}: {sample}");
            if let Some(event) = event {
                assert_eq!((&event["type"], &sample["limit"]["type"]), (&json!(kind), &json!(kind)));
            }
        }
        assert_eq!(samples.iter().filter(|sample| sample["error"].is_null()).count(), 1, "{kind}");
        assert_eq!(log["results"]["scores"][0]["scored_samples"], 1, "{kind}");
    }
}

#[test]
fn samples_have_limits_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    // Each asks twice; the first has more than the others.
    let task = "name: own\nprofile: T2.H1.N2\nscorer: includes\nsolver: [generate, generate]\nlimits: {cost: 0.000001}\n\
        dataset:\n  - {id: a, input: say yes, target: 'yes', overrides: {limits: {cost: 1000}, generate: {temperature: 1}}}\n\
        \x20 - {id: b, input: say yes, target: 'yes'}\n";
    let (code, result, messages, fake) = asked(place.path(), task, yes(3), &["--max-samples", "1"]);
    assert_eq!(code, 0, "{messages} {result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let samples = log["samples"].as_array().unwrap();
    assert_eq!((&samples[0]["limit"], &samples[1]["limit"]["type"]), (&Value::Null, &json!("cost")));
    // One that was ended by its own limit is judged by what it came to.
    assert_eq!(samples[1]["scores"]["includes"]["value"], "C");
    let temperatures: Vec<_> = fake.requests().iter().map(|request| request["temperature"].clone()).collect();
    assert_eq!(temperatures, [json!(1.0), json!(1.0), Value::Null]);
    let (code, result, messages, _) =
        asked(place.path(), task, yes(3), &["--max-samples", "1", "--cost-limit", "0.000001"]);
    assert_eq!(code, 0, "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert!(log["samples"].as_array().unwrap().iter().all(|sample| sample["limit"]["type"] == "cost"), "{log}");
    assert_eq!(log["eval"]["config"]["cost_limit"], 0.000_001);
}

#[test]
fn a_limit_that_cannot_be_counted_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = write(place.path(), "task.yaml", &asking(1, ""));
    let fake = Fake::start(Api::OpenAi, yes(1));
    let mut command = eval(place.path(), &[&path, "--model", "openai/test", "--run-cost-limit", "1"]);
    command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", fake.base(Api::OpenAi));
    let output = command.output().unwrap();
    let said = both(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no price for openai/test") && said.contains("RINGFENCE_PRICES"), "{said}");
    assert!(fake.requests().is_empty() && !place.path().join("logs").exists());
    // A server that does not say what it used.
    let mut silent = crate::fake::said(Api::OpenAi, "yes");
    silent.as_object_mut().unwrap().remove("usage");
    let mut empty = silent.clone();
    empty["usage"] = json!({});
    let script = || vec![Next::Odd(silent.clone())];
    for reply in [silent.clone(), empty] {
        let script = vec![Next::Odd(reply)];
        let (code, result, _, _) = asked(place.path(), &asking(1, ""), script, &["--token-limit", "1000"]);
        let error = result["error"].as_str().unwrap_or_default();
        assert!(code == 1 && error.contains("does not say how many tokens it used"), "{result}");
    }
    let (code, _, messages, _) = asked(place.path(), &asking(1, ""), script(), &[]);
    assert_eq!(code, 0, "without such a limit nobody needs to know: {messages}");
}

#[test]
fn time_is_up_whatever_a_sample_does() {
    let place = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (code, result, messages, _) =
        asked(place.path(), &asking(3, ""), vec![Next::Hang; 3], &["--run-time-limit", "1"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!((code, result["status"].as_str()), (1, Some("error")), "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"].as_array().unwrap().len(), 3);
    assert!(log["samples"].as_array().unwrap().iter().all(|sample| sample["limit"]["type"] == "time"), "{log}");
    assert_eq!(log["eval"]["metadata"]["ringfence"]["run_limits"]["time"], 1);
    // A provider's repetitions are no work of the sample, so they do not end it.
    let slow = Next::Status(429, vec![("retry-after", "2".into())], json!({"error": {"message": "slow"}}));
    let script = vec![slow, Next::Reply(crate::fake::said(Api::OpenAi, "yes"))];
    let limits = ["--working-limit", "1", "--run-working-limit", "1"];
    let (code, result, messages, _) = asked(place.path(), &asking(1, ""), script, &limits);
    assert_eq!(code, 0, "{messages} {result}");
    // A tool's work is.
    let mock = calls(&[("bash", json!({"command": "sleep 60"}))]);
    let task = format!(
        "name: work\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nsolver: {{kind: agent, tools: [bash]}}\n\
        limits: {{tool_timeout: 50s}}\nscorer: includes\ndataset: [{{input: work, target: done}}]\n{mock}"
    );
    let path = write(place.path(), "work.yaml", &task);
    let start = Instant::now();
    let (code, result, messages) = ended(place.path(), &[&path, "--working-limit", "2"]);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(code, 0, "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"][0]["limit"], json!({"type": "working", "limit": 2.0}), "{}", log["samples"][0]["error"]);
    assert_eq!(events(&log, "sample_limit").len(), 1);
}

#[test]
fn a_sample_may_be_answered_by_another_unless_the_command_says_who_answers() {
    let place = tempfile::tempdir().unwrap();
    let task = "name: who\nprofile: T2.H1.N2\nscorer: includes\nmodel: mock/scripted\nmock: [scripted]\ndataset:\n\
        \x20 - {id: a, input: hello, target: scripted}\n  - {id: b, input: hello, target: hello, overrides: {model: mock/echo}}\n";
    let path = write(place.path(), "task.yaml", task);
    let accuracy = |result: &Value| result["results"]["scores"][0]["metrics"]["accuracy"]["value"].as_f64();
    let (code, result, messages) = ended(place.path(), &[&path]);
    assert_eq!((code, accuracy(&result)), (0, Some(1.0)), "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["stats"]["model_usage"].as_object().unwrap().len(), 2);
    let (_, result, _) = ended(place.path(), &[&path, "--model", "mock/echo"]);
    assert_eq!(accuracy(&result), Some(0.5), "{result}");
    // Everybody who may be asked must be there before anybody is.
    let path = write(place.path(), "task.yaml", &task.replace("mock/echo", "openai/absent"));
    let output = eval(place.path(), &[&path]).env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").output();
    let said = both(&output.unwrap());
    assert!(said.contains("needs a key"), "{said}");
    let output = eval(place.path(), &[&path, "--model-role", "agent=mock/echo"]).output().unwrap();
    assert!(output.status.code() == Some(2) && both(&output).contains("--model"), "{}", both(&output));
}

#[test]
fn the_run_s_time_ends_setup_and_judging_too() {
    let place = tempfile::tempdir().unwrap();
    let head = "name: slow\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nmock: ['yes']\nsolver: generate\n";
    let setup = format!("{head}scorer: includes\ndataset: [{{input: q, target: 'yes', setup: sleep 60}}]\n");
    let script = format!(
        "{head}scorer: {{kind: script, script: sleep 60, timeout: 90s}}\ndataset: [{{input: q, target: 'yes'}}]\n"
    );
    for (name, task) in [("setup", setup), ("script", script)] {
        let path = write(place.path(), "task.yaml", &task);
        let start = Instant::now();
        let (code, result, messages) = ended(place.path(), &[&path, "--run-time-limit", "3"]);
        assert!(start.elapsed() < Duration::from_secs(40), "{name}: {:?}", start.elapsed());
        assert_eq!((code, result["status"].as_str()), (1, Some("error")), "{name}: {messages}");
        let log = dump(place.path(), result["log"].as_str().unwrap());
        assert_eq!(log["samples"][0]["limit"]["type"], "time", "{name}: {}", log["samples"][0]["error"]);
        assert_eq!(log["samples"][0]["scores"], json!({}), "{name}");
        assert_eq!(events(&log, "sample_limit").len(), 1, "{name}");
    }
    // Whoever judges has the sample's own time, and no more.
    let grader = Fake::start(Api::OpenAi, vec![Next::Hang; 2]);
    let task = "name: graded\nprofile: T2.H1.N2\nmock: ['yes']\nlimits: {time: 3s}\nscorer: model_graded_qa\n\
        model_roles: {grader: openai/g}\ndataset: [{input: q, target: 'yes'}]\n";
    let path = write(place.path(), "task.yaml", task);
    let mut command = eval(place.path(), &[&path]);
    command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", grader.base(Api::OpenAi));
    let start = Instant::now();
    let output = command.output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert!(both(&output).contains("judging the sample took longer than its 3 s"), "{}", both(&output));
}

#[test]
fn attempts_at_a_sample_share_its_limits() {
    let place = tempfile::tempdir().unwrap();
    let refusal = Next::Status(400, Vec::new(), json!({"error": {"message": "no"}}));
    let script: Vec<Next> = (0..20).flat_map(|_| [yes(1).remove(0), refusal.clone()]).collect();
    let task = asking(1, "solver: [generate, generate]");
    let (_, result, _, _) = asked(place.path(), &asking(1, ""), yes(1), &[]);
    let (tokens, _) = usage(&dump(place.path(), result["log"].as_str().unwrap()));
    let limit = (tokens * 3).to_string();
    let options = ["--retry-on-error", "10", "--token-limit", &limit];
    let (code, result, messages, fake) = asked(place.path(), &task, script, &options);
    assert_eq!(code, 0, "{messages} {result}");
    // Each attempt has one answer and one refusal, and the third has no question left after its answer.
    assert_eq!(fake.requests().len(), 5, "{result}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let sample = &log["samples"][0];
    assert_eq!(
        (&sample["limit"]["type"], &sample["error_retries"][1]["message"].is_string()),
        (&json!("token"), &true)
    );
}

#[test]
fn an_answer_that_wants_too_much_at_once_is_not_obeyed() {
    let place = tempfile::tempdir().unwrap();
    let api = Api::OpenAi;
    let many = |count: usize| {
        let ids: Vec<String> = (0..count).map(|number| format!("c{number}")).collect();
        let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "bash", json!({"command": "touch /tmp/x"}))).collect();
        vec![Next::Reply(crate::fake::called(api, &calls))]
    };
    let task = "name: many\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nscorer: includes\n\
        solver: {kind: agent, tools: [bash]}\ndataset: [{input: q, target: done}]\n";
    let (code, result, messages, _) = asked(place.path(), task, many(100), &["--message-limit", "5"]);
    assert_eq!(code, 0, "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!((&log["samples"][0]["limit"]["type"], events(&log, "tool").len()), (&json!("message"), 0));
    // Too many calls, and so many that the reply is not read to its end.
    for (count, why) in [(2_000, "2000 calls at once"), (60_000, "too many values")] {
        let start = Instant::now();
        let (code, result, _, _) = asked(place.path(), task, many(count), &[]);
        assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
        assert!(code == 1 && result["error"].as_str().unwrap().contains(why), "{result}");
    }
}
