//! Limits of this process that every run needs: file descriptors (`RLIMIT_NOFILE`), processes and threads (`RLIMIT_NPROC`
//! and `pids.max`). Checked before anything is started, because a thread that cannot be started in the middle of a run is
//! a panic or a wait without end.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use jail::zygote::{DESCRIPTORS_NEEDED, raise_descriptor_limit};
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

/// Processes and threads of one run: the command itself with its worker and blocking threads, helper, cradle, gateway,
/// guest, keepers and one program inside.
const TASKS_NEEDED: usize = 24;
/// With a limit above this one, a run is not the one that reaches it, and starting threads only to see whether that works
/// is time lost.
const GENEROUS: u64 = 1024;
/// Stack of a thread that only waits.
const STACK: usize = 64 << 10;

/// A limit of this process that is too low.
#[derive(Debug, Error)]
pub enum ResourceError {
    /// Too few file descriptors.
    #[error("a run needs {needed} file descriptors, and RLIMIT_NOFILE allows {allowed}")]
    Descriptors {
        /// How many are needed.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// Too few processes or threads.
    #[error("a run needs {needed} processes and threads, and no more than {started} can be started (RLIMIT_NPROC is {})",
            allowed.map_or_else(|| "unlimited".to_owned(), |allowed| allowed.to_string()))]
    Tasks {
        /// How many are needed.
        needed: usize,
        /// How many could be started.
        started: usize,
        /// The soft limit, if there is one.
        allowed: Option<u64>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl ResourceError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Descriptors { .. } => "raise it: `ulimit -n 1024`, or LimitNOFILE= of the service",
            Self::Tasks { .. } => {
                "raise it: `ulimit -u 4096`, or LimitNPROC= and TasksMax= of the service; all processes of this user count"
            }
        }
    }
}

/// Raises the soft limit of descriptors to the hard one, and fails where that is too low.
pub fn check_descriptors() -> Result<(), ResourceError> {
    raise_descriptor_limit();
    match getrlimit(Resource::Nofile).current {
        Some(allowed) if allowed < DESCRIPTORS_NEEDED => {
            Err(ResourceError::Descriptors { needed: DESCRIPTORS_NEEDED, allowed })
        }
        _ => Ok(()),
    }
}

/// Fails where the limits of this process are too low for a run.
pub fn check_resources() -> Result<(), ResourceError> {
    check_descriptors()?;
    if getrlimit(Resource::Nproc).current.is_some_and(|allowed| allowed <= GENEROUS) {
        check_tasks(TASKS_NEEDED)?;
    }
    Ok(())
}

/// Fails where so many threads cannot run at the same time. They are started and ended, because no number says it:
/// `RLIMIT_NPROC` does not hold for root, counts all processes of the user, and a control group may have a limit too.
pub fn check_tasks(needed: usize) -> Result<(), ResourceError> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let mut started = Vec::new();
    let mut refused = None;
    while started.len() < needed && refused.is_none() {
        let released = Arc::clone(&released);
        // All of them wait until the channel is closed, so that they are there at the same time.
        let wait = move || drop(released.lock().map(|released| released.recv()));
        match thread::Builder::new().stack_size(STACK).spawn(wait) {
            Ok(thread) => started.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    drop(release);
    let count = started.len();
    for thread in started {
        let _ = thread.join();
    }
    match refused {
        None => Ok(()),
        Some(source) => {
            let allowed = getrlimit(Resource::Nproc).current;
            Err(ResourceError::Tasks { needed, started: count, allowed, source })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_can_be_started_are_ended_again() {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        check_tasks(TASKS_NEEDED).unwrap();
        // Other tests come and go; 24 that stay would be seen.
        assert!(threads() < TASKS_NEEDED, "{}", threads());
    }

    #[test]
    fn a_limit_is_named_with_what_is_needed() {
        let error = ResourceError::Descriptors { needed: 256, allowed: 64 };
        assert_eq!(error.to_string(), "a run needs 256 file descriptors, and RLIMIT_NOFILE allows 64");
        let source = io::Error::from_raw_os_error(11);
        let error = ResourceError::Tasks { needed: 24, started: 3, allowed: Some(12), source };
        assert!(error.to_string().contains("RLIMIT_NPROC is 12"), "{error}");
    }
}
