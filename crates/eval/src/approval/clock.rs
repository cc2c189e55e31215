//! How long a sample waits for approvers: only while every call that is under way does.
//!
//! Calls of one step are made at the same time. Added up, their waiting would be longer than the time itself, and a call
//! that works while another one waits would work for nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::journal::{Hold, Journal};

#[derive(Default)]
struct State {
    calls: usize,
    waiting: usize,
    /// Since when all of them wait.
    since: Option<(Instant, Hold)>,
}

/// Who is under way, and who waits.
#[derive(Default)]
pub(super) struct Clock(Mutex<State>);

impl Clock {
    fn change(&self, journal: &Journal, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let all_wait = state.waiting > 0 && state.waiting >= state.calls;
        if all_wait {
            state.since.get_or_insert_with(|| (Instant::now(), journal.hold()));
        } else if let Some((since, _hold)) = state.since.take() {
            journal.waited(since.elapsed());
        }
    }

    /// A call is under way until what this returns is dropped.
    pub(super) fn working<'a>(&'a self, journal: &'a Journal) -> Working<'a> {
        self.change(journal, |state| state.calls += 1);
        Working { clock: self, journal }
    }

    /// One of them waits until what this returns is dropped.
    pub(super) fn waiting<'a>(&'a self, journal: &'a Journal) -> Waiting<'a> {
        self.change(journal, |state| state.waiting += 1);
        Waiting { clock: self, journal }
    }
}

/// A call that is under way.
pub(crate) struct Working<'a> {
    clock: &'a Clock,
    journal: &'a Journal,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.clock.change(self.journal, |state| state.calls = state.calls.saturating_sub(1));
    }
}

/// A call that waits.
pub(super) struct Waiting<'a> {
    clock: &'a Clock,
    journal: &'a Journal,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.clock.change(self.journal, |state| state.waiting = state.waiting.saturating_sub(1));
    }
}
