//! Replies of model servers.

use std::path::Path;

use crate::common::evaluation::{dump, eval, events, write};
use crate::fake::{Api, Fake, KEY, Next};
use crate::memory::limited::{ALLOWED, Ended, watched};

const TASK: &str = "name: remote\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\n\
    generate: {max_retries: 0}\n\
    dataset: [{id: one, input: What is six times seven?, target: '42'}]\nsolver: {kind: agent, tools: [bash]}\nscorer: includes\n";

/// Runs an evaluation against a server that says this; its end, and its peak memory.
fn answered(api: Api, script: Vec<Next>) -> (Ended, u64) {
    answered_in(tempfile::tempdir().unwrap().path(), api, script)
}

/// The same in this directory.
fn answered_in(place: &Path, api: Api, script: Vec<Next>) -> (Ended, u64) {
    let fake = Fake::start(api, script);
    let path = write(place, "task.yaml", TASK);
    let mut command = eval(place, &[&path, "--model", &format!("{}/test", api.name())]);
    let (key, base) = api.variables();
    command.env(key, KEY).env(base, fake.base(api));
    watched(&mut command)
}

#[test]
fn a_reply_of_millions_of_values_is_an_error_of_its_sample() {
    let (_, usual) = answered(Api::OpenAi, vec![Next::Body(b"{}".to_vec())]);
    let body =
        |part: &str, length: usize| format!("{{\"choices\":[{}0]}}", part.repeat(length / part.len())).into_bytes();
    let refusal = serde_json::json!({"error": {"message": "x".repeat(31 << 20)}});
    for (name, next, why) in [
        ("31 MiB of objects", Next::Body(body("{\"\":0},", 31 << 20)), "longer than"),
        ("15 MiB of objects", Next::Body(body("{\"\":0},", 15 << 20)), "too many values"),
        ("15 MiB of lists", Next::Body(body("[],", 15 << 20)), "too many values"),
        ("a long refusal", Next::Status(400, Vec::new(), refusal), "400"),
    ] {
        let ((_, out, messages), most) = answered(Api::OpenAi, vec![next]);
        assert!(format!("{out}{messages}").contains(why), "{name}: {out}{messages}");
        assert!(most < usual + ALLOWED, "{name}: {} MiB of {} MiB", most >> 20, usual >> 20);
    }
}

#[test]
fn arguments_of_calls_that_hold_millions_of_values_are_not_read() {
    let (_, usual) = answered(Api::OpenAi, vec![Next::Body(b"{}".to_vec())]);
    let text = format!("{{\"cmd\":[{}0]}}", "[],".repeat(1 << 20));
    let call = |id: usize| serde_json::json!({"id": format!("c{id}"), "type": "function", "function": {"name": "bash", "arguments": text}});
    let calls: Vec<_> = (0..4).map(call).collect();
    let message = serde_json::json!({"role": "assistant", "content": null, "tool_calls": calls});
    let reply = serde_json::json!({"id": "r", "object": "chat.completion", "created": 1, "model": "test",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": null}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    let submit = crate::fake::called(Api::OpenAi, &[("s", "submit", serde_json::json!({"answer": "42"}))]);
    let place = tempfile::tempdir().unwrap();
    let script = vec![Next::Odd(reply), Next::Reply(submit)];
    let ((code, out, messages), most) = answered_in(place.path(), Api::OpenAi, script);
    assert!(most < usual + ALLOWED, "{} MiB of {} MiB: {out}{messages}", most >> 20, usual >> 20);
    // Each call is answered with an error, and the sample goes on.
    let result: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &result["status"], &result["failed"]), (Some(0), &"success".into(), &0.into()), "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let tools = events(&log, "tool");
    let errors = tools.iter().filter(|event| event["function"] == "bash").map(|event| &event["error"]);
    let errors: Vec<_> = errors.collect();
    assert_eq!(errors.len(), 4);
    for error in errors {
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["type"], "parsing");
        assert!(message.starts_with("the arguments are not a JSON object (too many values"), "{message}");
    }
    assert_eq!((&log["status"], &log["samples"][0]["scores"]["includes"]["value"]), (&"success".into(), &"C".into()));
}
