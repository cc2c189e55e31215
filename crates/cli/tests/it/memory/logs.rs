//! Logs of others.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::evaluation::{ended, write as write_file};
use crate::memory::limited::{ALLOWED, baseline, under, within};
use crate::memory::zips::{Entry, entry, wide, zip};

const LARGE: usize = 60 << 20;

fn header(metadata: &str) -> Vec<u8> {
    format!(r#"{{"version":2,"status":"success","eval":{{"task":"bomb","metadata":{metadata}}}}}"#).into_bytes()
}

fn many(part: &str, bytes: usize) -> String {
    format!("[{}0]", part.repeat(bytes / part.len()))
}

fn write(place: &Path, name: &str, entries: &[Entry], times: usize) -> u64 {
    let bytes = zip(entries, times);
    std::fs::create_dir_all(place.join("logs")).unwrap();
    std::fs::write(place.join("logs").join(name), &bytes).unwrap();
    bytes.len() as u64
}

fn innocent(place: &Path) {
    let text = br#"{"version":2,"status":"success","eval":{"task":"innocent"}}"#;
    std::fs::create_dir_all(place.join("innocent")).unwrap();
    let zip = zip(&[entry("header.json", text), entry("summaries.json", br#"[{"id":1,"epoch":1}]"#)], 1);
    for directory in ["innocent", "logs"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
        std::fs::write(place.join(directory).join("innocent.eval"), &zip).unwrap();
    }
}

#[test]
fn small_logs_of_millions_of_values_are_bad_lines_of_a_list() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    innocent(place);
    for (name, part) in [("a-objects.eval", "{\"\":0},"), ("b-lists.eval", "[[]],"), ("c-texts.eval", "\"\",")] {
        let length = write(place, name, &[entry("header.json", &header(&many(part, LARGE)))], 1);
        assert!(length < 1 << 20, "{name} has {length} bytes");
    }
    write(place, "d-text.eval", &[entry("header.json", &header(&format!("\"{}\"", "x".repeat(LARGE))))], 1);
    write(place, "e-window.eval", &[wide("header.json", &header("0"))], 1);
    write(place, "f-overlap.eval", &[entry("header.json", &header("0"))], 1000);
    let document = header(&many("{\"\":0},", 7 << 20));
    std::fs::write(place.join("logs/g-document.json"), document).unwrap();
    std::fs::write(place.join("logs/z-empty.eval"), "").unwrap();
    let (code, out, messages) = within(place, (&["log", "list", "innocent"], 0), &["log", "list", "logs"], ALLOWED);
    assert_eq!(code, Some(0), "{out}{messages}");
    assert!(out.contains("innocent"), "{out}");
    assert_eq!(out.matches("unreadable").count(), 8, "{out}");
    for (log, why) in [
        ("a-objects.eval", "too many values"),
        ("b-lists.eval", "too many values"),
        ("c-texts.eval", "too many values"),
        ("d-text.eval", "in one piece"),
        ("e-window.eval", "too much memory"),
        ("f-overlap.eval", "overlap"),
        ("g-document.json", "too many values"),
        ("z-empty.eval", "not a log"),
    ] {
        let line = messages.lines().find(|line| line.contains(log)).unwrap_or_default();
        assert!(line.contains(why), "{log}: {line:?} of {messages}");
    }
    let all = ["--json", "log", "list", "logs"];
    let (code, out, messages) = within(place, (&["--json", "log", "list", "innocent"], 0), &all, ALLOWED);
    assert_eq!(code, Some(0), "{out}{messages}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    let logs = listed["logs"].as_array().unwrap();
    assert_eq!(logs.iter().filter(|log| log["error"].is_string()).count(), 8, "{out}");
    assert_eq!(logs.iter().filter(|log| log["header"]["eval"]["task"] == "innocent").count(), 1, "{out}");
}

#[test]
fn summaries_without_end_are_refused_and_many_are_shown() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    innocent(place);
    let summaries = |count: usize, more: &str| {
        let all: Vec<String> = (0..count).map(|id| format!(r#"{{"id":{id},"epoch":1{more}}}"#)).collect();
        format!("[{}]", all.join(",")).into_bytes()
    };
    let show = |log: &str| {
        let (plain, json) = (["log", "show", log], ["--json", "log", "show", log]);
        let good = ["log", "show", "innocent/innocent.eval"];
        let json_good = ["--json", "log", "show", "innocent/innocent.eval"];
        (within(place, (&good, 0), &plain, ALLOWED), within(place, (&json_good, 0), &json, ALLOWED))
    };
    write(
        place,
        "endless.eval",
        &[entry("header.json", &header("0")), entry("summaries.json", &summaries(2 << 20, ""))],
        1,
    );
    let ((code, out, messages), (json_code, ..)) = show("logs/endless.eval");
    assert_eq!((code, json_code), (Some(2), Some(2)), "{out}{messages}");
    assert!(messages.contains("more than 1048576 samples") && messages.contains("hint: "), "{messages}");
    // Each of a hundred thousand would take 10 KiB as a tree of values.
    let more = format!(r#","scores":{{"s":{{"value":"C"}}}},"metadata":{{"a":{}}}"#, "{\"b\":[0]}");
    let honest = summaries(100_000, &more);
    write(place, "honest.eval", &[entry("header.json", &header("0")), entry("summaries.json", &honest)], 1);
    let ((code, out, messages), (json_code, json, _)) = show("logs/honest.eval");
    assert_eq!((code, json_code), (Some(0), Some(0)), "{messages}");
    assert!(out.contains("more; `--json` shows all"), "{}", out.lines().last().unwrap_or_default());
    assert_eq!(json.matches("\"epoch\"").count(), 100_000);
    let large = format!(r#","metadata":{}"#, many("{\"\":0},", 8 << 20));
    write(
        place,
        "large.eval",
        &[entry("header.json", &header("0")), entry("summaries.json", &summaries(2, &large))],
        1,
    );
    let ((code, _, messages), _) = show("logs/large.eval");
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("too many values") && messages.contains("line 1 column"), "{messages}");
}

#[test]
fn a_line_of_an_audit_chain_with_millions_of_values_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let spec = |head: &str| {
        format!(
            r#"{{"version":2,"status":"success","eval":{{"task":"t","metadata":{{"ringfence":{{}},"ringfence_audit":{head}}}}}}}"#
        )
    };
    let head = format!(r#"{{"count":1,"hash":"{}"}}"#, "0".repeat(64));
    for directory in ["innocent", "logs"] {
        std::fs::create_dir_all(place.join(directory)).unwrap();
        let log = zip(&[entry("header.json", spec(&head).as_bytes()), entry("summaries.json", b"[]")], 1);
        std::fs::write(place.join(directory).join("log.eval"), log).unwrap();
    }
    let line = |data: &str| {
        let zeros = "0".repeat(64);
        format!(
            "{{\"data\":{data},\"hash\":\"{zeros}\",\"kind\":\"start\",\"prev\":\"{zeros}\",\"seq\":1,\"time\":\"\"}}\n"
        )
    };
    std::fs::write(place.join("innocent/log.audit.jsonl"), line("0")).unwrap();
    std::fs::write(place.join("logs/log.audit.jsonl"), line(&many("{\"\":0},", 15 << 20))).unwrap();
    let (good, bad) = (["log", "verify", "innocent/log.eval"], ["log", "verify", "logs/log.eval"]);
    let plain = crate::common::command(place).current_dir(place).args(good).output().unwrap();
    let code = plain.status.code().unwrap();
    assert_ne!(code, 0, "its hash is wrong");
    let (found, out, messages) = within(place, (&good, code), &bad, ALLOWED);
    assert_eq!(found, Some(code), "{out}{messages}");
    assert!(format!("{out}{messages}").contains("line 1"), "{out}{messages}");
}

/// An evaluation's log with millions of values in its header, or in a finished sample.
#[test]
fn a_log_of_many_values_is_neither_gone_on_from_nor_judged_again_nor_dumped_in_much_memory() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let text = "name: words\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\n\
                dataset: [{id: one, input: go, target: done, mock: [{text: done}]}, \
                {id: broken, input: go, target: done, mock: []}]\n";
    let task = write_file(place, "task.yaml", text);
    let (code, result, err) = ended(place, &[&task, "--log-format", "json", "--fail-on-error", "false"]);
    assert_eq!(code, 0, "{err}");
    let log = result["log"].as_str().unwrap();
    let real: Value = serde_json::from_slice(&std::fs::read(log).unwrap()).unwrap();
    let make = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut forged = real.clone();
        change(&mut forged);
        let values = many("{\"\":0},", 2 << 20);
        write_file(place, &format!("{name}.json"), &forged.to_string().replace("\"VALUES\"", &values));
        std::fs::copy(log.replace(".json", ".audit.jsonl"), place.join(format!("{name}.audit.jsonl"))).unwrap();
    };
    let one = real["samples"].as_array().unwrap().iter().position(|sample| sample["id"] == "one").unwrap();
    // What makes a sample another one than the chain says, in few values.
    make("innocent", &|log| log["samples"][one]["events"] = json!([]));
    make("header", &|log| log["eval"]["metadata"]["x"] = json!("VALUES"));
    make("events", &|log| log["samples"][one]["events"] = json!("VALUES"));
    make("messages", &|log| log["samples"][one]["messages"] = json!("VALUES"));
    let command = |verb: &str, name: &str| {
        let log = format!("{name}.json");
        let words: &[&str] = match verb {
            "dump" => &["log", "dump", &log],
            "eval-retry" => &["eval-retry", &log, "--task", "task.yaml"],
            _ => &["score", &log, "--scorer", "includes"],
        };
        words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let refused = "`header.json` in the log `header.json` is not what a log has there: too many values";
    let changed = "the sample `one` (epoch 1) of the log";
    for (verb, code, said) in [("dump", 0, ""), ("eval-retry", 5, changed), ("score", 0, "")] {
        let innocent = command(verb, "innocent");
        let innocent: Vec<&str> = innocent.iter().map(String::as_str).collect();
        let enough = baseline(place, &innocent, code) + ALLOWED;
        for (name, code, said) in [("header", 2, refused), ("events", code, said), ("messages", code, said)] {
            let words = command(verb, name);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (found, out, messages) = under(place, &words, enough);
            let start = out.get(..1000).unwrap_or(&out);
            assert_eq!(found, Some(code), "{verb} {name}: {start}{messages}");
            assert!(messages.contains(said), "{verb} {name}: {messages}");
        }
    }
}
