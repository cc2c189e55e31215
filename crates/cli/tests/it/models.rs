//! Evaluations with models that are elsewhere: a strict server on this machine, tools called in a real sandbox, and keys
//! that are nowhere to be found afterwards.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod provider_tools;

use std::path::Path;
use std::process::Command;

use crate::common::evaluation::{dump, eval, write};
use crate::fake::{Api, Fake, KEY, Next};
use serde_json::{Value, json};

const TASK: &str = "name: remote\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\n\
    generate: {temperature: 0, max_tokens: 500, seed: 7, max_retries: 2}\n\
    dataset: [{id: one, input: What is six times seven?, target: '42'}]\nsolver: {kind: agent, tools: [bash]}\nscorer: includes\n";

/// The command with a server to ask.
fn with(command: &mut Command, api: Api, fake: &Fake) {
    let (key, base) = api.variables();
    command.env(key, KEY).env(base, fake.base(api));
}

fn run(place: &Path, api: Api, fake: &Fake, task: &str, more: &[&str]) -> (i32, Value, String) {
    let path = write(place, "task.yaml", task);
    let name = format!("{}/test", api.name());
    let mut command = eval(place, &[&[path.as_str(), "--model", &name], more].concat());
    with(&mut command, api, fake);
    let output = command.output().unwrap();
    let (said, messages) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for text in [&said, &messages] {
        assert!(!text.contains(KEY), "{text}");
    }
    (output.status.code().unwrap(), serde_json::from_str(&said).unwrap_or(Value::Null), messages.into_owned())
}

/// Copies logs to where the lane `inspect` looks at them.
fn keep(directory: &Path) {
    let Some(place) = std::env::var_os("RINGFENCE_MODEL_LOGS") else { return };
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, Path::new(&place).join(path.file_name().unwrap())).unwrap();
    }
}

fn model_events(log: &Value) -> Vec<&Value> {
    log["samples"][0]["events"].as_array().unwrap().iter().filter(|event| event["event"] == "model").collect()
}

/// What is on both streams.
fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Everything below a directory, unpacked as far as it is packed.
fn assert_without_key(directory: &Path) {
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        files += 1;
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{}", path.display());
        for at in 0..bytes.len().saturating_sub(4) {
            if bytes[at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
                let mut text = Vec::new();
                let mut decoder = zstd::stream::read::Decoder::with_buffer(&bytes[at..]).unwrap().single_frame();
                if std::io::Read::read_to_end(&mut decoder, &mut text).is_ok() {
                    assert!(!String::from_utf8_lossy(&text).contains(KEY), "{}", path.display());
                }
            }
        }
    }
    assert!(files >= 2, "a log and its audit chain");
}

