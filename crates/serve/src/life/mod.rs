//! What lives between requests: sandboxes and who keeps them, sessions, the gateway, questions that wait for a person.

pub(crate) mod approvals;
pub(crate) mod create;
pub(crate) mod ending;
pub(crate) mod held;
pub(crate) mod keep;
pub(crate) mod makers;
pub(crate) mod network;
pub(crate) mod proofs;
pub(crate) mod records;
pub(crate) mod services;
pub(crate) mod sessions;
pub(crate) mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A panic elsewhere leaves tables as they are: plain data.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
