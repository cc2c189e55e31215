//! What a sandbox became, kept as an image and begun with again, as a user does it.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{command, layout, ringfence, sh};

fn ok(place: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = ringfence(place, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

/// A command that says a line when it has done `script`, and then waits for its input to end.
struct Live {
    child: Child,
    name: String,
}

impl Live {
    fn start(place: &Path, script: &str) -> Self {
        let script = format!("{script}; echo ready; cat");
        let mut child = command(place)
            .args(["run", "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let listed = ok(place, &["--json", "sandbox", "list"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let pid = format!("{}-", child.id());
        let names = listed["sandboxes"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        let name = names.into_iter().find(|name| name.starts_with(&pid)).unwrap();
        Self { child, name }
    }

    /// It has gone on: it ends by itself.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_run_is_kept_as_an_image() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    ok(place, &["run", "--save-as", "tools", "--", "sh", "-c", "echo kept > /opt/file; rm /etc/shells; mkdir /new"]);
    let seen =
        ok(place, &["run", "--image", "tools", "--", "sh", "-c", "cat /opt/file; ls -d /new /etc/shells 2>&1; true"]);
    assert!(seen.starts_with("kept\n") && seen.contains("/new") && seen.contains("No such file"), "{seen}");
    // On itself, again; a failing command is kept too, for whoever wants to know why.
    let (code, ..) =
        ringfence(place, &["run", "--image", "tools", "--save-as", "more", "--", "sh", "-c", "rm -r /new; exit 3"]);
    assert_eq!(code, 3);
    assert_eq!(ok(place, &["run", "--image", "more", "--", "sh", "-c", "[ -e /new ] || cat /opt/file"]), "kept\n");
    // What lies below is the host's, and the plan says so.
    let image: serde_json::Value = serde_json::from_str(&ok(place, &["image", "inspect", "more"])).unwrap();
    assert_eq!(image["image"]["base"], "host");
    assert_eq!(image["image"]["layers"].as_array().unwrap().len(), 2);
}

#[test]
fn a_snapshot_of_an_image_is_an_image() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    sh(
        place,
        "mkdir -p root/bin root/etc root/tmp; cp \"$(command -v busybox)\" root/bin/busybox; ln -s busybox root/bin/sh
        echo old > root/etc/removed; tar --owner=0 --group=0 -C root -cf root.tar .",
    );
    let image = format!(
        "oci:{}",
        layout(place, &["root.tar"], r#"{"Env":["COLOUR=blue"],"Entrypoint":["/bin/busybox"]}"#).display()
    );
    ok(
        place,
        &[
            "run",
            "--image",
            &image,
            "--save-as",
            "mine",
            "--",
            "sh",
            "-c",
            "busybox rm /etc/removed; echo $COLOUR > /etc/new",
        ],
    );
    let seen =
        ok(place, &["run", "--image", "mine", "--", "sh", "-c", "busybox ls /etc; busybox cat /etc/new; echo $COLOUR"]);
    assert!(!seen.contains("removed") && seen.ends_with("blue\nblue\n"), "{seen}");
    // Pinned, as its image is: nothing below it is the host's.
    let said: serde_json::Value = serde_json::from_str(&ok(place, &["image", "inspect", "mine"])).unwrap();
    assert_eq!(said["image"]["base"], serde_json::Value::Null);
}

#[test]
fn a_sandbox_that_runs_is_kept_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let live = Live::start(place, "echo first > /tmp/state");
    ok(place, &["sandbox", "snapshot", &live.name, "before"]);
    ok(place, &["sandbox", "exec", &live.name, "--", "sh", "-c", "echo second > /tmp/state"]);
    assert_eq!(ok(place, &["sandbox", "fork", &live.name, "--", "cat", "/tmp/state"]), "second\n");
    assert_eq!(ok(place, &["run", "--image", "before", "--", "cat", "/tmp/state"]), "first\n");
    // A fork leaves nothing in the store, and nothing in what it came from.
    let (code, ..) =
        ringfence(place, &["sandbox", "fork", &live.name, "--", "sh", "-c", "echo other > /tmp/state; exit 5"]);
    assert_eq!(code, 5);
    assert_eq!(ok(place, &["sandbox", "exec", &live.name, "--", "cat", "/tmp/state"]), "second\n");
    let images = ok(place, &["image", "list"]);
    assert!(images.contains("before") && !images.contains("fork-"), "{images}");
    live.end();
}

#[test]
fn what_cannot_be_kept_is_said_before_anything_runs() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let marker = place.join("ran");
    let mount = format!("{}:/data:rw", place.display());
    for name in ["host", "dir:/x", "docker:x", "a@b", "a+host", &format!("sha256:{}", "0".repeat(64))] {
        let (code, _, err) =
            ringfence(place, &["run", "--mount", &mount, "--save-as", name, "--", "touch", "/data/ran"]);
        assert!(code == 2 && err.contains("name"), "{name}: {code} {err}");
    }
    let local = ["run", "--profile", "T0.H0.N0", "--justification", "a test", "--save-as", "x", "--", "true"];
    let (code, _, err) = ringfence(place, &local);
    assert!(code != 0 && err.contains("no files of its own"), "{err}");
    assert!(!marker.exists());
    let (code, _, err) = ringfence(place, &["sandbox", "snapshot", "absent", "x"]);
    assert!(code == 2 && err.contains("no sandbox `absent` runs"), "{err}");
}
