//! Receipts as a user has them: a key, a signed run, and whoever checks it elsewhere.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::evaluation::{calls, dump, ended, eval, write};
use crate::common::ringfence;
use serde_json::{Value, json};

/// A key where the command looks for one; its public half, and its id.
pub(crate) fn key(place: &Path) -> (String, String) {
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
    let (public, keyid) = key(place);
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
    let vouched = json!({"by": "receipt", "keyid": keyid});
    let name = Path::new(&log).file_name().unwrap().to_str();
    assert_eq!(*scored, json!({"log": name, "sha256": digest, "vouched": vouched}));
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
        files.find(|path| path.to_string_lossy().ends_with(".audit.jsonl"))
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
    assert_eq!(run["kept"]["vouched"]["by"], "receipt", "{said}");
}

/// Two samples: a wrong one, and one that fails in every run, so that there is always something left to do.
fn half(place: &Path) -> String {
    let text = "name: half\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\n\
                dataset: [{id: wrong, input: go, target: right, mock: [{text: wrong}]}, \
                {id: broken, input: go, target: right, mock: []}]\n";
    write(place, "half.yaml", text)
}

/// Makes the wrong answer right, and the log one that expects no receipt, with a chain that fits.
pub(crate) fn forge(log: &str) {
    let path = Path::new(log);
    let mut forged: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for sample in forged["samples"].as_array_mut().unwrap().iter_mut().filter(|sample| sample["id"] == "wrong") {
        sample["scores"]["exact"]["value"] = json!("C");
    }
    let chain = path.with_extension("audit.jsonl");
    std::fs::remove_file(&chain).unwrap();
    let audit = log::audit::Audit::create(&chain).unwrap();
    let spec = &forged["eval"];
    let start = json!({"eval_id": spec["eval_id"], "plan": spec["metadata"]["ringfence"]["plan_hash"]});
    audit.record("start", start).unwrap();
    forged["eval"]["metadata"]["ringfence_audit"] = json!(audit.head());
    forged["eval"]["metadata"]["ringfence_receipt"] = json!({"expected": false, "reason": "no signing key"});
    std::fs::write(path, forged.to_string()).unwrap();
    let _ = std::fs::remove_file(receipt::beside(path));
}

#[test]
fn a_forged_score_is_not_gone_on_from_and_not_signed() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, keyid) = key(place);
    let task = half(place);
    let given = ["--fail-on-error", "false", "--log-format", "json"];
    let (log, _) = run(place, &task, &given);
    forge(&log);
    let logs = || std::fs::read_dir(place.join("logs")).unwrap().count();
    let before = logs();
    let set = place.join("set").display().to_string();
    let in_set = [&["--json", "eval-set", &task, "--log-dir", &set], &given[..]].concat();
    assert_eq!(ringfence(place, &in_set).0, 0);
    let is_log =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "json") && path.to_string_lossy().contains("_half_");
    let mut begun = std::fs::read_dir(&set).unwrap().map(|entry| entry.unwrap().path());
    let begun = begun.find(|path| is_log(path) && !receipt::is_receipt(path));
    forge(begun.unwrap().to_str().unwrap());
    for arguments in [
        &["--json", "eval-retry", &log, "--task", &task][..],
        &["--json", "score", &log, "--scorer", "includes"],
        &in_set,
    ] {
        let (code, out, err) = ringfence(place, arguments);
        assert!(
            code == 3 && err.contains("has no receipt") && err.contains("--trust-unsigned"),
            "{arguments:?}: {code} {out} {err}"
        );
    }
    assert_eq!(logs(), before, "no log and no receipt was made");
    // The operator takes it all the same: the log, its chain and its receipt say so.
    let retry = |log: &str, more: &[&str]| {
        let (code, out, err) = ringfence(place, &[&["--json", "eval-retry", log, "--task", &task], more].concat());
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()["log"].as_str().unwrap().to_owned()
    };
    let kept = |log: &str| {
        let (code, out, err) = ringfence(place, &["--json", "log", "verify", log, "--key", &public]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()["receipt"]["statement"]["predicate"]["run"]["kept"].clone()
    };
    let second = retry(&log, &["--trust-unsigned"]);
    let found = kept(&second);
    assert_eq!((&found["vouched"], &found["unsigned"]), (&json!({"by": "operator"}), &json!(1)), "{found}");
    assert_eq!((&found["list"][0]["id"], &found["list"][0]["unsigned"]), (&json!("wrong"), &json!(true)), "{found}");
    let (code, said) = verify(place, &second, &["--key", &public]);
    assert!(code == 0 && said.contains("1 samples, unsigned, accepted by the operator"), "{said}");
    assert_eq!(dump(place, &second)["eval"]["metadata"]["ringfence"]["kept"]["vouched"]["by"], "operator");
    // A second retry does not wash the mark away: the log is signed, and says what it rests on.
    let third = kept(&retry(&second, &[]));
    assert_eq!(third["vouched"], json!({"by": "receipt", "keyid": keyid, "unsigned": true}), "{third}");
    assert_eq!((&third["unsigned"], &third["list"][0]["unsigned"]), (&json!(1), &json!(true)), "{third}");
}

