//! A transient systemd scope with `Delegate=yes` for this process. systemd removes it with all subgroups after its last process exits,
//! also after SIGKILL.

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

/// Checks that systemd manages this machine's groups, by the same test as `sd_booted(3)`.
pub(super) fn has_manager() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Requests a scope with this process from the system manager (root) or the user manager, and waits until the process is in it.
pub(super) fn enter() -> io::Result<()> {
    let program = BUSCTL.into_iter().find(|path| Path::new(path).exists()).ok_or(Errno::NOENT)?;
    let (pid, uid) = (std::process::id().to_string(), geteuid().as_raw());
    let unit = format!("ringfence-{pid}.scope");
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if uid == 0 {
        command.arg("--system");
    } else {
        // A lingering user has a user manager without a session, but no such variable.
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

/// Checks `/proc/PID/cgroup` for this unit.
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
