//! Inputs of a task that its agent could change: files in writable mounts, and files that are swapped during a run.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::{dump, ended, task};

#[test]
fn files_of_a_task_in_what_its_agent_may_write_to_are_refused() {
    files_in_writable_mounts("");
}

/// Tries files of a task in its writable mounts; `engine` is the task's lines about its engine.
pub(crate) fn files_in_writable_mounts(engine: &str) {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("shared/below")).unwrap();
    std::fs::create_dir(place.path().join("out")).unwrap();
    std::fs::write(place.path().join("shared/below/note"), "words").unwrap();
    std::fs::write(place.path().join("shared/questions.jsonl"), "{\"input\": \"q\", \"target\": \"t\"}\n").unwrap();
    let text = |mount: &str, dataset: &str| {
        let mount = place.path().join(mount).display().to_string();
        format!(
            "name: files\nprofile: T0.H1.N2\napproval: ci\ntools: [bash, submit]\nmock: [t]\nsolver: generate\nscorer: includes\n\
             {engine}mounts: ['{mount}']\ndataset: {dataset}\n"
        )
    };
    let sample = "[{input: q, target: t, files: {/srv/note: {file: shared/below/note}}}]";
    for (mount, dataset, named) in [
        ("shared:/shared:rw", sample, "shared/below/note"),
        ("shared/below/note:/note:rw", sample, "shared/below/note"),
        ("shared:/shared:rw", "shared/questions.jsonl", "shared/questions.jsonl"),
        (".:/all:rw", "[{input: q, target: t}]", "task.yaml"),
    ] {
        let task = task(place.path(), &text(mount, dataset));
        let (code, said, err) = ended(place.path(), &[&task, "--allow-writable-mounts"]);
        let said = format!("{said}{err}");
        assert!(code == 3 && said.contains("lies in the writable mount") && said.contains(named), "{mount}: {said}");
    }
    for mount in ["shared:/shared", "out:/out:rw"] {
        let task = task(place.path(), &text(mount, sample));
        let (code, _, err) = ended(place.path(), &[&task, "--allow-writable-mounts"]);
        assert_eq!(code, 0, "{mount}: {err}");
    }
}

/// A policy, a profile document, services, an image, and each link on the way to them.
#[test]
fn what_decides_the_next_run_in_what_an_agent_may_write_to_is_refused() {
    use std::os::unix::fs::symlink;
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for directory in ["out/ctx", "ctx/out", "ignored/out", "out/root/usr"] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    let policy = "approvers: [{name: auto, tools: '*', decision: approve}]\n";
    let program = "approvers: [{name: command, tools: '*', command: ['./out/judge']}]\n";
    let service = "services: {default: {image: debian, env_file: [{path: out/later.env, required: false}]}}\n";
    for (name, text) in [
        ("policy.yaml", policy),
        ("program.yaml", program),
        ("out/policy.yaml", policy),
        ("out/profile.yaml", "profile: T0.H1.N2\n"),
        ("out/compose.yaml", "services: {default: {image: debian}}\n"),
        ("included.yaml", "include: [out/compose.yaml]\n"),
        ("env.yaml", service),
        ("built.yaml", "services: {default: {build: ctx}}\n"),
        ("within.yaml", "services: {default: {build: out/ctx}}\n"),
        ("ctx/Dockerfile", "FROM scratch\n"),
        ("out/ctx/Dockerfile", "FROM scratch\n"),
        ("ignored/Dockerfile", "FROM scratch\n"),
        ("ignored/.dockerignore", "out\n"),
    ] {
        std::fs::write(at(name), text).unwrap();
    }
    let text = |mount: &str, more: &str| {
        let mount = at(mount).display().to_string();
        let profile = if more.contains("profile:") { "" } else { "profile: T0.H1.N2\n" };
        let approval = if more.contains("approval:") { "" } else { "approval: ci\n" };
        format!(
            "name: files\n{profile}{approval}tools: [bash, submit]\nmock: [t]\nsolver: generate\nscorer: includes\n\
             mounts: ['{mount}:/out:rw']\ndataset: [{{input: q, target: t}}]\n{more}"
        )
    };
    let built = |directory: &str| format!("sandbox: docker\nimage: 'build:{}'\n", at(directory).display());
    let of_directory = format!("image: 'dir:{}'\n", at("out/root").display());
    let refused = |task: &str, more: &[&str], named: &str| {
        let arguments = [&[task, "--allow-writable-mounts"], more].concat();
        let (code, said, err) = ended(place.path(), &arguments);
        let said = format!("{said}{err}");
        assert!(code == 3 && said.contains("the writable mount") && said.contains(named), "{named}: {code} {said}");
    };
    for (mount, more, named) in [
        ("out", "approval: out/policy.yaml\n", "out/policy.yaml"),
        ("out", "profile: out/profile.yaml\n", "out/profile.yaml"),
        ("out", "sandbox: [docker, out/compose.yaml]\n", "out/compose.yaml"),
        ("out", "sandbox: [docker, included.yaml]\n", "out/compose.yaml"),
        ("out", "sandbox: [docker, env.yaml]\n", "out/later.env"),
        ("ctx/out", "sandbox: [docker, built.yaml]\n", "ctx"),
        ("out", "sandbox: [docker, within.yaml]\n", "out/ctx"),
        ("out", &built("out/ctx"), "out/ctx"),
        ("ctx/out", &built("ctx"), "ctx"),
        ("out", &of_directory, "out/root"),
    ] {
        refused(&task(place.path(), &text(mount, more)), &[], named);
    }
    // What the operator names is held against them too, with the programs that it has run here.
    let plain = task(place.path(), &text("out", "profile: T0.H1.N2\n"));
    for (file, named) in [("out/policy.yaml", "out/policy.yaml"), ("program.yaml", "out/judge")] {
        refused(&plain, &["--approval", at(file).to_str().unwrap()], named);
    }
    // The task file itself by a link, or by a link to a link in the mount.
    std::fs::write(at("out/task.yaml"), text("out", "")).unwrap();
    std::fs::write(at("real.yaml"), text("out", "")).unwrap();
    symlink("out/task.yaml", at("linked.yaml")).unwrap();
    symlink("../real.yaml", at("out/middle.yaml")).unwrap();
    symlink("out/middle.yaml", at("twice.yaml")).unwrap();
    refused(at("linked.yaml").to_str().unwrap(), &[], "out/task.yaml");
    refused(at("twice.yaml").to_str().unwrap(), &[], "out/middle.yaml");
    // Outside of writable mounts they are accepted, and so is a mount that `.dockerignore` keeps out of the build.
    let (code, _, err) =
        ended(place.path(), &[&task(place.path(), &text("out", "approval: policy.yaml\n")), "--allow-writable-mounts"]);
    assert_eq!(code, 0, "{err}");
    let task = task(place.path(), &text("ignored/out", &built("ignored")));
    let (_, said, err) = ended(place.path(), &[&task, "--allow-writable-mounts"]);
    assert!(!format!("{said}{err}").contains("the writable mount"), "{said}{err}");
}