#[test]
fn a_log_of_another_key_needs_that_key_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, _) = key(place);
    let other = place.join("other.key").display().to_string();
    assert_eq!(ringfence(place, &["key", "new", "--file", &other]).0, 0);
    let task = half(place);
    let (log, _) = run(place, &task, &["--fail-on-error", "false"]);
    let retry =
        |more: &[&str]| ringfence(place, &[&["eval-retry", &log, "--task", &task, "--key", &other], more].concat());
    let (code, _, err) = retry(&[]);
    assert!(code == 3 && err.contains("which you do not trust") && err.contains("--trust-key"), "{code} {err}");
    let (code, _, err) = retry(&["--trust-key", &public]);
    assert_eq!(code, 0, "{err}");
    // Without a key nothing is signed, so nothing has to be vouched for.
    std::fs::remove_file(place.join("config/ringfence/signing.key")).unwrap();
    let (code, _, err) = ringfence(place, &["eval-retry", &log, "--task", &task]);
    assert_eq!(code, 0, "{err}");
}

/// A signed run of many samples that is killed when some are finished.
fn killed(place: &Path) -> (String, PathBuf) {
    killed_under(place, "")
}

/// The same, with more of the task and of the command line.
fn killed_under(place: &Path, head: &str) -> (String, PathBuf) {
    let samples: Vec<String> = (0..2000).map(|number| format!("{{id: s{number}, input: go, target: right}}")).collect();
    let text = format!(
        "name: killed\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\nmock: [{{text: wrong}}]\n{head}dataset: [{}]\n",
        samples.join(", ")
    );
    let task = write(place, "killed.yaml", &text);
    let mut child =
        eval(place, &[&task, "--max-samples", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    let logs = place.join("logs");
    let log = loop {
        assert!(Instant::now() < deadline, "no samples are finished");
        let files = std::fs::read_dir(&logs).into_iter().flatten().map(|entry| entry.unwrap().path());
        let found = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "eval"));
        let begun =
            |log: &PathBuf| log::Reader::open(log).and_then(|log| log.summaries()).is_ok_and(|found| found.len() >= 5);
        match found.filter(begun) {
            Some(log) => break log,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(log::Reader::open(&log).unwrap().status(), log::Status::Started, "it was not killed in time");
    (task, log)
}

/// Writes a killed log again, with changes to its `eval` and to its samples' scores (without samples whose score is null);
/// all else is the same to the byte.
fn rewritten(log: &Path, spec: impl Fn(&mut Value), scores: impl Fn(&str) -> Option<Value>) {
    let reader = log::Reader::open(log).unwrap();
    // Elsewhere: what the killed writer left is in its way here.
    let elsewhere = log.with_extension("forged");
    std::fs::create_dir(&elsewhere).unwrap();
    let forged = elsewhere.join(log.file_name().unwrap());
    let mut eval = reader.header()["eval"].clone();
    spec(&mut eval);
    let start = log::Start {
        spec: eval,
        plan: reader.header()["plan"].clone(),
        task: "killed".into(),
        eval_id: "x".into(),
        created: "2026-10-04T12:30:00+00:00".into(),
    };
    let recorder = log::Recorder::create_at(&forged, log::Format::Eval, start).unwrap();
    let samples = reader.samples().unwrap();
    for index in 0..samples.len() {
        let content = samples.get(index).unwrap().unwrap();
        let members = log::raw::members(&content).unwrap();
        let id: String = serde_json::from_slice(members[0].1).unwrap();
        if scores(&id) == Some(Value::Null) {
            continue;
        }
        let mut copy = recorder.sample(log::SampleName::Text(id.clone()), 1).unwrap();
        for (key, raw) in members {
            match scores(&id).filter(|_| key == "scores") {
                Some(forged) => copy.keep(&key, forged.to_string().as_bytes()).unwrap(),
                None => copy.keep(&key, raw).unwrap(),
            }
        }
        copy.complete(log::SampleEnd::default()).unwrap();
    }
    drop(recorder);
    std::fs::rename(&forged, log).unwrap();
    std::fs::remove_dir_all(&elsewhere).unwrap();
}

#[test]
fn a_killed_run_goes_on_by_its_checkpoint_and_a_sample_that_was_changed_is_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, keyid) = key(place);
    let (task, log) = killed(place);
    let retry = |more: &[&str]| {
        let log = log.display().to_string();
        let (code, out, err) = ringfence(place, &[&["--json", "eval-retry", &log, "--task", &task], more].concat());
        (code, serde_json::from_str::<Value>(&out).unwrap_or_default(), err)
    };
    let (good, chain, checkpoints) =
        (std::fs::read(&log).unwrap(), log.with_extension("audit.jsonl"), receipt::checkpoints_beside(&log));
    let (lines, signed) = (std::fs::read(&chain).unwrap(), std::fs::read(&checkpoints).unwrap());
    let restore = || {
        std::fs::write(&log, &good).unwrap();
        std::fs::write(&chain, &lines).unwrap();
        std::fs::write(&checkpoints, &signed).unwrap();
    };
    let refused = |what: &str, more: &[&str], code: i32, said: &str| {
        let (found, _, err) = retry(more);
        assert!(found == code && err.contains(said), "{what}: {found} {err}");
        restore();
    };
    // A wrong answer is made right.
    let right = |id: &str| (id == "s1").then(|| json!({"exact": {"value": "C", "answer": "right"}}));
    rewritten(&log, |_| {}, right);
    refused("a score", &[], 5, "the sample `s1` (epoch 1)");
    // Another model is said to have answered.
    rewritten(&log, |eval| eval["model"] = json!("mock/echo"), |_| None);
    refused("the model", &[], 5, "its model");
    rewritten(&log, |eval| eval["metadata"]["ringfence"]["invocation"]["max_samples"] = json!(7), |_| None);
    refused("the invocation", &[], 5, "its invocation");
    // What else is decided by it, or is said of the run in the new log.
    for (pointer, forged, what) in [
        ("/metadata/ringfence/approval", json!({"policy": "dev"}), "its approval policy"),
        ("/eval_set_id", json!("another"), "its evaluation set"),
        ("/metadata/ringfence/set_key", json!("another"), "its part of the set"),
        ("/task_id", json!("0123456789abcdef0123456789abcdef"), "its task id"),
        ("/scorers", json!([]), "its scorers"),
        ("/dataset/name", json!("another"), "its header"),
        ("/metadata/ringfence/kept", json!({"log": "another"}), "its header"),
    ] {
        rewritten(&log, |eval| *eval.pointer_mut(pointer).unwrap() = forged.clone(), |_| None);
        refused(pointer, &[], 5, what);
    }
    // The chain is written anew with the forged digests: no checkpoint fits it.
    std::fs::remove_file(&chain).unwrap();
    let audit = log::audit::Audit::create(&chain).unwrap();
    for line in String::from_utf8_lossy(&lines).lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        audit.record(line["kind"].as_str().unwrap(), line["data"].clone()).unwrap();
    }
    drop(audit);
    refused("the chain", &[], 3, "no checkpoint of a trusted key fits it");
    // Checkpoints of a key that is not trusted, and none.
    let other = place.join("other.key").display().to_string();
    assert_eq!(ringfence(place, &["key", "new", "--file", &other]).0, 0);
    refused("another key", &["--key", &other], 3, "--trust-unsigned");
    std::fs::remove_file(&checkpoints).unwrap();
    refused("no checkpoints", &[], 3, "--trust-unsigned");
    // As it was written it goes on; only what was signed is kept.
    rewritten(&log, |_| {}, |_| None);
    let (code, result, err) = retry(&["--max-samples", "8"]);
    assert_eq!((code, result["samples"].as_u64()), (0, Some(2000)), "{err}");
    let new = result["log"].as_str().unwrap();
    let (code, out, err) = ringfence(place, &["--json", "log", "verify", new, "--key", &public]);
    assert_eq!(code, 0, "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    let kept = &said["receipt"]["statement"]["predicate"]["run"]["kept"];
    assert_eq!(kept["vouched"], json!({"by": "checkpoint", "keyid": keyid}), "{kept}");
    assert!(kept["samples"].as_u64().is_some_and(|count| (1..2000).contains(&count)), "{kept}");
    assert_eq!(kept["list"].as_array().unwrap().len() as u64, kept["samples"].as_u64().unwrap());
    assert!(!receipt::checkpoints_beside(Path::new(new)).exists(), "a receipt takes their place");
    let (_, said) = verify(place, new, &["--key", &public]);
    assert!(said.contains(&format!("vouched for by a checkpoint of key sha256:{keyid}")), "{said}");
}

