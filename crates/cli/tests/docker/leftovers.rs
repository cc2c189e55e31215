//! What killed runners leave: nothing, or what `sandbox cleanup` finds; and never anybody else's.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common;
use crate::daemon::{DEBIAN, alone, docker, gone, ours};

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
    clean_up(place.path());
    gone(Duration::from_secs(20));
    assert!(docker(&["ps", "--quiet", "--no-trunc"]).contains(&foreign));
    docker(&["rm", "--force", &foreign]);
    let places = std::fs::read_dir("/var/lib/ringfence-docker");
    let left: Vec<_> = places.unwrap().flatten().map(|entry| entry.file_name()).collect();
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
    let (code, out, err) = crate::daemon::run(place.path(), DEBIAN, &[], &["echo", "again"]);
    assert_eq!((code, out.as_str()), (0, "again\n"), "{err}");
}
