//! Samples of an earlier log in a new one: the same bytes, all of them or no log.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use crate::common::{end, every_event, sample_end, start};
use log::audit::{self, Audit};
use log::{Format, Glance, Reader, Recorder, SampleName, Start, Status};
use serde_json::{Value, json};

const FORMATS: [Format; 2] = [Format::Eval, Format::Json];

fn record(recorder: &Recorder, id: &SampleName, epoch: u32) {
    let mut sample = recorder.sample(id.clone(), epoch).unwrap();
    for event in every_event() {
        sample.event(&event).unwrap();
    }
    sample.complete(sample_end()).unwrap();
}

fn bytes(reader: &Reader, id: &SampleName, epoch: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(reader.copy_sample(id, epoch, &mut bytes).unwrap());
    bytes
}

fn later(task: &str) -> Start {
    let start = start(task);
    Start { created: "2026-10-05T00:00:00+00:00".into(), ..start }
}

#[test]
fn kept_samples_have_the_same_bytes_and_summaries() {
    let names: Vec<(SampleName, u32)> = (1..=25)
        .map(|number| (SampleName::Number(number), 1))
        .chain([(SampleName::Text("a/../b é".into()), 2)])
        .collect();
    for (from, to) in FORMATS.into_iter().flat_map(|from| FORMATS.map(|to| (from, to))) {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(directory.path(), from, start("kept")).unwrap();
        for (id, epoch) in &names {
            record(&recorder, id, *epoch);
        }
        let old = recorder.finish(end(Status::Error)).unwrap();
        let reader = Reader::open(&old.path).unwrap();
        let wanted: Vec<_> = names.iter().cloned().chain([(SampleName::Number(99), 1)]).collect();
        let mut found = reader.glances(&wanted).unwrap();
        assert_eq!(found.pop(), Some(None), "a sample that is not there");
        let kept: Vec<Glance> = found.into_iter().skip(3).map(Option::unwrap).collect();
        let recorder = Recorder::create_with(directory.path(), to, later("kept"), Some((&reader, &kept))).unwrap();
        if to == Format::Eval {
            let started = Reader::open(&recorder.path()).unwrap();
            assert_eq!(started.summaries().unwrap().len(), 23, "all of them at once");
        }
        for (id, epoch) in &names[..3] {
            record(&recorder, id, *epoch);
        }
        let new = recorder.finish(end(Status::Success)).unwrap();
        let again = Reader::open(&new.path).unwrap();
        for (id, epoch) in &names[3..] {
            assert_eq!(bytes(&reader, id, *epoch), bytes(&again, id, *epoch), "{id}");
        }
        let sorted = |reader: &Reader| {
            let mut all: Vec<String> = reader.summaries().unwrap().iter().map(Value::to_string).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&reader), sorted(&again), "{from:?} {to:?}");
        assert_eq!(log::digest(&old.path).unwrap(), old.digest, "the earlier log is untouched");
    }
}

#[test]
fn the_chain_of_a_killed_writer_ends_before_half_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.audit.jsonl");
    let chain = Audit::create(&path).unwrap();
    chain.record("start", json!({"eval_id": "e"})).unwrap();
    chain.record("end", json!({})).unwrap();
    let whole = chain.head();
    assert_eq!(audit::first(&path).unwrap(), Some(("start".into(), json!({"eval_id": "e"}))));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{{\"data\":{{")).unwrap();
    assert!(audit::verify(&path, None).is_err());
    assert_eq!(audit::verify_killed(&path).unwrap(), whole);
    std::fs::write(&path, format!("{text}{{\"data\":{{\n")).unwrap();
    assert!(audit::verify_killed(&path).is_err(), "a whole line that is wrong");
    std::fs::write(&path, text.replace("\"e\"", "\"f\"")).unwrap();
    assert!(audit::verify_killed(&path).is_err());
    assert!(audit::first(&path).is_err());
}