/// The policy file is exchanged between two runs, and the header of the killed run says that it was always the new one.
#[test]
fn the_approval_policy_of_a_killed_run_cannot_be_forged_in_its_header() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    key(place);
    let policy =
        |tools: &str| write(place, "policy.yaml", &format!("approvers: [{{name: auto, tools: \"{tools}\"}}]\n"));
    policy("*");
    let (task, log) = killed_under(place, "approval: policy.yaml\n");
    policy("bash*");
    let (other, _) = run(place, &task, &["--limit", "1"]);
    let forged = dump(place, &other)["eval"]["metadata"]["ringfence"]["approval"].take();
    let retry = |log: &Path| {
        let log = log.display().to_string();
        ringfence(place, &["--json", "eval-retry", &log, "--task", &task, "--max-samples", "8"])
    };
    let (code, _, err) = retry(&log);
    assert!(code == 3 && err.contains("the approval policy has changed"), "{code} {err}");
    rewritten(&log, |eval| eval["metadata"]["ringfence"]["approval"] = forged.clone(), |_| None);
    let (code, _, err) = retry(&log);
    assert!(code == 5 && err.contains("its approval policy"), "{code} {err}");
}

/// Writes a killed run's chain as earlier versions did, without digests of the header, and signs its head.
fn without_header(place: &Path, log: &Path) {
    let chain = log.with_extension("audit.jsonl");
    let lines = std::fs::read_to_string(&chain).unwrap();
    std::fs::remove_file(&chain).unwrap();
    let audit = log::audit::Audit::create(&chain).unwrap();
    let mut id = String::new();
    for line in lines.lines() {
        let Ok(mut line) = serde_json::from_str::<Value>(line) else { continue };
        if line["kind"] == "start" {
            line["data"].as_object_mut().unwrap().remove("header").unwrap();
            line["data"]["eval_id"].as_str().unwrap().clone_into(&mut id);
        }
        audit.record(line["kind"].as_str().unwrap(), line["data"].clone()).unwrap();
    }
    let head = audit.head();
    drop(audit);
    std::fs::remove_file(receipt::checkpoints_beside(log)).unwrap();
    let key = receipt::SigningKey::read(&place.join("config/ringfence/signing.key")).unwrap();
    receipt::add_checkpoint(log, &id, &head, &key).unwrap();
}

