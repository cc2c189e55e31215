//! What a receipt says, and that nothing else is believed of it.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::fs;

use crate::common::{Kind, made};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use log::Format;
use log::audit::{Audit, Head};
use receipt::{
    CheckError, Envelope, IssueError, Observed, Require, SigningKey, Statement, Trust, add_checkpoint, check,
    checkpoints_beside, issue, last_checkpoint,
};
use serde_json::{Value, json};

fn payload(path: &std::path::Path) -> Value {
    let envelope: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    serde_json::from_slice(&STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap()).unwrap()
}

/// The whole statement: the format of version 1. Whoever changes it changes the predicate's type too.
#[test]
fn a_receipt_says_what_is_in_the_log_and_its_chain() {
    let made = made(&Kind::default());
    let mut found = payload(&made.receipt);
    let id = made.key.public().id();
    let issued = found["predicate"]["issued"].take();
    assert!(issued.as_str().unwrap().starts_with("20"), "{issued}");
    let key = found["predicate"]["signer"]["public_key"].take();
    assert_eq!(STANDARD.decode(key.as_str().unwrap()).unwrap().len(), 32);
    let hash = found["predicate"]["run"]["audit"]["hash"].take();
    assert_eq!(hash.as_str().unwrap().len(), 64);
    let digest = found["subject"][0]["digest"]["sha256"].take();
    assert_eq!(json!(log::Reader::open(&made.log).unwrap().digest().unwrap()), digest);
    let expected = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "2026-10-04T12-30-00-00-00_t_taskOne.eval", "digest": {"sha256": null}}],
        "predicateType": "https://ringfence.dev/receipt/v1",
        "predicate": {
            "issued": null,
            "signer": {"keyid": id.as_str(), "public_key": null},
            "run": {
                "task": "t", "eval_id": "evalOne", "status": "success",
                "started": "2026-10-04T12:30:00+00:00", "completed": "2026-10-04T12:31:00+00:00",
                "models": ["mock/scripted"],
                "profile": {"requested": "T0.H1.N2", "planned": "T0.H1.N2", "observed": {"state": "not_probed"}},
                "plan_hash": "ab".repeat(32),
                "images": [{"of": "agent", "reference": "host", "pin": "unpinned", "digests": []}],
                "samples": {"total": 2, "done": 2, "failed": 1}, "kept": null, "scored": null,
                "network": {
                    "queries": {"allowed": 0, "refused": 0, "failed": 0},
                    "connections": {"allowed": 0, "refused": 6, "failed": 0}, "cut": 0,
                    "totals": {"queries": 0, "connections": 0, "refused": 0, "sent": 0, "received": 0, "records_lost": 0},
                },
                "approvals": {"approve": 2}, "limits": {}, "redactions": {"value": 2, "key": 0, "pattern": 1},
                "residual": [{"id": "shared_kernel", "text": "the kernel is shared"}],
                "versions": {"ringfence": "0.1.0", "log_schema": 2, "plan_schema": "ringfence.plan/1"},
                "host": {"kernel": "6.1", "load": 0.5},
                "audit": {"file": "2026-10-04T12-30-00-00-00_t_taskOne.audit.jsonl", "count": 5, "hash": null},
            },
        },
    });
    assert_eq!(found, expected);
    let checked = made.check().unwrap();
    let asserted = checked.receipt.unwrap();
    assert_eq!((asserted.keyid, asserted.trusted, checked.chain.count), (id, true, 5));
    assert!(!made.check_alone().unwrap().receipt.unwrap().trusted);
}

#[test]
fn both_formats_say_the_same() {
    let run = |format| {
        let mut found = payload(&made(&Kind { format, ..Kind::default() }).receipt)["predicate"]["run"].take();
        found["audit"]["hash"].take();
        found
    };
    assert_eq!(run(Format::Eval), run(Format::Json));
}

/// Whoever has the key can sign anything; what is not in the log is found all the same.
#[test]
fn a_signer_who_says_something_else_than_the_log_is_found() {
    let made = made(&Kind::default());
    let good = payload(&made.receipt);
    let edits = [
        ("/predicate/run/profile/planned", json!("T0.H1.N0")),
        (
            "/predicate/run/profile/observed",
            json!({"state": "probed", "profile": "T0.H1.N2", "passed": 9, "failed": 0, "unknown": 0}),
        ),
        ("/predicate/run/network/connections/refused", json!(5)),
        ("/predicate/run/approvals", json!({})),
        ("/predicate/run/samples/failed", json!(0)),
        ("/predicate/run/redactions/value", json!(0)),
        ("/predicate/run/residual", json!([])),
        ("/predicate/run/host/kernel", json!("6.2")),
        ("/predicate/run/plan_hash", json!("cd".repeat(32))),
        ("/predicate/run/audit/count", json!(4)),
        ("/predicate/run/status", json!("error")),
        ("/predicate/signer/public_key", json!(STANDARD.encode([7; 32]))),
        ("/subject/0/digest/sha256", json!("00".repeat(32))),
        ("/subject/0/name", json!("other.eval")),
        ("/predicateType", json!("https://ringfence.dev/receipt/v2")),
        ("/_type", json!("https://in-toto.io/Statement/v0.1")),
    ];
    let sign = |payload: Vec<u8>| {
        fs::write(&made.receipt, Envelope::sign(payload, &made.key).unwrap().to_bytes()).unwrap();
    };
    for (path, value) in edits {
        let mut edited = good.clone();
        *edited.pointer_mut(path).unwrap() = value;
        assert_ne!(edited, good, "{path}");
        sign(log::canonical(&edited).into_bytes());
        assert!(made.check().is_err(), "{path}");
    }
    let mut more = good.clone();
    more["predicate"]["run"]["more"] = json!(1);
    sign(log::canonical(&more).into_bytes());
    assert!(matches!(made.check(), Err(CheckError::Statement(_))));
    sign(serde_json::to_vec_pretty(&good).unwrap());
    assert!(matches!(made.check(), Err(CheckError::Statement(_))));
    sign(log::canonical(&good).into_bytes());
    made.check().unwrap();
}

