//! What is told while an evaluation runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far an evaluation is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Samples in all, with epochs.
    pub total: u64,
    /// Finished.
    pub done: u64,
    /// Finished before this began, of those that are finished.
    pub kept: u64,
    /// Under way.
    pub running: u64,
    /// Failed, of those that are finished.
    pub failed: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Tokens, in and out.
    pub tokens: u64,
    /// Connections and queries that were refused.
    pub refused: u64,
    /// Sandboxes that could not be ended, of which something is left.
    pub leftover: u64,
    /// The mean of the first scorer so far.
    pub score: Option<f64>,
}

/// Whoever shows it.
pub trait Display: Send + Sync {
    /// Something has changed.
    fn update(&self, progress: &Progress);
}

/// Nobody looks.
impl Display for () {
    fn update(&self, _: &Progress) {}
}

/// Counts that many samples add to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    tool_calls: AtomicU64,
    tokens: AtomicU64,
}

impl Counters {
    pub(crate) fn add_tool_call(&self) {
        self.tool_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_tokens(&self, count: u64) {
        self.tokens.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn tool_calls(&self) -> u64 {
        self.tool_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }
}
