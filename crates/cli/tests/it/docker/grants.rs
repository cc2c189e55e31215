//! What only the operator grants, whose logs are gone on from, and what files and mounts a task may have, with containers.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::evaluation::{ended, write};
use crate::common::ringfence;
use crate::docker::daemon::{DEBIAN, among, run};
use crate::receipts::{forge, key};

/// The lines of a document that choose a container of this image.
pub(crate) fn engine() -> String {
    format!("sandbox: docker\nimage: {DEBIAN}\n")
}

/// Runs a command that prints JSON: code, what it printed, both streams.
fn json_of(place: &Path, arguments: &[&str]) -> (i32, Value, String) {
    let (code, out, err) = ringfence(place, &[&["--json"], arguments].concat());
    (code, serde_json::from_str(&out).unwrap_or_default(), format!("{out}{err}"))
}

/// A sample that is wrong and one that fails, so that a retry has something to keep and something to run.
#[test]
fn a_task_with_containers_is_gone_on_from_only_with_the_operators_grants_and_a_trusted_log() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, keyid) = key(place);
    let out = tempfile::tempdir().unwrap();
    let head = format!(
        "profile: T0.H1.N0\njustification: j\napproval: ci\n{}mounts: ['{}:/out:rw']\n",
        engine(),
        out.path().display()
    );
    let submit = json!([{"tool_calls": [{"name": "submit", "arguments": {"answer": "wrong"}}]}]);
    let rest = format!(
        "name: half\ntools: [bash, submit]\nsolver: {{kind: agent}}\nscorer: exact\nmodel: mock/scripted\n\
         dataset: [{{id: wrong, input: go, target: right, mock: {submit}}}, {{id: broken, input: go, target: right, mock: []}}]\n"
    );
    let task = write(place, "half.yaml", &format!("{head}{rest}"));
    let document = write(place, "document.yaml", &head);
    let grants = ["--allow-full-network", "--allow-writable-mounts"];
    let given = ["--fail-on-error", "false", "--log-format", "json"];
    let (code, result, err) = ended(place, &[&[task.as_str()], &given[..], &grants].concat());
    assert_eq!((code, &result["failed"]), (0, &json!(1)), "{err}");
    let log = result["log"].as_str().unwrap();
    let set = place.join("set").display().to_string();
    for arguments in [
        &["eval-retry", log, "--task", &task][..],
        &["eval-set", &task, "--log-dir", &set],
        &["verify", "--fast", &document],
        &["verify", "--fast", "--provider", "docker", &document],
    ] {
        let (code, _, said) = json_of(place, arguments);
        assert_eq!(code, 3, "{arguments:?}: {said}");
        assert!(grants.iter().all(|grant| said.contains(grant)), "{arguments:?}: {said}");
    }
    let retry = |log: &str| json_of(place, &[&["eval-retry", log, "--task", &task], &grants[..]].concat());
    // The score of the kept sample is forged, and the log says that no receipt belongs to it.
    let forged = place.join("forged.json");
    std::fs::copy(log, &forged).unwrap();
    std::fs::copy(log.replace(".json", ".audit.jsonl"), forged.with_extension("audit.jsonl")).unwrap();
    forge(forged.to_str().unwrap());
    let (code, _, said) = retry(forged.to_str().unwrap());
    assert!(code == 3 && said.contains("has no receipt") && said.contains("--trust-unsigned"), "{code} {said}");
    assert!(!receipt::beside(&forged).exists(), "nothing is signed");
    // The log as it was signed.
    let (code, result, said) = retry(log);
    assert_eq!((code, &result["samples"]), (0, &json!(2)), "{said}");
    let (code, checked, said) = json_of(place, &["log", "verify", result["log"].as_str().unwrap(), "--key", &public]);
    assert_eq!(code, 0, "{said}");
    let kept = &checked["receipt"]["statement"]["predicate"]["run"]["kept"];
    assert_eq!((&kept["samples"], &kept["list"][0]["id"]), (&json!(1), &json!("wrong")), "{kept}");
    assert_eq!(kept["vouched"], json!({"by": "receipt", "keyid": keyid}), "{kept}");
}

#[test]
fn files_of_samples_that_are_swapped_or_in_a_writable_mount_are_refused() {
    let _among = among();
    crate::eval::swapped_files(&engine());
    crate::eval::files_in_writable_mounts(&engine());
}

#[test]
fn mounts_through_links_of_keys_and_of_homes_are_refused() {
    let _among = among();
    crate::eval::mounts_of_links_and_keys(&engine());
    let place = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let data = data.path().canonicalize().unwrap();
    for directory in ["keys/.ssh", "deep/er", "plain"] {
        std::fs::create_dir_all(data.join(directory)).unwrap();
    }
    let pem = "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n";
    std::fs::write(data.join("deep/er/server.pem"), pem).unwrap();
    std::fs::write(data.join("plain/file"), "there").unwrap();
    std::os::unix::fs::symlink("/usr", data.join("planted")).unwrap();
    let home = std::env::home_dir().unwrap();
    for (source, expected, why) in [
        (data.join("planted"), 3, "is a link"),
        (data.join("planted/share"), 3, "is a link"),
        (data.join("keys"), 3, "--dangerously-mount-secrets"),
        (data.join("deep"), 3, "--dangerously-mount-secrets"),
        (home, 2, "it is a user's whole home"),
    ] {
        for mode in ["", ":rw"] {
            let mount = format!("{}:/o{mode}", source.display());
            let (code, out, err) = run(place.path(), DEBIAN, &["--mount", &mount], &["ls", "-A", "/o"]);
            assert_eq!((code, out.as_str()), (expected, ""), "{mount}: {err}");
            assert!(err.contains(why), "{mount}: {err}");
        }
    }
    let mount = format!("{}:/o", data.join("keys").display());
    let options = ["--dangerously-mount-secrets", "--mount", &mount];
    let (code, out, err) = run(place.path(), DEBIAN, &options, &["ls", "-A", "/o"]);
    assert_eq!((code, out.as_str()), (0, ".ssh\n"), "{err}");
}
