//! `verify` as a user runs it, on the embedded engine: as root, and by its lane as a plain user.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use crate::common::{is_root, ringfence};
use serde_json::Value;

fn verified(arguments: &[&str]) -> Value {
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) = ringfence(place.path(), &[&["verify", "--json"], arguments].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let unmet: Vec<&Value> = report["probes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|probed| !matches!(probed["verdict"].as_str(), Some("pass" | "unclaimed")))
        .collect();
    assert_eq!(code, 0, "{unmet:#?}");
    assert!(unmet.is_empty(), "{unmet:#?}");
    report
}

fn verdict<'a>(report: &'a Value, id: &str) -> &'a str {
    let probed = report["probes"].as_array().unwrap().iter().find(|probed| probed["id"] == id);
    probed.unwrap_or_else(|| panic!("no probe {id}"))["verdict"].as_str().unwrap()
}

#[test]
fn the_levels_of_the_embedded_engine_are_proven() {
    for profile in ["T0.H1.N1", "T0.H1.N2", "T0.H1.N0"] {
        let report = verified(&[profile]);
        assert_eq!(report["schema"], "ringfence.verification/1");
        assert_eq!(report["conclusion"], "as_planned");
        assert_eq!(report["zones"]["agent"]["observed"], profile);
        let probes = report["probes"].as_array().unwrap();
        assert!(probes.len() >= 50, "{}", probes.len());
        let passed = probes.iter().filter(|probed| probed["verdict"] == "pass").count();
        assert!(passed >= 60, "{profile}: {passed}");
        // What a level promises is proven, not passed over.
        let unclaimed = |id: &str| verdict(&report, id) == "unclaimed";
        assert_eq!(unclaimed("sni_other"), profile == "T0.H1.N0");
        assert!(!unclaimed("metadata_address") && !unclaimed("private_name") && !unclaimed("udp"));
        // Where the plan has no control groups it says so.
        assert!(!is_root() || !unclaimed("limit_memory"));
        assert!(report["duration_ms"].as_u64().unwrap() < 30_000);
    }
}

#[test]
fn the_fast_part_is_a_part_and_says_the_same() {
    let report = verified(&["T0.H1.N1", "--fast"]);
    assert_eq!(report["speed"], "fast");
    assert_eq!(report["zones"]["agent"]["observed"], "T0.H1.N1");
    assert!(report["probes"].as_array().unwrap().len() >= 25);
    assert!(report["duration_ms"].as_u64().unwrap() < 10_000);
}

#[test]
fn phases_are_proven_each_by_itself() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("profile.yaml");
    let text = "profile: T0.H1.N2\napproval: ci\nphases:\n  setup: {network: {level: N1, allow_domains: [packages.example.net]}}\n";
    std::fs::write(&path, text).unwrap();
    let (code, _, err) = ringfence(place.path(), &["plan", path.to_str().unwrap()]);
    if code == 0 {
        let report = verified(&["--fast", path.to_str().unwrap()]);
        assert_eq!(report["zones"]["setup"]["observed"], "T0.H1.N1");
        assert_eq!(report["zones"]["agent"]["observed"], "T0.H1.N2");
    } else {
        panic!("{err}");
    }
}

#[test]
fn tools_are_held_against_their_level() {
    let report = verified(&["T2.H1.N2", "--fast"]);
    assert_eq!(report["zones"]["agent"]["observed"], "T2.H1.N2");
    assert_eq!(verdict(&report, "offered_execution"), "pass");
}

#[test]
fn what_has_no_wall_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (code, _, err) = ringfence(place.path(), &["verify", "T0.H0.N0", "--justification", "a test"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("no wall"), "{err}");
    let (code, _, err) = ringfence(place.path(), &["verify", "T0.H9.N0"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn people_see_a_table_and_the_observed_profile() {
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) = ringfence(place.path(), &["verify", "T0.H1.N2", "--fast"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("observed T0.H1.N2") && out.contains("as planned"), "{out}");
    assert!(out.contains("namespace_pid") && out.contains("PASS"), "{out}");
}

/// An image that brings something into /sys, where a sandbox must have nothing.
#[test]
fn what_does_not_hold_ends_with_5_and_names_control_probe_and_evidence() {
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image");
    std::fs::create_dir_all(image.join("sys")).unwrap();
    std::fs::write(image.join("sys/board"), "of somebody").unwrap();
    let image = format!("dir:{}", image.display());
    let (code, out, err) = ringfence(place.path(), &["verify", "T0.H1.N2", "--image", &image]);
    assert_eq!(code, 5, "{out}{err}");
    let evidence = "fail: control `kernel_interfaces`, probe `sysfs`: board and others";
    assert_eq!(err.trim(), evidence, "{out}");
    assert!(out.contains("observed T0.H0.N2") && out.contains("downgrade"), "{out}");
    let (code, out, err) = ringfence(place.path(), &["verify", "T0.H1.N2", "--image", &image, "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &report["conclusion"]), (5, &Value::from("downgrade")), "{err}");
    assert_eq!(verdict(&report, "sysfs"), "fail");
}

fn header(place: &std::path::Path) -> Value {
    let log = std::fs::read_dir(place.join("logs")).unwrap().flatten().map(|entry| entry.path());
    let log = log.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
    serde_json::from_slice(&std::fs::read(log).unwrap()).unwrap()
}

const TASK: &str = "name: small\nprofile: T0.H1.N2\napproval: ci\nmodel: mock/echo\ndataset: [{id: one, input: hello, target: hello}]\nsolver: generate\nscorer: includes\n";

fn evaluate(place: &std::path::Path, more: &[&str]) -> (i32, String) {
    let task = place.join("task.yaml");
    std::fs::write(&task, TASK).unwrap();
    let (task, logs) = (task.to_str().unwrap().to_owned(), place.join("logs").to_str().unwrap().to_owned());
    let arguments = [&["eval", &task, "--log-dir", &logs, "--log-format", "json"], more].concat();
    let (code, out, err) = ringfence(place, &arguments);
    (code, format!("{out}{err}"))
}

#[test]
fn an_evaluation_begins_with_a_proof() {
    let place = tempfile::tempdir().unwrap();
    let (code, said) = evaluate(place.path(), &[]);
    assert_eq!(code, 0, "{said}");
    let verified = &header(place.path())["eval"]["metadata"]["ringfence"]["verified"];
    assert_eq!((&verified["speed"], &verified["conclusion"]), (&Value::from("fast"), &Value::from("as_planned")));
    assert_eq!(verified["zones"]["agent"]["observed"], "T0.H1.N2");
    assert!(verified["probes"].as_array().unwrap().len() >= 25);
    let observed = &header(place.path())["eval"]["metadata"]["ringfence_observed"];
    assert_eq!((&observed["state"], &observed["profile"]), (&Value::from("probed"), &Value::from("T0.H1.N2")));
}

#[test]
fn going_without_a_proof_needs_a_reason() {
    let place = tempfile::tempdir().unwrap();
    let (code, said) = evaluate(place.path(), &["--verify", "off"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("--justification"), "{said}");
    let (code, said) = evaluate(place.path(), &["--verify", "off", "--justification", "proven an hour ago"]);
    assert_eq!(code, 0, "{said}");
    let verified = &header(place.path())["eval"]["metadata"]["ringfence"]["verified"];
    assert_eq!(verified["speed"], "off");
    assert_eq!(verified["justification"], "proven an hour ago");
}
