//! Every process but the guest stands still, so that somebody outside can look at their files; or ends.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use wire::FailureKind;

use crate::failure::Failure;

/// How long processes may take to stand still, and how long one may be inside the kernel before that counts as still:
/// the parent of a stopped vfork waits there.
const STILL: Duration = Duration::from_secs(5);
const INSIDE_KERNEL: Duration = Duration::from_millis(200);

/// Every process of this namespace but the first, which is us, in one step that no fork escapes (kill(2), pid -1).
fn signal_all(signal: Signal) -> Result<(), Failure> {
    if !rustix::process::getpid().is_init() {
        return Err(Failure::invalid("without a process namespace there is nothing to pause"));
    }
    match kill_process_group(Pid::INIT, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(Failure::from_errno(errno, "pausing")),
    }
}

/// Stops every process but the guest, and waits until all stand still. If one does not, all go on.
pub(crate) fn pause() -> Result<(), Failure> {
    signal_all(Signal::STOP)?;
    let start = Instant::now();
    loop {
        let waited = start.elapsed();
        let moves = |state: u8| match state {
            b'T' | b't' | b'Z' | b'X' => false,
            b'D' => waited < INSIDE_KERNEL,
            _ => true,
        };
        if !states().into_iter().any(moves) {
            return Ok(());
        }
        if waited > STILL {
            resume()?;
            return Err(Failure::new(FailureKind::Other, "a process does not stand still"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets every process go on.
pub(crate) fn resume() -> Result<(), Failure> {
    signal_all(Signal::CONT)
}

/// Ends every process but the guest, and waits until none is left: all of them are, or become, the guest's children.
pub(crate) fn end_all() -> Result<(), Failure> {
    signal_all(Signal::KILL)?;
    let start = Instant::now();
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return Ok(()),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) if start.elapsed() < STILL => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return Err(Failure::new(FailureKind::Other, "a process does not end")),
            Err(errno) => return Err(Failure::from_errno(errno, "ending everything")),
        }
    }
}

/// The state of every thread but the guest's.
fn states() -> Vec<u8> {
    let own = std::process::id();
    let numbers = |path: &Path| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut states = Vec::new();
    for pid in numbers(Path::new("/proc")).into_iter().filter(|pid| *pid != own) {
        let threads = format!("/proc/{pid}/task");
        for thread in numbers(Path::new(&threads)) {
            // Gone meanwhile: it stands still.
            let Ok(stat) = fs::read(format!("{threads}/{thread}/stat")) else { continue };
            // The name in brackets is the workload's choice: the fields begin after the last bracket.
            let end = stat.iter().rposition(|&byte| byte == b')');
            states.extend(end.and_then(|end| stat.get(end + 2)));
        }
    }
    states
}
