//! `ringfence run --provider docker`: what a command finds, and what is proven.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{self, evaluation::write};
use crate::docker::daemon::{DEBIAN, PLAIN, STATIC, among, docker, run};
use crate::docker::grants::engine;
use crate::run::FORK_BOMBS;

#[test]
fn a_command_runs_with_its_own_exit_code_and_streams() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) = run(place.path(), DEBIAN, &[], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((code, out.as_str()), (7, "out\n"), "{err}");
    assert!(err.contains("err\n"), "{err}");
    assert_eq!(run(place.path(), DEBIAN, &[], &["/no/such/program"]).0, 127);
    let (code, _, err) = run(place.path(), DEBIAN, &["--timeout", "1"], &["sleep", "60"]);
    assert_eq!(code, 124, "{err}");
}

#[test]
fn a_full_standard_output_and_a_fork_bomb_end_with_their_own_codes() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let spam = "while :; do echo x; echo y >&2; done";
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = common::command(place.path());
    command.args(["run", "--provider", "docker", "--pull", "never", "--image", DEBIAN, "--", "sh", "-c", spam]);
    let output = command.stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("cannot write to standard output") && err.contains("No space left"), "{err}");
    // Nothing can be said, so the code alone must.
    let output = command.stdout(Stdio::piped()).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    crate::run::timeout_of_fork_bombs(&engine(), &FORK_BOMBS[1..]);
}

#[test]
fn the_image_says_who_runs_where_with_what() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) = run(place.path(), PLAIN, &[], &[]);
    assert_eq!((code, out.as_str()), (0, "said 1000 /srv there\n"), "{err}");
    // The entry point stays, and the words are ours.
    let (_, out, err) = run(place.path(), PLAIN, &["--user", "0", "--env", "PLACE=here"], &["id -u"]);
    assert_eq!(out, "0\n", "{err}");
}

#[test]
fn setuid_programs_work_only_where_a_document_allows_it_and_root_gains_nothing() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    // Root's own capabilities, then those of a plain user who becomes root: numbers, so that more of them is seen.
    let script = "grep -E 'CapBnd|Seccomp:' /proc/self/status; cp /usr/bin/grep /srv/grep; chmod 4755 /srv/grep; \
                  setpriv --reuid 1000 --regid 1000 --clear-groups /srv/grep -E 'Uid|CapEff' /proc/self/status; unshare -Ur true || echo refused";
    let said = |allowed: bool| {
        let document = place.path().join("document.yaml");
        let text =
            format!("profile: T0.H1.N2\nsandbox: docker\nimage: {DEBIAN}\nallow_setuid: {allowed}\napproval: ci\n");
        std::fs::write(&document, text).unwrap();
        let arguments = ["run", "--pull", "never", "--profile", document.to_str().unwrap(), "--", "sh", "-c", script];
        let (code, out, err) = common::ringfence(place.path(), &arguments);
        assert_eq!(code, 0, "{err}");
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let (without, with) = (said(false), said(true));
    assert_eq!(without[..2], with[..2], "as much as ever is kept, and the filter");
    assert!(without[0].starts_with("CapBnd: ") && without[1] == "Seccomp: 2", "{without:?}");
    assert_eq!(without[2], "Uid: 1000 1000 1000 1000");
    assert_eq!(with[2], "Uid: 1000 0 0 0");
    assert_eq!(with[3].trim_start_matches("CapEff: "), with[0].trim_start_matches("CapBnd: "));
    assert_eq!((without[4].as_str(), with[4].as_str()), ("refused", "refused"), "no user namespaces either");
    let document = place.path().join("document.yaml");
    let (code, out, err) = common::ringfence(place.path(), &["--json", "verify", document.to_str().unwrap()]);
    assert_eq!(code, 0, "{err} {out}");
}

