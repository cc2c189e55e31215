//! What is known of the guest's start: the time, to tell what changed in the file system since, and whether it has a root of its own.

use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clock of file times, and the one that nothing sets.
static STARTED: OnceLock<(Timespec, Timespec)> = OnceLock::new();
/// The most seconds that the two clocks may drift apart.
const MAX_DRIFT: i64 = 1;

fn now() -> (Timespec, Timespec) {
    (clock_gettime(ClockId::RealtimeCoarse), clock_gettime(ClockId::Boottime))
}

/// Whether the guest is the first process of a sandbox, whose root is then its own.
static IS_INIT: OnceLock<bool> = OnceLock::new();

/// Notes the start, once.
pub(crate) fn note() {
    STARTED.get_or_init(now);
    IS_INIT.get_or_init(|| rustix::process::getpid().is_init());
}

/// Whether the root directory is the sandbox's own. Without isolation it is the host's.
pub(crate) fn has_own_root() -> bool {
    IS_INIT.get().is_some_and(|is_init| *is_init)
}

/// The time at which the guest started, as file times have it; `None` if the clock was set since.
pub(crate) fn time() -> Option<Timespec> {
    let (started, steady) = *STARTED.get()?;
    let (clock, now) = now();
    let drift = (clock.tv_sec - started.tv_sec) - (now.tv_sec - steady.tv_sec);
    (drift.abs() <= MAX_DRIFT).then_some(started)
}