#[test]
fn sample_files_that_are_swapped_while_another_sample_runs_are_refused() {
    swapped_files("");
}

/// Replaces the files of later samples while the first one runs; `engine` is the task's lines about its engine.
pub(crate) fn swapped_files(engine: &str) {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let out = place.join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::set_permissions(&out, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::create_dir(place.join("data")).unwrap();
    std::fs::write(place.join("secret"), "a secret that no log has").unwrap();
    let names = ["same", "link", "directory", "pipe", "content", "larger"];
    let mut text = format!(
        "name: swapped\nprofile: T0.H1.N2\napproval: ci\n{engine}tools: [bash, submit]\nsolver: {{kind: agent}}\n\
         scorer: includes\nlimits: {{tool_timeout: 60}}\nmounts: ['{}:/out:rw']\ndataset:\n",
        out.display()
    );
    let mut sample = |id: &str, files: &str, command: &str| {
        let run = serde_json::json!([
            {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]},
            {"tool_calls": [{"name": "submit", "arguments": {"answer": "done"}}]},
        ]);
        writeln!(text, "  - {{id: {id}, input: go, target: done, {files}mock: {run}}}").unwrap();
    };
    sample("first", "", "touch /out/begun; while [ ! -e /out/go ]; do sleep 0.02; done");
    for name in names {
        std::fs::create_dir(place.join("data").join(name)).unwrap();
        std::fs::write(place.join("data").join(name).join("note"), "words").unwrap();
        sample(name, &format!("files: {{/srv/note: {{file: data/{name}/note}}}}, "), "cat /srv/note");
    }
    let task = task(place, &text);
    let swap = || {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !out.join("begun").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let note = |name: &str| place.join("data").join(name).join("note");
        for name in ["link", "pipe"] {
            std::fs::remove_file(note(name)).unwrap();
        }
        std::os::unix::fs::symlink(place.join("secret"), note("link")).unwrap();
        crate::common::sh(place, "mkfifo data/pipe/note; mv data/directory data/old; ln -s old data/directory");
        std::fs::write(note("content"), "WORDS").unwrap();
        std::fs::write(note("larger"), "words and more").unwrap();
        std::fs::write(out.join("go"), "").unwrap();
    };
    let arguments = [task.as_str(), "--allow-writable-mounts", "--max-samples", "1", "--fail-on-error", "false"];
    let (code, result, err) = std::thread::scope(|scope| {
        scope.spawn(swap);
        ended(place, &arguments)
    });
    assert_eq!((code, &result["failed"]), (0, &serde_json::json!(5)), "{err} {result}");
    let log = dump(place, result["log"].as_str().unwrap());
    assert!(!log.to_string().contains("a secret that no log has"), "the link was followed");
    for (name, why) in [
        ("same", None),
        ("link", Some("it is a link, or a link leads to it")),
        ("directory", Some("it is a link, or a link leads to it")),
        ("pipe", Some("it is not a plain file")),
        ("content", Some("it has changed since the task was read")),
        ("larger", Some("it is larger than 5B")),
    ] {
        let sample = log["samples"].as_array().unwrap().iter().find(|sample| sample["id"] == name).unwrap();
        let said = sample["error"]["message"].as_str();
        assert_eq!(said.is_some_and(|said| said.contains(why.unwrap_or("none"))), why.is_some(), "{name}: {said:?}");
        assert_eq!(said.is_some(), why.is_some(), "{name}: {said:?}");
    }
}
