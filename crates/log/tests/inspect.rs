//! Inspect itself opens our logs. The lane `inspect` of `test.sh` makes the virtual environment that this needs.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at its own set-up")]

#[path = "it/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::crash::{kill_a_writer, write_until_killed};
use common::{end, every_event, sample_end, start};
use log::{Format, Recorder, SampleEnd, SampleName, Status};
use serde_json::{Value, json};

#[test]
fn writer_to_be_killed() {
    write_until_killed();
}

/// Ids that could be trouble in a name.
fn ids() -> Vec<SampleName> {
    let texts = ["a/b", "../up and away", "007", "é☃", "q\"uo\\te%20", "x_epoch_3", "a\nb"];
    let mut ids = vec![SampleName::Number(1), SampleName::Number(-5)];
    ids.extend(texts.map(|text| SampleName::Text(text.into())));
    ids
}

/// One log of each format and end, and `expected.json`: what Inspect is to find in them.
fn write_logs(directory: &Path) {
    let mut expected = Vec::new();
    for format in [Format::Eval, Format::Json] {
        for status in [Status::Success, Status::Cancelled, Status::Error, Status::Started] {
            // A document appears at its end, so there is no document that has not ended.
            if (format, status) != (Format::Json, Status::Started) {
                expected.push(write_log(directory, format, status));
            }
        }
    }
    std::fs::write(directory.join("expected.json"), json!(expected).to_string()).unwrap();
}

fn write_log(directory: &Path, format: Format, status: Status) -> Value {
    let task = json!(status).as_str().unwrap().to_owned();
    let recorder = Recorder::create(directory, format, start(&task)).unwrap();
    let mut samples = Vec::new();
    for (index, id) in ids().into_iter().enumerate() {
        let mut sample = recorder.sample(id.clone(), 2).unwrap();
        let events = if index == 0 { every_event() } else { every_event().into_iter().take(2).collect() };
        for event in &events {
            sample.event(event).unwrap();
        }
        let mut fields = sample_end().fields;
        if index == 1 {
            // What is said when a sample fails.
            fields.insert("error".into(), json!(log::event::EvalError::new("it broke")));
            fields.insert("limit".into(), json!({"type": "time", "limit": 3.0}));
            fields.insert("input".into(), fields["messages"].clone());
        }
        let mut sample_expected = fields.clone();
        sample_expected.retain(|_, value| !value.is_null());
        sample_expected
            .extend([("id", json!(id)), ("epoch", json!(2)), ("events", json!(events))].map(|(k, v)| (k.into(), v)));
        sample.complete(SampleEnd { fields }).unwrap();
        samples.push(sample_expected);
    }
    // The last one is not complete, so nobody is to see it.
    let mut lost = recorder.sample(SampleName::Text("lost".into()), 1).unwrap();
    lost.event(&every_event()[0]).unwrap();
    let path = recorder.path();
    let end = end(status);
    let header = json!({"status": status, "results": end.results, "stats": end.stats, "error": end.error});
    let reductions = end.reductions.clone();
    if status == Status::Started {
        // A recorder that nobody finishes is dropped here.
        drop(recorder);
    } else {
        recorder.finish(end).unwrap();
    }
    let name = path.file_name().unwrap().to_str().unwrap();
    json!({"name": name, "task": task, "header": header, "reductions": reductions, "samples": samples, "spec": start(&task).spec})
}

/// Runs a part of `inspect_check.py`, which ends with a word if all is as expected.
fn check(part: &str, directory: &Path) {
    let venv = std::env::var_os("RINGFENCE_INSPECT_VENV")
        .expect("RINGFENCE_INSPECT_VENV names a virtual environment with Inspect");
    let programs = PathBuf::from(venv).join("bin");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inspect_check.py");
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(programs.join("python"))
        .arg(script)
        .args([part.as_ref(), directory.as_os_str()])
        .env("HOME", home.path())
        .env("XDG_DATA_HOME", home.path())
        .env("PATH", std::env::join_paths([programs, "/usr/bin".into(), "/bin".into()]).unwrap())
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.trim_end().ends_with("as expected"), "{part}:\n{out}\n{error}");
}

fn check_logs(part: &str) {
    let directory = tempfile::tempdir().unwrap();
    write_logs(directory.path());
    check(part, directory.path());
}

#[test]
fn inspect_reads_every_event_as_it_was_written() {
    check_logs("read");
}

#[test]
fn logs_are_what_the_schema_of_inspect_says() {
    check_logs("schema");
}

#[test]
fn the_commands_of_inspect_list_and_dump_logs() {
    check_logs("commands");
}

#[test]
fn the_viewer_of_inspect_serves_logs() {
    check_logs("view");
}

#[test]
fn inspect_opens_what_killed_writers_left() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    while expected.len() < 25 {
        let place = directory.path().join(expected.len().to_string());
        std::fs::create_dir_all(&place).unwrap();
        if let (Some(log), completed) = kill_a_writer(&place) {
            expected.push(json!({"path": log, "completed": completed}));
        }
    }
    std::fs::write(directory.path().join("expected.json"), json!(expected).to_string()).unwrap();
    check("killed", directory.path());
}
