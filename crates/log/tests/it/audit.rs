//! Every way of changing an audit chain is found.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::path::{Path, PathBuf};

use log::audit::{Audit, AuditError, Flaw, Head, verify};
use proptest::prelude::*;
use serde_json::{Value, json};

fn chain(directory: &Path, data: &[Value]) -> (PathBuf, Head) {
    let path = Audit::beside(&directory.join("x.eval"));
    let audit = Audit::create(&path).unwrap();
    for (index, data) in data.iter().enumerate() {
        audit.record(["approval", "egress"][index % 2], data.clone()).unwrap();
    }
    (path, audit.head())
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_chain_that_nobody_touched_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (path, head) = chain(directory.path(), &[json!({"b": 1, "a": 2.5}), json!(null), json!("\u{7f}\n")]);
    assert_eq!(path.file_name().unwrap(), "x.audit.jsonl");
    assert_eq!(head.count, 3);
    assert_eq!(verify(&path, Some(&head)).unwrap(), head);
    assert!(matches!(Audit::create(&path), Err(AuditError::Io { .. })), "nobody begins it anew");
    let first: Value = serde_json::from_str(&lines(&path)[0]).unwrap();
    assert_eq!(
        (&first["seq"], &first["kind"], &first["prev"]),
        (&json!(1), &json!("approval"), &json!("0".repeat(64)))
    );
}

#[test]
fn a_chain_can_be_made_to_last() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::create(&directory.path().join("a")).unwrap();
    audit.record("start", json!({})).unwrap();
    audit.sync().unwrap();
}

#[test]
fn an_empty_chain_has_a_head_too() {
    let directory = tempfile::tempdir().unwrap();
    let (path, head) = chain(directory.path(), &[]);
    assert_eq!(verify(&path, Some(&head)).unwrap().count, 0);
}

#[test]
fn a_shortened_chain_is_found_by_the_head_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let (path, head) = chain(directory.path(), &[json!(1), json!(2), json!(3)]);
    let kept = lines(&path)[..2].concat();
    std::fs::write(&path, kept).unwrap();
    assert_eq!(verify(&path, None).unwrap().count, 2, "by itself it is whole");
    assert!(matches!(verify(&path, Some(&head)), Err(AuditError::Head { .. })));
}

#[test]
fn a_chain_made_anew_is_found_by_the_head_in_the_log() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (_, head) = chain(one.path(), &[json!("reject")]);
    let (path, _) = chain(other.path(), &[json!("approve")]);
    assert!(matches!(verify(&path, Some(&head)), Err(AuditError::Head { .. })));
}

#[test]
fn a_line_says_what_is_wrong_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = chain(directory.path(), &[json!({"decision": "reject"}), json!(2), json!(3)]);
    let all = lines(&path);
    let spaced = all[1].replace("\"seq\":2", "\"seq\": 2");
    let doubled = all[1].replace("{\"data\":2", "{\"data\":1,\"data\":2");
    let cases = [
        (all[0].replace("reject", "accept") + &all[1], 1, Flaw::Content),
        (all[0].clone() + &all[2], 2, Flaw::Number),
        (all[1].clone() + &all[0], 1, Flaw::Number),
        (all[0].clone() + &all[1].replace("\"prev\":\"", "\"prev\":\"0"), 2, Flaw::Previous),
        (all[0].clone() + &spaced, 2, Flaw::Form),
        (all[0].clone() + &doubled, 2, Flaw::Form),
        (all[0].clone() + all[1].trim_end(), 2, Flaw::Form),
        ("[]\n".into(), 1, Flaw::Form),
    ];
    for (text, place, what) in cases {
        std::fs::write(&path, &text).unwrap();
        let Err(AuditError::Broken { line, flaw, .. }) = verify(&path, None) else { unreachable!("{text}") };
        assert_eq!((line, flaw), (place, what), "{text}");
    }
}

/// One edit of a file's lines.
#[derive(Debug, Clone)]
enum Edit {
    Byte(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Delete(prop::sample::Index),
    Cut(prop::sample::Index),
    Remove(prop::sample::Index),
    Repeat(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn edits() -> impl Strategy<Value = Edit> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
        (place(), prop_oneof![any::<u8>(), Just(b' '), Just(b'\n'), Just(b'0')])
            .prop_map(|(at, byte)| Edit::Insert(at, byte)),
        place().prop_map(Edit::Delete),
        place().prop_map(Edit::Cut),
        place().prop_map(Edit::Remove),
        place().prop_map(Edit::Repeat),
        (place(), place()).prop_map(|(a, b)| Edit::Swap(a, b)),
    ]
}

fn apply(edit: &Edit, lines: &[String]) -> Vec<u8> {
    let mut lines = lines.to_vec();
    let mut bytes = lines.concat().into_bytes();
    match edit {
        Edit::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Edit::Insert(at, byte) => bytes.insert(at.index(bytes.len() + 1), *byte),
        Edit::Delete(at) => {
            bytes.remove(at.index(bytes.len()));
        }
        Edit::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Edit::Remove(at) => {
            lines.remove(at.index(lines.len()));
            return lines.concat().into_bytes();
        }
        Edit::Repeat(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at].clone());
            return lines.concat().into_bytes();
        }
        Edit::Swap(a, b) => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
            return lines.concat().into_bytes();
        }
    }
    bytes
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_single_edit_is_found(data in prop::collection::vec(data(), 1..5), edits in prop::collection::vec(edits(), 16)) {
        let directory = tempfile::tempdir().unwrap();
        let (path, head) = chain(directory.path(), &data);
        prop_assert_eq!(&verify(&path, Some(&head)).unwrap(), &head);
        let before = lines(&path);
        for edit in edits {
            let after = apply(&edit, &before);
            if after == before.concat().as_bytes() {
                continue;
            }
            std::fs::write(&path, &after).unwrap();
            prop_assert!(verify(&path, Some(&head)).is_err(), "{:?}", edit);
        }
    }
}
