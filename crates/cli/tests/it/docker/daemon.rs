//! The lane's own daemon through its own client, and daemons that are none.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crate::common;

/// A Debian with perl and curl; the same with a user of its own and a few settings; one static program and nothing else.
pub(crate) const DEBIAN: &str = "ringfence/debian";
pub(crate) const PLAIN: &str = "ringfence/plain";
pub(crate) const STATIC: &str = "ringfence/static";

static DAEMON: RwLock<()> = RwLock::new(());

/// Tests that look at all containers of the daemon have it for themselves.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    let guard = DAEMON.write().unwrap_or_else(PoisonError::into_inner);
    // The daemon may still remove containers of tests that have ended. One that a failed test left is not this test's failure.
    let deadline = Instant::now() + Duration::from_mins(1);
    while !ours().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    guard
}

/// Tests that make containers and look at their own only.
pub(crate) fn among() -> RwLockReadGuard<'static, ()> {
    DAEMON.read().unwrap_or_else(PoisonError::into_inner)
}

/// The client of the daemon that the lane started; never of one that the machine has.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let own = std::env::var("DOCKER_HOST").unwrap_or_default();
    assert!(own.starts_with("unix:///"), "DOCKER_HOST names no daemon: run this by `./test.sh docker`");
    let output = Command::new("docker").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What the daemon says of a container, unless it is gone meanwhile.
pub(crate) fn inspect(container: &str, format: &str) -> Option<String> {
    let output = Command::new("docker").args(["inspect", "--format", format, container]).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a program in a container whose own command may end by it: everything inside then ends too, this program included. Tried again
/// where the daemon's runtime could not start it (126): with forty containers on a busy machine that happens.
pub(crate) fn exec_to_the_end(container: &str, program: &[&str]) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let output = Command::new("docker").args(["exec", container]).args(program).output().unwrap();
        let code = output.status.code();
        if code != Some(126) || Instant::now() > deadline {
            assert!(matches!(code, Some(0 | 137)), "{program:?}: {output:?}");
            return;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Containers of ours, in any state.
pub(crate) fn ours() -> Vec<String> {
    let listed = docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", "label=ringfence.run"]);
    listed.lines().map(str::to_owned).collect()
}

/// Waits until the daemon has no container of ours.
pub(crate) fn gone(within: Duration) {
    let deadline = Instant::now() + within;
    while !ours().is_empty() {
        assert!(Instant::now() < deadline, "{}", docker(&["ps", "--all"]));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// `ringfence run` in a container of an image.
pub(crate) fn run(place: &Path, image: &str, options: &[&str], command: &[&str]) -> (i32, String, String) {
    let fixed = ["run", "--provider", "docker", "--pull", "never", "--image", image];
    let command = if command.is_empty() { vec![] } else { [&["--"], command].concat() };
    common::ringfence(place, &[&fixed[..], options, &command].concat())
}

#[test]
fn a_daemon_that_hangs_is_reported_with_what_was_asked() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("docker.sock");
    // Connections are taken by the kernel, and nobody ever answers.
    let _listener = UnixListener::bind(&path).unwrap();
    let start = Instant::now();
    let asked = |arguments: &[&str]| {
        let mut command = common::command(place.path());
        let output = command.args(arguments).env("DOCKER_HOST", format!("unix://{}", path.display())).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = asked(&["run", "--provider", "docker", "--image", "x", "--", "true"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("hangs: no answer to `version`"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let (code, err) = asked(&["sandbox", "list", "--provider", "docker"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("hangs: no answer to `version` within 20 s"), "{err}");
}

#[test]
fn no_daemon_and_no_image_are_said() {
    let place = tempfile::tempdir().unwrap();
    let mut command = common::command(place.path());
    command.args(["run", "--provider", "docker", "--image", "x", "--", "true"]);
    let output = command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("/nonexistent/docker.sock"), "{err}");
    let (code, _, err) = run(place.path(), "ringfence/nothing", &[], &["true"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("has no image `ringfence/nothing`"), "{err}");
    let (code, _, err) = common::ringfence(place.path(), &["run", "--provider", "docker", "--", "true"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`sandbox: docker` needs an image"), "{err}");
}
