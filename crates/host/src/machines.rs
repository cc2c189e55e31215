//! Virtual machines: QEMU on this host, Proxmox VE elsewhere.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use profile::Finding;

use crate::{DEADLINE, Surroundings, reach};

/// Time that a killed emulator has to end.
const KILL_TIMEOUT: Duration = Duration::from_millis(300);

/// QEMU's name for this machine's architecture.
fn emulator() -> String {
    format!("qemu-system-{}", std::env::consts::ARCH)
}

/// Runs the emulator far enough to tell its version.
pub(crate) fn qemu() -> Finding {
    let emulator = emulator();
    let fix = format!("install QEMU's {emulator} (Debian: qemu-system-x86)");
    let mut child = match Command::new(&emulator)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => return Finding::missing(format!("{emulator}: {error}"), fix),
    };
    let end = Instant::now() + DEADLINE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            _ => {
                // It is ours and has not been waited for; an error only means that it ended meanwhile.
                let _ = child.kill();
                // One that the kernel does not let go is left behind.
                let end = Instant::now() + KILL_TIMEOUT;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                    thread::sleep(Duration::from_millis(5));
                }
                return Finding::unknown(format!("{emulator} --version did not end within {DEADLINE:?}"));
            }
        }
    };
    let mut text = String::new();
    if let Some(output) = child.stdout {
        // What cannot be read as text is not a version.
        let _ = output.take(4096).read_to_string(&mut text);
    }
    match text.lines().next().filter(|line| status.success() && line.contains("QEMU")) {
        Some(line) => Finding::works(line.trim()),
        None => Finding::missing(format!("{emulator} --version failed"), fix),
    }
}

const PROXMOX_FIX: &str =
    "set PROXMOX_HOST with PROXMOX_TOKEN_ID and PROXMOX_TOKEN_SECRET (or PROXMOX_USER and PROXMOX_PASSWORD)";

/// Settings that are complete, for a server that accepts connections. Secrets are looked for, never shown.
pub(crate) fn proxmox(surroundings: &Surroundings) -> Finding {
    let Some(host) = surroundings.get("PROXMOX_HOST") else {
        return Finding::missing("PROXMOX_HOST is not set", PROXMOX_FIX);
    };
    let host = &reach::without_userinfo(host);
    let both = |first, second| surroundings.get(first).is_some() && surroundings.get(second).is_some();
    if !both("PROXMOX_TOKEN_ID", "PROXMOX_TOKEN_SECRET") && !both("PROXMOX_USER", "PROXMOX_PASSWORD") {
        return Finding::missing(format!("PROXMOX_HOST is {host}, but there are no credentials"), PROXMOX_FIX);
    }
    let authority = format!("{host}:{}", surroundings.get("PROXMOX_PORT").unwrap_or("8006"));
    match reach::connect(&authority) {
        Ok(_) => Finding::works(format!("{authority} accepts connections (rights not checked)")),
        Err(error) => Finding::missing(format!("{authority}: {error}"), PROXMOX_FIX),
    }
}

#[cfg(test)]
mod tests {
    use profile::Status;

    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Surroundings {
        Surroundings { variables: pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect() }
    }

    #[test]
    fn proxmox_needs_host_credentials_and_a_server() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let complete = [
            ("PROXMOX_HOST", "127.0.0.1"),
            ("PROXMOX_PORT", &*port),
            ("PROXMOX_USER", "root"),
            ("PROXMOX_PASSWORD", "hunter2"),
        ];
        assert_eq!(proxmox(&settings(&complete)).status, Status::Works);
        for shorter in [&complete[..0], &complete[..3], &complete[..2]] {
            assert_eq!(proxmox(&settings(shorter)).status, Status::Missing);
        }
        let mut unreachable = complete;
        unreachable[1].1 = "1";
        let finding = proxmox(&settings(&unreachable));
        assert_eq!(finding.status, Status::Missing);
        assert!(!format!("{finding:?}").contains("hunter2"));
    }
}
