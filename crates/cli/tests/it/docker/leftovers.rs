//! What killed runners leave: nothing, or what `sandbox cleanup` finds; and never anybody else's.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common;
use crate::docker::daemon::{DEBIAN, alone, docker, gone, ours};

/// A runner that a failing test does not leave behind.
struct Runner(Child);

impl Runner {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A container made by hand that a failing test does not leave behind.
struct Made(String);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["rm", "--force", &self.0]).output();
    }
}

/// A runner with a container that does nothing for long; returns when it runs.
fn runner(place: &std::path::Path) -> Runner {
    let mut command = common::command(place);
    command.args(["run", "--provider", "docker", "--pull", "never", "--image", DEBIAN, "--", "sh", "-c"]);
    let mut child = command.arg("echo on; sleep 1000").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    Runner(child)
}

fn clean_up(place: &std::path::Path) -> String {
    let (code, _, err) = common::ringfence(place, &["sandbox", "cleanup", "--provider", "docker"]);
    assert_eq!(code, 0, "{err}");
    err
}

#[test]
fn killed_runners_leave_nothing_and_others_are_untouched() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let foreign = docker(&["run", "--detach", "--rm", "--network", "none", DEBIAN, "sleep", "1000"]);
    let kills = std::env::var("RINGFENCE_KILLS").map_or(5, |often| often.parse().unwrap());
    for number in 0..kills {
        let mut child = runner(place.path());
        // At other moments, too: while it runs, and while the next is made.
        if number % 2 == 1 {
            let mut next = common::command(place.path());
            next.args(["run", "--provider", "docker", "--pull", "never", "--image", DEBIAN, "--", "sleep", "1000"]);
            let mut next = next.stdin(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(70 * number));
            next.kill().unwrap();
            next.wait().unwrap();
        }
        child.kill();
    }
    // Those that ran end with their streams.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !docker(&["ps", "--quiet", "--filter", "label=ringfence.run"]).is_empty() {
        assert!(Instant::now() < deadline, "{}", docker(&["ps", "--all"]));
        std::thread::sleep(Duration::from_millis(50));
    }
    // As a runner leaves it that is killed while it removes it: the lock is gone already.
    std::fs::create_dir("/var/lib/ringfence-docker/removed-by-half").unwrap();
    clean_up(place.path());
    gone(Duration::from_secs(20));
    assert!(docker(&["ps", "--quiet", "--no-trunc"]).contains(&foreign));
    docker(&["rm", "--force", &foreign]);
    let places = std::fs::read_dir("/var/lib/ringfence-docker");
    let names = places.unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| name != "@identity").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn only_what_nobody_needs_is_removed() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let mut living = runner(place.path());
    let mine = ours();
    assert_eq!(mine.len(), 1);
    let owner = docker(&["inspect", "--format", "{{index .Config.Labels \"ringfence.owner\"}}", &mine[0]]);
    let made = |run: &str, owner: &str, lease: &str| {
        let label = |name: &str, value: &str| format!("--label=ringfence.{name}={value}");
        let labels = [label("run", run), label("owner", owner), label("lease", lease)];
        let name = if run == "unnamed" { "other".to_owned() } else { format!("ringfence-{run}-1") };
        Made(docker(&["create", "--network=none", "--name", &name, &labels[0], &labels[1], &labels[2], DEBIAN, "true"]))
    };
    let dead = made("gone-1", &owner, "99999999999");
    let elsewhere = made("theirs-1", "somebody", "99999999999");
    let expired = made("theirs-2", "somebody", "1");
    let unreadable = made("theirs-3", "somebody", "soon");
    // Labels may be an image's own; without a name of ours it is not ours.
    let unnamed = made("unnamed", &owner, "1");
    let (code, out, err) = common::ringfence(place.path(), &["--json", "sandbox", "list", "--provider", "docker"]);
    assert_eq!(code, 0, "{err}");
    for state in ["\"runs\"", "\"left behind\"", "\"expired\"", "\"somebody else's\""] {
        assert!(out.contains(state), "{state}: {out}");
    }
    let said = clean_up(place.path());
    assert_eq!(said.matches("removed").count(), 2, "{said}");
    let left = ours();
    assert!(!left.contains(&dead.0) && !left.contains(&expired.0), "{left:?}");
    assert!([&mine[0], &elsewhere.0, &unreadable.0, &unnamed.0].iter().all(|id| left.contains(id)), "{left:?}");
    drop([elsewhere, unreadable, unnamed]);
    living.kill();
    gone(Duration::from_secs(20));
}

/// A volume made by hand that a failing test does not leave behind.
struct Volume(&'static str);

impl Volume {
    fn make(name: &'static str, owner: &str) -> Self {
        let owner = format!("ringfence.owner={owner}");
        docker(&["volume", "create", "--label", "ringfence.run=gone-2", "--label", &owner, name]);
        Self(name)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["volume", "rm", "--force", self.0]).output();
    }
}

#[test]
fn what_the_daemon_keeps_does_not_keep_the_rest() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let mut living = runner(place.path());
    let owner = docker(&["inspect", "--format", "{{index .Config.Labels \"ringfence.owner\"}}", &ours()[0]]);
    let (held, _free) = (Volume::make("ringfence-a", &owner), Volume::make("ringfence-b", &owner));
    let user = Made(docker(&["create", "--network=none", "--volume", "ringfence-a:/data", DEBIAN, "true"]));
    let (code, _, err) = common::ringfence(place.path(), &["sandbox", "cleanup", "--provider", "docker"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("removed ringfence-b") && err.contains("error: the Docker daemon"), "{err}");
    assert_eq!(docker(&["volume", "ls", "--quiet", "--filter", "label=ringfence.run=gone-2"]), held.0);
    drop(user);
    assert!(clean_up(place.path()).contains("removed ringfence-a"));
    living.kill();
    gone(Duration::from_secs(20));
}

#[test]
fn a_daemon_that_is_not_there_is_said_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}/nobody", place.path().display());
    let mut command = common::command(place.path());
    let done =
        command.env("DOCKER_HOST", &socket).args(["sandbox", "cleanup", "--provider", "docker"]).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(said.contains(&socket) && said.contains("hint: start the daemon"), "{said}");
}

/// The daemon's number is in the file that the lane names; whoever runs it by hand may go without.
#[test]
fn a_daemon_that_is_killed_ends_the_run_and_leaves_nothing() {
    let _alone = alone();
    let Ok(script) = std::env::var("RINGFENCE_RESTART_DOCKER") else { return };
    let place = tempfile::tempdir().unwrap();
    let mut child = runner(place.path());
    common::sh(place.path(), &script);
    let deadline = Instant::now() + Duration::from_mins(1);
    let status = loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "the runner does not notice");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(status.code(), Some(4));
    clean_up(place.path());
    gone(Duration::from_secs(30));
    let (code, out, err) = crate::docker::daemon::run(place.path(), DEBIAN, &[], &["echo", "again"]);
    assert_eq!((code, out.as_str()), (0, "again\n"), "{err}");
}
