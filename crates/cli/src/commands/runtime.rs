//! The asynchronous runtime of a command. Threads that cannot be started are an error with a reason, never a panic.

use std::io;

use sandbox::{StartError, check_resources, check_tasks};
use tokio::runtime::{Builder, Runtime};

use crate::panics;

/// Worker threads of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workers {
    /// So many.
    Fixed(usize),
    /// One for each processor.
    PerProcessor,
}

/// Checks the limits of this process and starts a runtime.
pub(super) fn start(workers: Workers) -> Result<Runtime, StartError> {
    check_resources()?;
    let mut builder = Builder::new_multi_thread();
    let count = match workers {
        Workers::Fixed(count) => count,
        Workers::PerProcessor => std::thread::available_parallelism().map_or(1, usize::from),
    };
    builder.worker_threads(count).enable_all();
    // tokio panics where it cannot start a worker.
    match panics::silently(|| builder.build()) {
        Some(Ok(runtime)) => Ok(runtime),
        Some(Err(error)) => Err(StartError::Helper(error)),
        None => {
            check_tasks(count)?;
            Err(StartError::Helper(io::Error::other("cannot start a thread")))
        }
    }
}
