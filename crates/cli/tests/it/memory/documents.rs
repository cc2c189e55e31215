//! Documents, and data of tasks.

use std::path::Path;

use crate::memory::limited::{ALLOWED, within};

#[test]
fn documents_of_many_values_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::write(place.join("good.yaml"), "profile: T1.H1.N2\n").unwrap();
    for part in ["[],", "{a: 0},", "a,"] {
        std::fs::write(
            place.join("bad.yaml"),
            format!("profile: T1.H1.N2\nx: [{}0]\n", part.repeat(1_000_000 / part.len())),
        )
        .unwrap();
        let (code, out, messages) =
            within(place, (&["profile", "check", "good.yaml"], 0), &["profile", "check", "bad.yaml"], ALLOWED);
        assert_eq!(code, Some(2), "{out}{messages}");
        assert!(messages.contains("bad.yaml:2:"), "{messages}");
    }
}

#[test]
fn compose_files_of_many_values_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // A file of a mistake each, so that no daemon is asked.
    std::fs::write(place.join("good.yaml"), "services: {a: {image: x, nothing: 1}}\n").unwrap();
    for (part, bytes) in [("[],", 250_000), ("{a: 0},", 250_000), ("a,", 250_000), ("[],", 4 << 20)] {
        let many = part.repeat(bytes / part.len());
        let text = format!("services: {{a: {{image: x, command: [{many}0]}}}}\n");
        std::fs::write(place.join("bad.yaml"), text).unwrap();
        let run = |file: &'static str| ["run", "--compose", file, "--", "true"];
        let (code, out, messages) = within(place, (&run("good.yaml"), 2), &run("bad.yaml"), ALLOWED);
        assert_eq!(code, Some(2), "{out}{messages}");
        let why = if bytes > 1 << 20 { "it is larger than" } else { "more than 1024 words" };
        assert!(messages.contains("bad.yaml") && messages.contains(why), "{messages}");
    }
}

const TASK: &str =
    "name: t\nprofile: T1.H1.N2\ntools: [bash, submit]\nsolver: {kind: agent, tools: [bash]}\nscorer: includes\n";

/// What the command says to a task with this data file.
fn said(place: &Path, name: &str, data: &str, more: u64) -> String {
    std::fs::write(place.join("good.jsonl"), "no JSON\n").unwrap();
    std::fs::write(place.join("good.yaml"), format!("{TASK}dataset: good.jsonl\n")).unwrap();
    std::fs::write(place.join(name), data).unwrap();
    std::fs::write(place.join("bad.yaml"), format!("{TASK}dataset: {name}\n")).unwrap();
    let (good, bad) =
        (["eval", "good.yaml", "--model", "mock/scripted"], ["eval", "bad.yaml", "--model", "mock/scripted"]);
    let (code, out, messages) = within(place, (&good, 2), &bad, more);
    assert_eq!(code, Some(2), "{out}{messages}");
    messages
}

#[test]
fn data_files_of_many_values_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let record = |part: &str, bytes: usize| {
        format!("{{\"input\":\"q\",\"target\":\"t\",\"metadata\":{{\"a\":[{}0]}}}}", part.repeat(bytes / part.len()))
    };
    for part in ["[],", "{},", "{\"a\":0},"] {
        let messages = said(place, "bad.jsonl", &record(part, 15 << 20), ALLOWED);
        assert!(messages.contains("line 1, column") && messages.contains("too many values"), "{messages}");
        let messages = said(place, "bad.json", &format!("[{}]", record(part, 15 << 20)), ALLOWED);
        assert!(messages.contains("too many values"), "{messages}");
        // Each is little, and they are many.
        let lines = vec![record(part, 4 << 10); 1 << 10].join("\n");
        let messages = said(place, "many.jsonl", &lines, ALLOWED);
        assert!(messages.contains("bytes of memory") && messages.contains("hint"), "{messages}");
    }
    let wide: Vec<String> = (0..200_000).map(|number| format!("c{number}")).collect();
    let messages = said(place, "wide.csv", &format!("{}\n{}\n", wide.join(","), ",".repeat(199_999)), ALLOWED);
    assert!(messages.contains("more than 10000 columns"), "{messages}");
    let messages =
        said(place, "choices.csv", &format!("input,target,choices\nq,t,\"{}\"\n", ",".repeat(4 << 20)), ALLOWED);
    assert!(messages.contains("more than 1000"), "{messages}");
}
