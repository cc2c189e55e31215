//! What is recorded comes back, whatever becomes of the recorder.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{end, every_event, info, sample_end, start};
use log::{End, Format, LogError, Reader, Recorder, SampleEnd, SampleName, Status};
use serde_json::{Value, json};

fn text(id: &str) -> SampleName {
    SampleName::Text(id.into())
}

fn record(recorder: &Recorder, id: SampleName, epoch: u32) {
    let mut sample = recorder.sample(id, epoch).unwrap();
    for event in every_event() {
        sample.event(&event).unwrap();
    }
    sample.complete(sample_end()).unwrap();
}

/// Files that are not logs.
fn others(directory: &Path) -> Vec<String> {
    let names = directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn what_is_recorded_comes_back() {
    for format in [Format::Eval, Format::Json] {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(directory.path(), format, start("my_task")).unwrap();
        record(&recorder, SampleName::Number(1), 1);
        record(&recorder, text("a/b"), 2);
        let finished = recorder.finish(end(Status::Success)).unwrap();
        assert_eq!(finished.path, recorder.path());
        let name = format!("2026-10-04T12-30-00-00-00_my-task_taskOne.{}", format.extension());
        assert_eq!(finished.path.file_name().unwrap().to_str().unwrap(), name);
        assert_eq!(others(directory.path()), [""; 0]);

        let reader = Reader::open(&finished.path).unwrap();
        assert!(reader.is_complete());
        assert_eq!(reader.header()["eval"]["metadata"], json!({"plan": "abc", "audit": {"count": 3, "hash": "00ff"}}));
        assert_eq!(reader.header()["results"]["scores"][0]["name"], "exact");
        assert_eq!(reader.reductions().unwrap().unwrap()[0]["scorer"], "exact");
        let ids: Vec<Value> = reader.summaries().unwrap().iter().map(|s| json!([s["id"], s["epoch"]])).collect();
        assert_eq!(ids, [json!([1, 1]), json!(["a/b", 2])]);

        let sample = reader.sample(&text("a/b"), 2).unwrap().unwrap();
        assert_eq!(sample["events"], json!(every_event()));
        for (key, value) in sample_end().fields.iter().filter(|(_, value)| !value.is_null()) {
            assert_eq!(&sample[key], value, "{key}");
        }
        assert!(sample.get("error").is_none(), "null is absent");
        assert_eq!(reader.sample(&text("a/b"), 1).unwrap(), None);

        let mut dump = Vec::new();
        reader.dump(&mut dump).unwrap();
        let dump: Value = serde_json::from_slice(&dump).unwrap();
        assert_eq!(dump["samples"].as_array().unwrap().len(), 2);
        assert_eq!(dump["status"], "success");
    }
}

#[test]
fn a_log_that_is_not_finished_reads_as_started() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    let reader = Reader::open(&recorder.path()).unwrap();
    assert_eq!((reader.status(), reader.is_complete()), (Status::Started, false));
    assert_eq!(reader.summaries().unwrap(), Vec::<Value>::new());
    for number in 1..=25 {
        let id = SampleName::Number(number);
        record(&recorder, id.clone(), 1);
        let reader = Reader::open(&recorder.path()).unwrap();
        assert_eq!(reader.summaries().unwrap().last().unwrap()["id"], number);
        assert!(reader.sample(&id, 1).unwrap().is_some());
    }
    drop(recorder);
    assert_eq!(others(directory.path()), [""; 0], "nothing hidden is left");
}

#[test]
fn a_sample_that_is_recorded_again_takes_the_place_of_the_first() {
    for format in [Format::Eval, Format::Json] {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(directory.path(), format, start("t")).unwrap();
        for (id, input) in [(1, "first"), (2, "other"), (1, "second")] {
            let fields = crate::common::object(json!({"input": input, "target": ""}));
            recorder.sample(SampleName::Number(id), 1).unwrap().complete(SampleEnd { fields }).unwrap();
        }
        let reader = Reader::open(&recorder.finish(end(Status::Success)).unwrap().path).unwrap();
        let inputs: BTreeSet<String> = reader.summaries().unwrap().iter().map(|s| s["input"].to_string()).collect();
        assert_eq!(inputs, BTreeSet::from(["\"other\"".into(), "\"second\"".into()]));
        assert_eq!(reader.sample(&SampleName::Number(1), 1).unwrap().unwrap()["input"], "second");
    }
}

#[test]
fn nothing_comes_after_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    let late = recorder.sample(SampleName::Number(1), 1).unwrap();
    recorder.finish(end(Status::Cancelled)).unwrap();
    assert!(matches!(late.complete(sample_end()), Err(LogError::Finished(_))));
    assert!(matches!(recorder.finish(end(Status::Success)), Err(LogError::Finished(_))));
    assert!(matches!(Recorder::create(directory.path(), Format::Eval, start("t")), Err(LogError::Exists(_))));
    assert_eq!(Reader::open(&recorder.path()).unwrap().status(), Status::Cancelled);
}

#[test]
fn the_digest_is_that_of_the_file() {
    use sha2::Digest as _;
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    let finished = recorder.finish(End { metadata: serde_json::Map::new(), ..end(Status::Error) }).unwrap();
    let hash = sha2::Sha256::digest(std::fs::read(finished.path).unwrap());
    let bytes: Vec<u8> = (0..32).map(|n| u8::from_str_radix(&finished.digest[2 * n..2 * n + 2], 16).unwrap()).collect();
    assert_eq!(bytes, hash.as_slice());
}

#[test]
fn samples_complete_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let recorder = recorder.clone();
            scope.spawn(move || (0..10).for_each(|n| record(&recorder, SampleName::Number(thread * 10 + n), 1)));
        }
    });
    let reader = Reader::open(&recorder.finish(end(Status::Success)).unwrap().path).unwrap();
    let ids: BTreeSet<i64> = reader.summaries().unwrap().iter().map(|s| s["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, (0..80).collect());
}

#[test]
fn many_events_take_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(directory.path(), Format::Eval, start("t")).unwrap();
    let mut sample = recorder.sample(SampleName::Number(1), 1).unwrap();
    let before = memory();
    for number in 0..20_000 {
        sample.event(&info(number, json!({"text": "x".repeat(10_000)}))).unwrap();
    }
    sample.complete(sample_end()).unwrap();
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 10, "200 MB of events took {grown} KiB of memory");
    let reader = Reader::open(&recorder.path()).unwrap();
    let mut counter = Counter(0);
    assert!(reader.copy_sample(&SampleName::Number(1), 1, &mut counter).unwrap());
    assert!(counter.0 > 200_000_000);
}

/// The most that this process ever held, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

struct Counter(u64);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