#[test]
fn an_image_of_one_static_program_runs_it() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) = run(place.path(), STATIC, &[], &["/busybox", "echo", "alone"]);
    assert_eq!((code, out.as_str()), (0, "alone\n"), "{err}");
    let (_, out, err) = run(place.path(), STATIC, &[], &["/busybox", "sh", "-c", "/busybox ls -A /.ringfence-*"]);
    assert_eq!(out, "", "our programs are gone when the guest runs: {err}");
}

#[test]
fn mounts_are_read_only_unless_they_are_granted() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("file"), "there").unwrap();
    let (read, write) = (format!("{}:/data", data.path().display()), format!("{}:/data:rw", data.path().display()));
    let script = ["sh", "-c", "cat /data/file; echo new >/data/new"];
    let (code, out, err) = run(place.path(), DEBIAN, &["--mount", &read], &script);
    assert_eq!((code != 0, out.as_str()), (true, "there"), "{err}");
    assert!(!data.path().join("new").exists());
    let (code, _, err) = run(place.path(), DEBIAN, &["--mount", &write], &script);
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read_to_string(data.path().join("new")).unwrap(), "new\n");
    let socket = std::env::var("DOCKER_HOST").unwrap().trim_start_matches("unix://").to_owned();
    let (code, _, err) = run(place.path(), DEBIAN, &["--mount", &format!("{socket}:/var/run/docker.sock")], &["true"]);
    assert_ne!(code, 0, "never the daemon's own socket: {err}");
}

/// A document, and a task, ask for what only the operator grants.
#[test]
fn a_document_alone_grants_no_full_network_and_no_writable_mount() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let head = format!("sandbox: docker\nimage: {DEBIAN}\napproval: ci\n");
    let rest = "name: t\ntools: [bash, submit]\nsolver: {kind: agent}\nscorer: includes\nmodel: mock/echo\n\
                dataset: [{id: a, input: go, target: done}]\n";
    let mount = format!("profile: T0.H1.N2\nmounts: ['{}:/out:rw']\n", out.path().display());
    for (text, flag) in
        [("profile: T0.H1.N0\njustification: j\n", "--allow-full-network"), (&mount, "--allow-writable-mounts")]
    {
        let document = write(place.path(), "document.yaml", &format!("{head}{text}"));
        let task = write(place.path(), "task.yaml", &format!("{head}{text}{rest}"));
        let script = "touch /out/written || true";
        for arguments in
            [&["run", "--pull", "never", "--profile", &document, "--", "sh", "-c", script][..], &["eval", &task]]
        {
            let (code, _, err) = common::ringfence(place.path(), arguments);
            assert!(code == 3 && err.contains(flag), "{arguments:?}: {code} {err}");
        }
        let granted = ["run", "--pull", "never", flag, "--profile", &document, "--", "sh", "-c", script];
        let (code, _, err) = common::ringfence(place.path(), &granted);
        assert_eq!(code, 0, "{flag}: {err}");
    }
    assert!(out.path().join("written").exists());
}

#[test]
fn the_plan_names_the_image_by_its_id() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let id = docker(&["image", "inspect", "--format", "{{.Id}}", DEBIAN]);
    let (code, out, err) = common::ringfence(
        place.path(),
        &["--json", "verify", "--fast", "--provider", "docker", "--image", &format!("docker:{DEBIAN}"), "T0.H1.N2"],
    );
    assert_eq!(code, 0, "{err} {out}");
    let (code, _, err) = run(place.path(), &id, &[], &["true"]);
    assert_eq!(code, 0, "by its id: {err}");
}

fn proven(profile: &str, image: &str) {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let (code, out, err) =
        common::ringfence(place.path(), &["--json", "verify", "--provider", "docker", "--image", image, profile]);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| unreachable!("{err}"));
    let not = |probe: &&Value| probe["verdict"] == "fail" || probe["verdict"] == "unknown";
    let bad: Vec<&Value> = report["probes"].as_array().unwrap().iter().filter(not).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!((code, &report["conclusion"]), (0, &Value::from("as_planned")), "{err}");
    let passed = report["probes"].as_array().unwrap().iter().filter(|probe| probe["verdict"] == "pass").count();
    assert!(passed > 40, "{passed} passed");
}

