//! A scope of systemd for this process: a group that is delegated to it, and that systemd removes when the last process in
//! it has ended, however it ended.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::geteuid;

/// Time for systemd to make the scope. On an idle machine it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);
const BUSCTL: [&str; 2] = ["/usr/bin/busctl", "/bin/busctl"];

/// Whether systemd manages this machine's groups: as its own `sd_booted(3)` finds out.
pub(super) fn has_manager() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Asks the system's manager, or a plain user's own, for a scope with this process in it, and waits until it is there.
pub(super) fn enter() -> io::Result<()> {
    let program = BUSCTL.into_iter().find(|path| Path::new(path).exists()).ok_or(Errno::NOENT)?;
    let (pid, uid) = (std::process::id().to_string(), geteuid().as_raw());
    let unit = format!("ringfence-{pid}.scope");
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if uid == 0 {
        command.arg("--system");
    } else {
        // Without a session, too: a user who lingers has a manager.
        command.arg("--user").env("XDG_RUNTIME_DIR", format!("/run/user/{uid}"));
    }
    command.args(["--timeout=10", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"]);
    command.args(["org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))", &unit, "fail", "4"]);
    command.args(["Description", "s", "Ringfence sandboxes", "PIDs", "au", "1", &pid]);
    command.args(["Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed", "0"]);
    if !command.status()?.success() {
        return Err(Errno::ACCESS.into());
    }
    let deadline = Instant::now() + PATIENCE;
    while !is_in(&fs::read_to_string("/proc/self/cgroup")?, &unit) {
        if Instant::now() > deadline {
            return Err(Errno::TIMEDOUT.into());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Whether a process is in this unit's group, by its `/proc/PID/cgroup`.
fn is_in(groups: &str, unit: &str) -> bool {
    groups.lines().any(|line| line.strip_prefix("0::").is_some_and(|path| path.rsplit('/').next() == Some(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_its_unit_and_in_no_other() {
        let groups = "4:memory:/user.slice/ringfence-7.scope\n0::/user.slice/ringfence-70.scope\n";
        assert!(is_in(groups, "ringfence-70.scope"));
        assert!(!is_in(groups, "ringfence-7.scope"));
    }
}
