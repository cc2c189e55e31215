//! Receipts as a user has them: a key, a signed run, and whoever checks it elsewhere.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::evaluation::{calls, dump, ended, eval, write};
use common::ringfence;
use serde_json::{Value, json};

/// A key where the command looks for one; its public half, and its id.
fn key(place: &Path) -> (String, String) {
    let (code, out, err) = ringfence(place, &["--json", "key", "new"]);
    assert_eq!(code, 0, "{err}");
    let made: Value = serde_json::from_str(&out).unwrap();
    let public = place.join("public.pem").display().to_string();
    let (code, _, err) = ringfence(place, &["key", "show", "--public", &public]);
    assert_eq!(code, 0, "{err}");
    (public, made["keyid"].as_str().unwrap().to_owned())
}

/// A task that is refused a name, in a sandbox.
fn task(place: &Path) -> String {
    let look = calls(&[("bash", json!({"command": "getent hosts forbidden.example.org; true"}))]);
    let head = "name: signed\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nsolver: {kind: agent}\nscorer: includes\n";
    write(place, "task.yaml", &format!("{head}dataset: [{{id: one, input: go, target: done}}]\n{look}"))
}

/// One without a sandbox.
fn words(place: &Path) -> String {
    let text = "name: words\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\n\
                dataset: [{id: one, input: go, target: done, mock: [{text: done}]}]\n";
    write(place, "words.yaml", text)
}

fn run(place: &Path, task: &str, more: &[&str]) -> (String, Value) {
    let (code, result, err) = ended(place, &[&[task], more].concat());
    assert_eq!(code, 0, "{err}");
    (result["log"].as_str().unwrap().to_owned(), result)
}

fn verify(place: &Path, log: &str, more: &[&str]) -> (i32, String) {
    let (code, out, err) = ringfence(place, &[&["log", "verify", log], more].concat());
    (code, format!("{out}{err}"))
}

#[test]
fn a_run_is_signed_and_checked_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, id) = key(place);
    for format in ["eval", "json"] {
        let (log, result) = run(place, &task(place), &["--log-format", format]);
        let receipt = PathBuf::from(result["receipt"].as_str().unwrap());
        let name = Path::new(&log).file_name().unwrap().to_str().unwrap();
        assert_eq!(receipt, Path::new(&log).with_file_name(format!("_{name}.receipt.json")));
        // Elsewhere, with three files and a public key.
        let elsewhere = place.join(format!("elsewhere-{format}"));
        std::fs::create_dir(&elsewhere).unwrap();
        for path in [&receipt, Path::new(&log), &PathBuf::from(log.replace(&format!(".{format}"), ".audit.jsonl"))] {
            std::fs::copy(path, elsewhere.join(path.file_name().unwrap())).unwrap();
        }
        let log = elsewhere.join(name).display().to_string();
        let (code, said) = verify(&elsewhere, &log, &["--key", &public]);
        assert_eq!((code, said.lines().count()), (0, 1), "{said}");
        assert!(
            said.contains("T0.H1.N2") && said.contains(&format!("asserted by key sha256:{id} (trusted)")),
            "{said}"
        );
        assert_eq!(verify(&elsewhere, &log, &["--keyid", &id]).0, 0);
        let (code, said) = verify(&elsewhere, &log, &[]);
        assert!(code == 0 && said.contains("nobody vouches"), "{said}");
        let (_, out, _) = ringfence(&elsewhere, &["--json", "log", "verify", &log]);
        let said: Value = serde_json::from_str(&out).unwrap();
        let asserted = &said["receipt"]["statement"]["predicate"]["run"];
        assert_eq!(asserted["approvals"], json!({"approve": 1}), "{asserted}");
        assert!(asserted["network"]["queries"]["refused"].as_u64().unwrap() > 0, "{asserted}");
        assert_eq!(asserted["samples"], json!({"total": 1, "done": 1, "failed": 0}));
        let observed = &asserted["profile"]["observed"];
        assert_eq!((&observed["state"], &observed["profile"]), (&json!("probed"), &json!("T0.H1.N2")), "{asserted}");
        assert_eq!(asserted["images"][0]["pin"], "unpinned");
        let header = dump(&elsewhere, &log);
        assert_eq!(header["eval"]["metadata"]["ringfence_receipt"], json!({"expected": true, "keyid": id}));
    }
    let (_, listed, _) = ringfence(place, &["--json", "log", "list", place.join("logs").to_str().unwrap()]);
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()["logs"].as_array().unwrap().len(), 2, "{listed}");
}

