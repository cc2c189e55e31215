//! The command with a limited address space, and its peak memory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common;

/// What reading a small input may take.
pub(crate) const ALLOWED: u64 = 64 << 20;
/// Limits are tried in steps of this size.
const STEP: u64 = 16 << 20;

/// Exit code, output, messages.
pub(crate) type Ended = (Option<i32>, String, String);

/// Runs the command with an address space of this size.
pub(crate) fn under(place: &Path, arguments: &[&str], bytes: u64) -> Ended {
    let plain = common::command(place);
    let mut command = Command::new("prlimit");
    command.arg(format!("--as={bytes}")).arg("--core=0").arg("--").arg(plain.get_program()).args(arguments);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // An arena of a second thread reserves 64 MiB of addresses, which is not memory.
    command.env("MALLOC_ARENA_MAX", "1").current_dir(place);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The address space that the command needs for an innocent input, for which it ends with this code.
pub(crate) fn baseline(place: &Path, arguments: &[&str], code: i32) -> u64 {
    let enough = (1..256).map(|step| step * STEP).find(|bytes| under(place, arguments, *bytes).0 == Some(code));
    enough.unwrap()
}

/// Runs the command with this much more than an innocent input needs.
pub(crate) fn within(place: &Path, innocent: (&[&str], i32), arguments: &[&str], more: u64) -> Ended {
    under(place, arguments, baseline(place, innocent.0, innocent.1) + more)
}

/// A size in a process's status (`proc(5)`), in bytes: `VmHWM:` is the peak of its memory so far, `VmPeak:` of its address space.
pub(crate) fn status_bytes(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Runs a command to its end, and watches its memory: for commands whose sandboxes no limit must reach.
pub(crate) fn watched(command: &mut Command) -> (Ended, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(status_bytes(child.id(), "VmHWM:").unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ((output.status.code(), text(&output.stdout), text(&output.stderr)), most)
}
