//! Every process but the guest stands still, so that somebody outside can look at their files; or ends.

use std::collections::BTreeSet;
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
pub(crate) fn signal_all(signal: Signal) -> Result<(), Failure> {
    if !rustix::process::getpid().is_init() {
        return Err(Failure::invalid("without a process namespace there is nothing to pause"));
    }
    match kill_process_group(Pid::INIT, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(Failure::from_errno(errno, "pausing")),
    }
}

/// Processes that were stopped, as they stood then.
pub(crate) struct Pause {
    threads: BTreeSet<Thread>,
}

impl Pause {
    /// Stops every process but the guest, and waits until all stand still. If one does not, all go on.
    pub(crate) fn begin() -> Result<Self, Failure> {
        signal_all(Signal::STOP)?;
        let start = Instant::now();
        let mut seen = None;
        loop {
            let waited = start.elapsed();
            let threads = threads();
            let is_still = !threads.iter().any(|thread| thread.moves(waited));
            // A thread is stopped a moment before it leaves its processor, and counts are read before states: only what is
            // the same twice stands still.
            if is_still && seen.as_ref() == Some(&threads) {
                return Ok(Self { threads });
            }
            seen = is_still.then_some(threads);
            if waited > STILL {
                resume()?;
                return Err(Failure::new(FailureKind::Other, "a process does not stand still"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets every process go on, and fails if one of them ran in between: a SIGCONT undoes a SIGSTOP, and a process can
    /// have a timer of the kernel send it one.
    pub(crate) fn end(self) -> Result<(), Failure> {
        let now = threads();
        resume()?;
        match now.symmetric_difference(&self.threads).next() {
            None => Ok(()),
            Some(Thread { process, .. }) => {
                let message = format!("process {process} ran while the sandbox was paused");
                Err(Failure::new(FailureKind::Other, message))
            }
        }
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

/// One thread, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Thread {
    process: u32,
    id: u32,
    /// When it began: ids are used again.
    started: u64,
    /// How often it gave up a processor, or was taken off one. A thread that ran has done so once more when it stands
    /// still again.
    switches: Vec<u64>,
    state: u8,
}

impl Thread {
    /// Whether it may be running, so long after it was stopped.
    fn moves(&self, waited: Duration) -> bool {
        match self.state {
            b'T' | b't' => false,
            b'D' => waited < INSIDE_KERNEL,
            _ => true,
        }
    }
}

/// Every thread that lives, but the guest's.
fn threads() -> BTreeSet<Thread> {
    let own = std::process::id();
    let numbers = |path: &Path| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut threads = BTreeSet::new();
    for process in numbers(Path::new("/proc")).into_iter().filter(|pid| *pid != own) {
        for id in numbers(&Path::new("/proc").join(process.to_string()).join("task")) {
            // Gone meanwhile: it stands still.
            threads.extend(thread(process, id));
        }
    }
    threads
}

/// A thread as it is; `None` if it is gone or a zombie.
fn thread(process: u32, id: u32) -> Option<Thread> {
    let place = format!("/proc/{process}/task/{id}");
    // Read before the state: a thread that runs in between is one that has come further when it is looked at again.
    let status = fs::read(format!("{place}/status")).ok()?;
    // Its name, the workload's choice, may be anything but a line break.
    let status = String::from_utf8_lossy(&status);
    let switches = status.lines().filter_map(|line| line.split_once("ctxt_switches:")?.1.trim().parse().ok()).collect();
    let stat = fs::read(format!("{place}/stat")).ok()?;
    // The name in brackets is the workload's choice: the fields begin after the last bracket.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(stat.get(end + 2..)?).ok()?.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    // Field 22 of proc_pid_stat(5); the state is field 3.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, b'Z' | b'X')).then_some(Thread { process, id, started, switches, state })
}