#[test]
fn whatever_is_changed_of_a_signed_run_is_exit_5() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, _) = key(place);
    let (log, result) = run(place, &task(place), &[]);
    let chain = log.replace(".eval", ".audit.jsonl");
    let receipt = result["receipt"].as_str().unwrap();
    let is_found = |what: &str| {
        let (code, said) = verify(place, &log, &["--key", &public]);
        assert_eq!(code, 5, "{what}: {said}");
        assert_eq!(verify(place, &log, &[]).0, 5, "{what}, without the key");
    };
    for file in [&log, &chain, receipt] {
        let good = std::fs::read(file).unwrap();
        // The library's tests change every byte; here some, through the whole command.
        for at in (0..good.len()).step_by(good.len() / 7).chain([good.len() - 1]) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(file, bad).unwrap();
            is_found(&format!("byte {at} of {file}"));
        }
        std::fs::write(file, [&good[..], b"\n"].concat()).unwrap();
        is_found(&format!("a line more in {file}"));
        std::fs::write(file, &good).unwrap();
    }
    let lines = std::fs::read_to_string(&chain).unwrap();
    std::fs::write(&chain, &lines[..=lines.trim_end().rfind('\n').unwrap()]).unwrap();
    is_found("the last line is gone");
    std::fs::write(&chain, &lines).unwrap();
    assert_eq!(verify(place, &log, &["--key", &public]).0, 0);
    std::fs::remove_file(receipt).unwrap();
    is_found("no receipt");
    assert_eq!(verify(place, "nothing.eval", &[]).0, 2, "there is no such log");
}

#[test]
fn without_a_key_the_log_says_so_and_who_wants_a_receipt_hears_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (log, result) = run(place, &words(place), &[]);
    assert_eq!(result["receipt"], Value::Null);
    let said = &dump(place, &log)["eval"]["metadata"]["ringfence_receipt"];
    assert_eq!(*said, json!({"expected": false, "reason": "no signing key"}));
    let (code, said) = verify(place, &log, &[]);
    assert!(code == 0 && said.contains("nobody signed it: no signing key"), "{said}");
    let (code, said) = verify(place, &log, &["--require-receipt"]);
    assert!(code == 5 && said.contains("is missing"), "{said}");
    let (public, id) = key(place);
    assert_eq!(verify(place, &log, &["--key", &public]).0, 5);
    assert_eq!(verify(place, &log, &["--keyid", &id]).0, 5);
    assert_eq!(verify(place, &log, &["--keyid", "abc"]).0, 2);
    assert_eq!(verify(place, &log, &["--key", &log]).0, 2, "that is no key");
}

#[test]
fn keys_are_never_written_over_and_a_key_that_others_may_read_signs_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (_, id) = key(place);
    let file = place.join("config/ringfence/signing.key");
    let before = std::fs::read_to_string(&file).unwrap();
    let (code, out, err) = ringfence(place, &["key", "new"]);
    assert!(code == 2 && err.contains("never written over"), "{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let secret = before.lines().nth(1).unwrap();
    let (_, shown, _) = ringfence(place, &["key", "show"]);
    assert!(shown.contains(&id) && !format!("{shown}{out}{err}").contains(secret), "{shown}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, result, err) = ended(place, &[&words(place)]);
    assert_eq!(code, 2, "{result}{err}");
    assert!(format!("{result}{err}").contains("chmod 600"), "{result}{err}");
    assert!(!place.join("logs").exists(), "nothing was begun");
    // Another key, by option and by variable.
    let other = place.join("other.key").display().to_string();
    assert_eq!(ringfence(place, &["key", "new", "--file", &other]).0, 0);
    assert!(run(place, &words(place), &["--key", &other]).1["receipt"].is_string());
    let output = eval(place, &[&words(place)]).env("RINGFENCE_SIGNING_KEY", &other).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, _, err) = ended(place, &[&words(place), "--key", "nowhere.key"]);
    assert_eq!(code, 2, "{err}");
}