#[test]
fn verify_passes_at_n1() {
    proven("T0.H1.N1", DEBIAN);
}

#[test]
fn verify_passes_at_n2() {
    proven("T0.H1.N2", DEBIAN);
}

#[test]
fn verify_passes_in_an_image_of_one_program() {
    proven("T0.H1.N1", STATIC);
}

#[test]
fn an_image_is_built_of_a_directory() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("context");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("Dockerfile"), format!("FROM {STATIC}\nCOPY note /note\nENV KEPT=yes\n")).unwrap();
    std::fs::write(directory.join("note"), "built").unwrap();
    let image = format!("build:{}", directory.display());
    let (code, out, err) = run(place.path(), &image, &[], &["/busybox", "sh", "-c", "cat /note; echo $KEPT"]);
    assert_eq!((code, out.as_str()), (0, "builtyes\n"), "{err}");
    std::fs::write(directory.join("Dockerfile"), "FROM scratch\nCOPY absent /\n").unwrap();
    let (code, _, err) = run(place.path(), &image, &[], &["true"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("building the image") && err.contains("absent"), "{err}");
}

/// A directory that a link leads to, a whole home, and keys in what would be sent are refused, as they are in mounts and `dir:` images.
#[test]
fn a_build_of_links_homes_and_keys_is_refused() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for directory in ["plain", "keys/.ssh", "ignored/.ssh", "home"] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    for directory in ["plain", "keys", "ignored", "home"] {
        std::fs::write(at(directory).join("Dockerfile"), format!("FROM {STATIC}\n")).unwrap();
    }
    std::fs::write(at("ignored/.dockerignore"), ".ssh\n").unwrap();
    std::os::unix::fs::symlink("plain", at("link")).unwrap();
    let built = |arguments: &[&str]| {
        let mut command = common::command(place.path());
        command.args(["run", "--provider", "docker", "--profile", "T0.H1.N2"]).env("HOME", at("home"));
        let output = command.args(arguments).args(["--", "/busybox", "true"]).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (directory, why) in
        [("link", "is a link"), ("home", "whole home"), ("keys", ".ssh"), ("plain", ""), ("ignored", "")]
    {
        let expected = if why.is_empty() { 0 } else { 3 };
        let image = format!("build:{}", at(directory).display());
        let (code, err) = built(&["--image", &image]);
        assert!(code == expected && err.contains(why), "{directory}: {code} {err}");
        let file = at(&format!("{directory}.yaml"));
        std::fs::write(&file, format!("services: {{default: {{build: ./{directory}}}}}\n")).unwrap();
        let (code, err) = built(&["--compose", file.to_str().unwrap()]);
        assert!(code == expected && err.contains(why), "{directory} of a Compose file: {code} {err}");
    }
    for directory in ["home", "keys"] {
        let image = format!("build:{}", at(directory).display());
        let (code, err) = built(&["--image", &image, "--dangerously-mount-secrets"]);
        assert_eq!(code, 0, "{directory}: {err}");
    }
}

#[test]
fn a_host_service_on_every_address_is_not_reached_and_lookups_stay_inside() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let script = format!(
        "cat /etc/resolv.conf; for a in 127.0.0.1 172.17.0.1 198.18.0.1 198.18.0.2; do curl -s -m 2 http://$a:{port}/ && echo reached; done; true"
    );
    for profile in ["T0.H1.N2", "T0.H1.N1"] {
        let (code, out, err) = run(place.path(), DEBIAN, &["--profile", profile], &["sh", "-c", &script]);
        assert_eq!(code, 0, "{err}");
        assert!(!out.contains("reached"), "{profile}: {out}");
        let servers: Vec<&str> = out.lines().filter(|line| line.starts_with("nameserver")).collect();
        assert_eq!(servers, ["nameserver 198.18.0.2"], "{out}");
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(listener.accept().is_err(), "nothing came");
}