#[test]
fn a_model_elsewhere_solves_a_task_with_real_tools() {
    for api in Api::ALL {
        let place = tempfile::tempdir().unwrap();
        // The agent prints its environment, in which no key is, and is told by a server that cannot keep one to itself.
        let commands = [
            (
                "call_1",
                "bash",
                json!({"command": "echo $((6 * 7)); env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"}),
            ),
            ("call_2", "bash", json!({"command": "echo two"})),
        ];
        let script = [
            Next::Status(429, vec![("retry-after", "0".into())], json!({"error": {"message": format!("slow, {KEY}")}})),
            Next::Reply(crate::fake::thought(api, "", &commands)),
            Next::Reply(crate::fake::called(api, &[("call_3", "submit", json!({"answer": format!("42 {KEY}")}))])),
        ];
        let fake = Fake::start(api, script);
        let (code, result, messages) = run(place.path(), api, &fake, TASK, &[]);
        assert_eq!(code, 0, "{api:?}: {messages} {result} {:?}", fake.complaints());
        assert_eq!(result["results"]["scores"][0]["metrics"]["accuracy"]["value"], 1.0);
        let requests = fake.requests();
        assert_eq!(requests.len(), 3, "{api:?}");
        let last = requests[2].to_string();
        assert!(last.contains("42\\n") || last.contains("42\\\\n"), "{last}");
        assert!(last.contains("two"), "{last}");
        assert_without_key(&place.path().join("logs"));
        keep(&place.path().join("logs"));
        let log = dump(place.path(), result["log"].as_str().unwrap());
        let spec = &log["eval"];
        assert_eq!(spec["model"], format!("{}/test", api.name()));
        assert_eq!(
            spec["model_generate_config"],
            json!({"temperature": 0.0, "max_tokens": 500, "seed": 7, "max_retries": 2})
        );
        assert!(spec["model_base_url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
        let usage = &log["stats"]["model_usage"][format!("{}/test", api.name())];
        assert_eq!(usage["total_tokens"], 74, "{usage}");
        assert_eq!(usage["reasoning_tokens"], 8);
        assert_eq!(usage["input_tokens_cache_read"], if api == Api::Anthropic { 30 } else { 40 });
        let sample = &log["samples"][0];
        let asked: Vec<&Value> = model_events(&log);
        assert_eq!((asked.len(), &asked[0]["retries"], &asked[1]["retries"]), (2, &json!(1), &Value::Null));
        let parts = sample["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
        assert!(parts.flatten().any(|part| part["type"] == "reasoning"), "{api:?}: the thought is in the log");
        let unsent = spec["metadata"]["ringfence"]["model"]["unsent"].as_array().unwrap();
        assert_eq!(!unsent.is_empty(), messages.contains("does not take seed"), "{messages}");
    }
}

#[test]
fn a_missing_key_is_said_before_anything_starts() {
    for api in Api::ALL {
        let place = tempfile::tempdir().unwrap();
        let path = write(place.path(), "task.yaml", TASK);
        let name = format!("{}/test", api.name());
        let (key, base) = api.variables();
        let output = eval(place.path(), &[&path, "--model", &name]).env_remove(key).env_remove(base).output().unwrap();
        let messages = said(&output);
        assert_eq!(output.status.code(), Some(2), "{messages}");
        assert!(messages.contains("needs a key") && messages.contains(key), "{messages}");
        assert!(!place.path().join("logs").exists());
    }
}

#[test]
fn keys_from_a_keyring_are_in_no_log_and_others_may_not_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let keyring = place.path().join("keys");
    std::fs::write(&keyring, format!("OPENAI_API_KEY={KEY}\n")).unwrap();
    let api = Api::OpenAi;
    for (mode, expected) in [(0o644, 2), (0o600, 0)] {
        std::fs::set_permissions(&keyring, std::fs::Permissions::from_mode(mode)).unwrap();
        let fake =
            Fake::start(api, [Next::Reply(crate::fake::called(api, &[("c", "submit", json!({"answer": KEY}))]))]);
        let path = write(place.path(), "task.yaml", TASK);
        let mut command = eval(place.path(), &[&path, "--model", "openai/test"]);
        command.env_remove("OPENAI_API_KEY").env("OPENAI_BASE_URL", fake.base(api)).env("RINGFENCE_KEYRING", &keyring);
        let output = command.output().unwrap();
        let messages = said(&output);
        assert_eq!(output.status.code(), Some(expected), "{messages} {:?}", fake.complaints());
        assert!(!messages.contains(KEY));
        assert_eq!(messages.contains("chmod 600"), expected == 2, "{messages}");
    }
    assert_without_key(&place.path().join("logs"));
}

#[test]
fn what_a_provider_refuses_is_said_and_logged_without_the_key() {
    let api = Api::Anthropic;
    let place = tempfile::tempdir().unwrap();
    let told = json!({"type": "error", "error": {"type": "authentication_error", "message": format!("bad {KEY}")}});
    let fake = Fake::start(api, [Next::Status(401, Vec::new(), told)]);
    let (code, result, _) = run(place.path(), api, &fake, TASK, &[]);
    assert_eq!(code, 1, "{result}");
    let error = result["error"].as_str().unwrap();
    assert!(error.contains("does not accept the key") && error.contains("ANTHROPIC_API_KEY"), "{error}");
    assert_without_key(&place.path().join("logs"));
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert!(model_events(&log)[0]["error"].as_str().unwrap().contains("bad [REDACTED]"), "{log}");
    // A conversation that is too long ends like any other limit: what there is is scored.
    let told =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}});
    let fake = Fake::start(api, [Next::Status(400, Vec::new(), told)]);
    let (code, result, messages) = run(place.path(), api, &fake, TASK, &[]);
    assert_eq!(code, 0, "{result} {messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    assert_eq!(log["samples"][0]["limit"]["type"], "context");
}

