//! A small run: a log, its chain, a key and a receipt.

#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part; a test may stop at its own set-up")]

use std::path::{Path, PathBuf};

use log::audit::Audit;
use log::event::EvalError;
use log::{End, Expectation, Format, Recorder, SampleEnd, SampleName, Start, Status};
use receipt::{CheckError, Checked, Require, SigningKey, Trust, check, issue};
use serde_json::{Map, Value, json};

/// A run in a directory of its own.
pub(crate) struct Made {
    pub(crate) place: tempfile::TempDir,
    pub(crate) log: PathBuf,
    pub(crate) chain: PathBuf,
    pub(crate) receipt: PathBuf,
    pub(crate) key: SigningKey,
}

/// What differs between runs.
pub(crate) struct Kind {
    pub(crate) format: Format,
    pub(crate) metadata: Value,
    /// Whether the log says that there is a receipt.
    pub(crate) expected: bool,
}

impl Default for Kind {
    fn default() -> Self {
        Self { format: Format::Eval, metadata: json!({}), expected: true }
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn spec() -> Value {
    json!({
        "eval_id": "evalOne", "task_id": "taskOne", "created": "2026-10-04T12:30:00+00:00", "task": "t",
        "dataset": {}, "model": "mock/scripted", "config": {}, "packages": {"ringfence": "0.1.0"},
        "metadata": {"ringfence": {
            "requested": "T0.H1.N2", "profile": "T0.H1.N2", "plan_hash": "ab".repeat(32),
            "plan": {"schema": "ringfence.plan/1", "services": {}}, "image": {"reference": "host", "pin": "unpinned"},
            "residual": [{"id": "shared_kernel", "text": "the kernel is shared"}], "host": {"kernel": "6.1", "load": 0.5},
        }},
    })
}

/// A log that is closed, without a receipt.
pub(crate) fn log(directory: &Path, kind: &Kind, keyid: &str) -> PathBuf {
    let (created, eval_id) = ("2026-10-04T12:30:00+00:00".to_owned(), "evalOne".to_owned());
    let start = Start { spec: spec(), plan: json!({}), task: "t".into(), eval_id, created };
    let recorder = Recorder::create(directory, kind.format, start).unwrap();
    let audit = Audit::create(&Audit::beside(&recorder.path())).unwrap();
    audit.record("start", json!({"eval_id": "evalOne", "plan": "ab".repeat(32), "profile": "T0.H1.N2"})).unwrap();
    for number in 1..=2 {
        let of = |data: Value| json!({"sample": number, "epoch": 1, "data": data});
        audit.record("approval", of(json!({"decision": "approve", "tool": "bash"}))).unwrap();
        let record = json!({"protocol": "tls", "verdict": "refused", "count": 3});
        audit.record("network", of(json!({"kind": "network", "record": record}))).unwrap();
        let sample = recorder.sample(SampleName::Number(number), 1).unwrap();
        let mut fields = object(&json!({"input": "a question", "target": "x", "messages": []}));
        if number == 2 {
            fields.insert("error".into(), json!(EvalError::new("it broke")));
        }
        sample.complete(SampleEnd { fields }).unwrap();
    }
    let head = audit.end().unwrap();
    let signed = Expectation::Signed { keyid: keyid.into() };
    let expectation = if kind.expected { signed } else { Expectation::None { reason: "no signing key".into() } };
    let mut metadata = object(&kind.metadata);
    metadata.insert("ringfence_audit".into(), json!(head));
    metadata.insert("ringfence_redactions".into(), json!({"value": 2, "key": 0, "pattern": 1}));
    metadata.insert(Expectation::FIELD.into(), expectation.to_json());
    let end = End {
        status: Status::Success,
        results: Some(json!({"total_samples": 2, "completed_samples": 2, "scores": []})),
        stats: json!({"started_at": "2026-10-04T12:30:00+00:00", "completed_at": "2026-10-04T12:31:00+00:00", "model_usage": {}}),
        error: None,
        reductions: Some(json!([])),
        metadata,
    };
    recorder.finish(end).unwrap().path
}

/// A run with its receipt.
pub(crate) fn made(kind: &Kind) -> Made {
    let place = tempfile::tempdir().unwrap();
    let key = SigningKey::create(&place.path().join("key")).unwrap();
    let log = log(&place.path().join("logs"), kind, key.public().id().as_str());
    let receipt = issue(&log, &key).unwrap();
    Made { place, chain: Audit::beside(&log), log, receipt, key }
}

impl Made {
    /// Checked by somebody who has the key.
    pub(crate) fn check(&self) -> Result<Checked, CheckError> {
        check(&self.log, &Trust::Key(self.key.public()), Require::Receipt)
    }

    /// Checked by somebody who has nothing.
    pub(crate) fn check_alone(&self) -> Result<Checked, CheckError> {
        check(&self.log, &Trust::Nobody, Require::AsTheLogSays)
    }
}