#[test]
fn a_checkpoint_of_a_chain_that_does_not_bind_its_header_vouches_for_nothing() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    key(place);
    let (task, log) = killed(place);
    without_header(place, &log);
    let path = log.display().to_string();
    let retry = |more: &[&str]| {
        ringfence(place, &[&["--json", "eval-retry", &path, "--task", &task, "--max-samples", "8"], more].concat())
    };
    let (code, _, err) = retry(&[]);
    assert!(code == 3 && err.contains("does not bind its header") && err.contains("--trust-unsigned"), "{code} {err}");
    let (code, out, err) = retry(&["--trust-unsigned"]);
    assert_eq!(code, 0, "{err}");
    let new = serde_json::from_str::<Value>(&out).unwrap()["log"].as_str().unwrap().to_owned();
    assert_eq!(dump(place, &new)["eval"]["metadata"]["ringfence"]["kept"]["vouched"]["by"], "operator");
}

/// Chain and checkpoints end before a sample that the log has: it runs again, and that is said.
#[test]
fn finished_samples_that_were_cut_from_a_killed_runs_chain_are_named_wherever_it_leads() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, _) = key(place);
    let (task, log) = killed(place);
    let (chain, checkpoints) = (log.with_extension("audit.jsonl"), receipt::checkpoints_beside(&log));
    let lines = std::fs::read_to_string(&chain).unwrap();
    // Up to the record of the third sample, with the checkpoints that were there by then.
    let ends: Vec<usize> = lines.match_indices("\"kind\":\"sample\"").map(|(at, _)| at).collect();
    let third = ends[2] + lines[ends[2]..].find('\n').unwrap() + 1;
    std::fs::write(&chain, &lines[..third]).unwrap();
    // One for the start, and one for each sample.
    let signed = std::fs::read_to_string(&checkpoints).unwrap();
    let left: String = signed.split_inclusive('\n').take(4).collect();
    std::fs::write(&checkpoints, left).unwrap();
    let path = log.display().to_string();
    let (code, out, err) = ringfence(place, &["--json", "eval-retry", &path, "--task", &task, "--max-samples", "8"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("finished before and are not kept") && err.contains("s3 (epoch 1): unrecorded"), "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let new = result["log"].as_str().unwrap();
    let (code, out, err) = ringfence(place, &["--json", "log", "verify", new, "--key", &public]);
    assert_eq!(code, 0, "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    let kept = &said["receipt"]["statement"]["predicate"]["run"]["kept"];
    assert_eq!(kept["samples"], 3, "{kept}");
    let first = &kept["dropped_list"][0];
    assert_eq!((&first["id"], &first["why"]), (&json!("s3"), &json!("unrecorded")), "{kept}");
    let (_, said) = verify(place, new, &["--key", &public]);
    assert!(said.contains("finished before and run again") && said.contains("s3 (epoch 1)"), "{said}");
}

#[test]
fn finished_samples_that_were_removed_from_a_killed_runs_log_are_named_wherever_it_leads() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (public, _) = key(place);
    let (task, log) = killed(place);
    let whole = verify(place, &log.display().to_string(), &[]);
    assert!(whole.0 == 0 && !whole.1.contains("missing"), "{}", whole.1);
    rewritten(&log, |_| {}, |id| matches!(id, "s1" | "s3").then_some(Value::Null));
    // The log itself, beside its chain.
    let path = log.display().to_string();
    let (code, said) = verify(place, &path, &[]);
    assert!(code == 0 && said.contains("missing from the log: 2 samples") && said.contains("s3 (epoch 1)"), "{said}");
    let (_, out, _) = ringfence(place, &["--json", "log", "verify", &path]);
    let missing: Value = serde_json::from_str::<Value>(&out).unwrap()["missing"].take();
    assert_eq!((&missing["count"], &missing["list"][0]["id"]), (&json!(2), &json!("s1")), "{missing}");
    // Going on says it, at once and in the log, its chain and its receipt; and so does going on from there.
    let dropped = |log: &str| {
        let (code, out, err) = ringfence(place, &["--json", "log", "verify", log, "--key", &public]);
        assert_eq!(code, 0, "{err}");
        let kept = &serde_json::from_str::<Value>(&out).unwrap()["receipt"]["statement"]["predicate"]["run"]["kept"];
        let ids = kept["dropped_list"].as_array().unwrap().iter().map(|one| (one["id"].clone(), one["why"].clone()));
        let missing: Vec<Value> = ids.filter(|(_, why)| why == "missing").map(|(id, _)| id).collect();
        (kept["dropped"].as_u64().unwrap(), missing)
    };
    let retry = |log: &str, more: &[&str]| {
        let arguments = [&["--json", "eval-retry", log, "--task", &task, "--max-samples", "8"], more].concat();
        let (code, out, err) = ringfence(place, &arguments);
        let result: Value = serde_json::from_str(&out).unwrap_or_default();
        (code, result["log"].as_str().map(str::to_owned), err)
    };
    // A limit of the run ends it early: the samples are missing in the log that it leaves, too.
    let (code, first, err) = retry(&path, &["--run-message-limit", "40"]);
    assert!(code != 0 && err.contains("finished before and are not kept") && err.contains("s1 (epoch 1)"), "{err}");
    let first = first.unwrap();
    let (code, new, err) = retry(&first, &["--run-message-limit", "100000"]);
    assert_eq!(code, 0, "{err}");
    let new = new.unwrap();
    for log in [&first, &new] {
        let (count, missing) = dropped(log);
        assert!(count >= 2 && missing == [json!("s1"), json!("s3")], "{log} {count} {missing:?}");
    }
    let (_, said) = verify(place, &new, &["--key", &public]);
    assert!(said.contains("finished before and run again") && said.contains("s3 (epoch 1)"), "{said}");
}