/// Without isolation an agent reads what we read. What it finds is not written down.
#[test]
fn the_signing_key_is_in_no_log() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    key(place);
    let file = place.join("config/ringfence/signing.key");
    let secret = std::fs::read_to_string(&file).unwrap().lines().nth(1).unwrap().to_owned();
    let command = format!("cat {0}; sed -n 2p {0}", file.display());
    let look = calls(&[("bash", json!({"command": command}))]);
    let head = "name: thief\nprofile: T0.H0.N0\napproval: ci\njustification: a test\ntools: [bash, submit]\n\
                solver: {kind: agent}\nscorer: includes\ndataset: [{id: one, input: go, target: done}]\n";
    let grants = ["--allow-local", "--allow-full-network"];
    let (log, _) = run(place, &write(place, "thief.yaml", &format!("{head}{look}")), &grants);
    let whole = dump(place, &log).to_string();
    assert!(whole.contains("PRIVATE KEY") || whole.contains("[REDACTED]"), "{whole}");
    assert!(!whole.contains(&secret[24..]), "the secret is in the log");
    assert_eq!(verify(place, &log, &[]).0, 0);
}

#[test]
fn a_log_that_was_judged_again_is_signed_by_whoever_judged_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, _) = key(place);
    let (log, _) = run(place, &words(place), &[]);
    let judged = |more: &[&str]| {
        let (code, out, err) = ringfence(place, &[&["--json", "score", &log, "--scorer", "includes"], more].concat());
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let signed = judged(&[]);
    let again = signed["log"].as_str().unwrap();
    let (code, said) = verify(place, again, &["--key", &public]);
    assert!(code == 0 && said.contains("judged again from"), "{said}");
    let (_, out, _) = ringfence(place, &["--json", "log", "verify", again]);
    let said: Value = serde_json::from_str(&out).unwrap();
    let digest = log::digest(Path::new(&log)).unwrap();
    let scored = &said["receipt"]["statement"]["predicate"]["run"]["scored"];
    assert_eq!(*scored, json!({"log": Path::new(&log).file_name().unwrap().to_str(), "sha256": digest}));
    // Without the key: the new log does not repeat what the old one says of its receipt.
    std::fs::remove_file(place.join("config/ringfence/signing.key")).unwrap();
    let unsigned = judged(&[]);
    assert_eq!(unsigned["receipt"], Value::Null);
    assert_eq!(verify(place, unsigned["log"].as_str().unwrap(), &[]).0, 0);
    assert_eq!(verify(place, &log, &["--key", &public]).0, 0);
}

#[test]
fn runs_that_were_interrupted_and_those_that_go_on_are_signed_too() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, _) = key(place);
    let slow = calls(&[("bash", json!({"command": "sleep 3"}))]);
    let head = "name: slow\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nsolver: {kind: agent}\nscorer: includes\n\
                dataset: [{id: fast, input: go, target: done, mock: [{tool_calls: [{name: submit, arguments: {answer: done}}]}]}, \
                {id: slow, input: go, target: done}]\n";
    let task = write(place, "slow.yaml", &format!("{head}{slow}"));
    let child = eval(place, &[&task]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let logs = place.join("logs");
    let chain = || {
        let mut files = std::fs::read_dir(&logs).into_iter().flatten().map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|end| end == "jsonl"))
    };
    // The slow one was allowed to begin; the fast one has ended by then, or nearly.
    while !chain().is_some_and(|chain| std::fs::read_to_string(chain).unwrap().contains("\"bash\",")) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let log = result["log"].as_str().unwrap();
    let (code, said) = verify(place, log, &["--key", &public]);
    assert_eq!(code, 0, "{said}");
    let (code, out, err) = ringfence(place, &["--json", "eval-retry", log, "--task", &task]);
    assert_eq!(code, 0, "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let again = result["log"].as_str().unwrap();
    let (_, out, err) = ringfence(place, &["--json", "log", "verify", again, "--key", &public]);
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|_| json!(err));
    let run = &said["receipt"]["statement"]["predicate"]["run"];
    assert_eq!(run["samples"]["done"], 2, "{said}");
    assert_eq!(run["kept"]["log"], json!(Path::new(log).file_name().unwrap().to_str()), "{said}");
}