#[test]
fn what_probes_found_is_part_of_the_receipt() {
    let observed = Observed::Probed { profile: "T0.H1.N2".into(), passed: 50, failed: 0, unknown: 2 };
    let seen = made(&Kind { metadata: json!({Observed::FIELD: observed}), ..Kind::default() });
    let asserted = seen.check().unwrap().receipt.unwrap();
    assert_eq!(asserted.statement.predicate.run.profile.observed, observed);
    let place = tempfile::tempdir().unwrap();
    let odd = Kind { metadata: json!({Observed::FIELD: "all is well"}), expected: false, ..Kind::default() };
    let log = crate::common::log(place.path(), &odd, "");
    assert!(matches!(issue(&log, &seen.key), Err(IssueError::Gather(_))));
}

#[test]
fn a_log_without_a_receipt_is_checked_as_far_as_it_goes() {
    let place = tempfile::tempdir().unwrap();
    for format in [Format::Eval, Format::Json] {
        let log = crate::common::log(
            &place.path().join(format.extension()),
            &Kind { format, expected: false, ..Kind::default() },
            "",
        );
        let checked = check(&log, &Trust::Nobody, Require::AsTheLogSays).unwrap();
        assert!(checked.receipt.is_none() && checked.complete);
        assert_eq!(checked.expectation, Some(log::Expectation::None { reason: "no signing key".into() }));
    }
}

#[test]
fn no_half_receipt_is_left_when_it_cannot_be_written() {
    let made = made(&Kind::default());
    fs::remove_file(&made.receipt).unwrap();
    // A directory is in the way.
    fs::create_dir(&made.receipt).unwrap();
    assert!(matches!(issue(&made.log, &made.key), Err(IssueError::Io { .. })));
    let names: Vec<_> =
        fs::read_dir(made.log.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn the_script_in_the_documentation_is_the_one_that_the_lane_runs() {
    let script = include_str!("../verify_receipt.py");
    let page = include_str!("../../../../docs/receipts.md");
    assert!(page.contains(&format!("```python\n{script}```\n")) && script.lines().count() == 15);
}

/// What version 1 looks like is kept: a receipt that was written once is read for ever.
#[test]
fn kept_bytes_of_version_1_are_read() {
    let statement = include_bytes!("../../../../fuzz/seeds/envelope/statement.json");
    assert_eq!(Statement::parse(statement).unwrap().to_bytes(), statement);
    let envelope = include_bytes!("../../../../fuzz/seeds/envelope/envelope.json");
    assert_eq!(Envelope::parse(envelope).unwrap().to_bytes(), envelope);
}

#[test]
fn a_checkpoint_counts_by_a_trusted_key_for_the_chain_that_it_signed() {
    let place = tempfile::tempdir().unwrap();
    let key = |name: &str| SigningKey::create(&place.path().join(name)).unwrap();
    let (own, other) = (key("own"), key("other"));
    let log = place.path().join("a.eval");
    let audit = Audit::create(&Audit::beside(&log)).unwrap();
    audit.record("start", json!({"eval_id": "e"})).unwrap();
    let first = audit.head();
    audit.record("sample", json!({"sample": "a", "epoch": 1, "data": {"sha256": "00"}})).unwrap();
    let second = audit.head();
    let last = |keys: &[&SigningKey]| {
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        last_checkpoint(&log, &keys).unwrap().map(|found| (found.keyid, found.head))
    };
    assert_eq!(last(&[&own]), None, "there is no file");
    add_checkpoint(&log, "e", &first, &own).unwrap();
    assert_eq!(last(&[&own]), Some((own.public().id(), first.clone())));
    assert_eq!(last(&[&other]), None);
    assert_eq!(last(&[]), None);
    // Of another evaluation, of a head that the chain never had, and of another key.
    add_checkpoint(&log, "f", &second, &own).unwrap();
    add_checkpoint(&log, "e", &Head { count: 2, hash: "0".repeat(64) }, &own).unwrap();
    add_checkpoint(&log, "e", &second, &other).unwrap();
    assert_eq!(last(&[&own]), Some((own.public().id(), first)));
    assert_eq!(last(&[&own, &other]), Some((other.public().id(), second.clone())));
    // Half a line, as a killed writer leaves it, and a flood of lines before the last one.
    let file = checkpoints_beside(&log);
    let half = fs::read(&file).unwrap();
    fs::write(&file, [&vec![b'x'; 1 << 20][..], b"\n"].concat()).unwrap();
    add_checkpoint(&log, "e", &second, &own).unwrap();
    let text = [fs::read(&file).unwrap(), half[..100].to_vec()].concat();
    fs::write(&file, text).unwrap();
    assert_eq!(last(&[&own]), Some((own.public().id(), second)));
    // A receipt is none, and a checkpoint is no receipt.
    let made = made(&Kind::default());
    fs::copy(&made.receipt, checkpoints_beside(&made.log)).unwrap();
    assert_eq!(last_checkpoint(&made.log, &[made.key.public()]).unwrap(), None);
    fs::remove_file(checkpoints_beside(&made.log)).unwrap();
    add_checkpoint(&made.log, "evalOne", &Head { count: 1, hash: "0".repeat(64) }, &made.key).unwrap();
    fs::copy(checkpoints_beside(&made.log), &made.receipt).unwrap();
    assert!(matches!(made.check(), Err(CheckError::Statement(_))));
}