#[test]
fn waiting_for_a_provider_is_not_working_time() {
    let api = Api::OpenAi;
    let place = tempfile::tempdir().unwrap();
    let slow = || Next::Status(429, vec![("retry-after", "1".into())], json!({"error": {"message": "slow"}}));
    let fake = Fake::start(api, [slow(), Next::Reply(crate::fake::said(api, "42"))]);
    let task = "name: wait\nprofile: T2.H1.N2\ndataset: [{input: q, target: '42'}]\nscorer: includes\n";
    let (code, result, messages) = run(place.path(), api, &fake, task, &[]);
    assert_eq!(code, 0, "{messages}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let time = |name: &str| log["samples"][0][name].as_f64().unwrap();
    assert!(time("total_time") >= 1.0 && time("total_time") - time("working_time") >= 1.0, "{}", log["samples"][0]);
}

#[test]
fn images_prices_and_kept_answers() {
    let api = Api::Anthropic;
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("dot.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
    let prices =
        write(place.path(), "prices.yaml", "version: 1\nmodels: {anthropic/test: {input: 1000000, output: 0}}\n");
    let task = "name: see\nprofile: T2.H1.N2\ngenerate: {cache: true}\nscorer: includes\n\
        dataset: [{input: [{role: user, content: [{text: What is this?}, {image: dot.png}]}], target: dot}]\n";
    let path = write(place.path(), "task.yaml", task);
    let fake = Fake::start(api, [Next::Reply(crate::fake::said(api, "a dot"))]);
    // The server has one answer; the second evaluation finds it again.
    for cost in [30.0, 0.0] {
        let mut command = eval(place.path(), &[&path, "--model", "anthropic/test"]);
        with(&mut command, api, &fake);
        command.env("RINGFENCE_PRICES", &prices).env("RINGFENCE_MODEL_CACHE", place.path().join("answers"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let log = dump(place.path(), result["log"].as_str().unwrap());
        assert_eq!(log["stats"]["model_usage"]["anthropic/test"]["total_cost"], cost);
        assert_eq!(model_events(&log)[0]["cache"] == "read", cost == 0.0);
        let image = &log["samples"][0]["messages"][0]["content"][1];
        assert!(image["image"].as_str().unwrap().starts_with("data:image/png;base64,iVBORw0KGgo"), "{image}");
    }
    assert_eq!(fake.requests().len(), 1);
    assert_eq!(fake.requests()[0]["messages"][0]["content"][1]["source"]["media_type"], "image/png");
    assert_without_key(&place.path().join("logs"));
    keep(&place.path().join("logs"));
}

#[test]
fn no_key_is_in_an_explanation_of_settings() {
    let place = tempfile::tempdir().unwrap();
    let document = format!("profile: T0.H1.N2\napproval: ci\nenvironment: {{TOKEN: {KEY}}}\n");
    let path = write(place.path(), "ringfence.yaml", &document);
    for arguments in [
        &["plan", &path, "--explain-config"][..],
        &["plan", &path],
        &["profile", "check", &path, "--explain-config"],
        &["profile", "explain", "T0.H1.N2", "--explain-config"],
        &["--json", "plan", &path, "--explain-config"],
    ] {
        let mut command = crate::common::command(place.path());
        command.args(arguments).env("OPENAI_API_KEY", KEY).env("ANTHROPIC_API_KEY", KEY).env("GOOGLE_API_KEY", KEY);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        assert!(!output.stdout.is_empty() && !said(&output).contains(KEY), "{arguments:?}: {}", said(&output));
    }
    // Neither is one in what is said about a setting that is wrong.
    let path = write(place.path(), "task.yaml", TASK);
    let mut command = eval(place.path(), &[&path, "--model", "openai/test"]);
    command.env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", format!("https://{KEY}@example.org/"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("OPENAI_BASE_URL") && !said(&output).contains(KEY), "{}", said(&output));
}
