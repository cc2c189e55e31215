//! Every way of starting on every host: what `doctor` says is what then happens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hosts::{Machine, Suite};
use serde_json::Value;

use crate::ways::{WAYS, Way};

/// Where the table is.
const TABLE: &str = "docs/reference/hosts.md";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn boot(suite: Suite) -> Machine {
    let image = hosts::image::of(suite, &workspace().join("target/hosts")).unwrap();
    let machine = Machine::boot(&image, "").unwrap();
    let program = std::env::var_os("RINGFENCE").unwrap_or_else(|| workspace().join("target/ci/ringfence").into());
    machine.put(Path::new(&program), "/usr/local/bin/ringfence").unwrap();
    machine.put(&workspace().join("examples"), "/opt/examples").unwrap();
    machine.put(&workspace().join("crates/hosts/tests/it/try.sh"), "/opt/try.sh").unwrap();
    assert_eq!(machine.run("root", "chmod -R a+rX /opt /usr/local/bin").unwrap().code, 0);
    machine
}

/// The lines `name=value` of a script.
fn values(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

/// Which capabilities doctor says are there, and what it says to do for the rest.
fn capabilities(text: &str) -> BTreeMap<String, (bool, String)> {
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    assert!(!line.is_empty(), "no answer of doctor: {text}");
    let doctor: Value = serde_json::from_str(line).unwrap();
    let of = |one: &Value| {
        let words = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        (words("capability"), (one["status"] == "works", words("fix")))
    };
    doctor["capabilities"].as_array().unwrap().iter().map(of).collect()
}

/// Tries a way, and gives its row.
fn row(machine: &Machine, way: &Way) -> String {
    let text = way.run(machine, "/opt/try.sh", "/opt/examples").unwrap().text;
    let (found, said) = (values(&text), capabilities(&text));
    let says = |name: &str| said[name].0;
    for needed in ["user_namespaces", "overlay", "seccomp", "nftables", "landlock"] {
        assert!(says(needed), "{}: {needed}: {said:?}", way.name);
    }
    // What doctor says of limits is what holds.
    assert_eq!(says("cgroups"), way.limits, "{}: {:?}", way.name, said["cgroups"]);
    // Before Linux 6.6, a plain user's tmpfs has no place for the mark of a directory that hides another.
    let again = if machine.suite() == Suite::Bookworm && !way.is_root() { "1" } else { "0" };
    let (memory, pids) = if way.limits { ("137", "7") } else { ("3", "0") };
    let expected = [("run", "0"), ("again", again), ("memory", memory), ("pids", pids), ("disk", "0")];
    let proofs = ["verify_T0.H1.N1", "verify_T0.H1.N2", "eval_first", "eval_ctf"].map(|name| (name, "0"));
    for (name, value) in expected.into_iter().chain(proofs).chain([("left", "0 0")]) {
        assert_eq!(found.get(name), Some(&value), "{}: {name}: {text}", way.name);
    }
    let mut outcome = "works".to_owned();
    if !way.limits {
        outcome.push_str("; memory, processes and processor are not bounded (`unbounded`)");
    }
    if again != "0" {
        outcome.push_str("; a directory of the image that was removed cannot be made again");
    }
    format!("| {} | {} | {outcome} |", machine.suite().title(), way.name)
}

/// A plain user where the administrator allows no user namespaces.
fn without_user_namespaces(machine: &Machine) -> String {
    let name = "user, `kernel.unprivileged_userns_clone=0`";
    machine.run("root", "sysctl -q kernel.unprivileged_userns_clone=0").unwrap();
    let doctor = machine.run("alice", "ringfence doctor --json | tr -d ' \\n'").unwrap();
    let refused = machine.run("alice", "ringfence run -- true").unwrap();
    machine.run("root", "sysctl -q kernel.unprivileged_userns_clone=1").unwrap();
    let (works, fix) = capabilities(&doctor.text)["user_namespaces"].clone();
    assert!(!works && fix.contains("unprivileged_userns_clone"), "{fix}");
    assert!(refused.code == 3 && refused.text.contains("unprivileged_userns_clone"), "{refused:?}");
    format!("| {} | {name} | refused: `sysctl kernel.unprivileged_userns_clone=1` |", machine.suite().title())
}

fn holds(suite: Suite) {
    let machine = boot(suite);
    let mut rows: Vec<String> = WAYS.iter().map(|way| row(&machine, way)).collect();
    rows.push(without_user_namespaces(&machine));
    let table = std::fs::read_to_string(workspace().join(TABLE)).unwrap();
    let missing: Vec<&String> = rows.iter().filter(|row| !table.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "{TABLE} lacks:\n{}", rows.join("\n"));
}

#[test]
fn debian_12() {
    holds(Suite::Bookworm);
}

#[test]
fn debian_13() {
    holds(Suite::Trixie);
}
