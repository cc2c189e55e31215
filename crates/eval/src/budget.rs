//! What all samples together may use up. When it is used up, everything that is under way ends.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::task::RunLimits;

/// A limit of the run that was reached.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Over {
    /// As Inspect names it.
    pub(crate) kind: &'static str,
    pub(crate) limit: f64,
    pub(crate) message: String,
}

/// What was used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) tokens: u64,
    pub(crate) messages: u64,
    pub(crate) working: Duration,
    /// Dollars.
    pub(crate) cost: f64,
}

/// The run's limits, and how much of them is used.
#[derive(Default)]
pub(crate) struct Budget {
    limits: RunLimits,
    used: Mutex<Used>,
    over: OnceLock<Over>,
    told: CancellationToken,
}

impl Budget {
    pub(crate) fn new(limits: RunLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether whoever answers must say how much was used.
    pub(crate) fn needs_usage(&self) -> bool {
        self.limits.sums.need_usage()
    }

    pub(crate) fn time(&self) -> Option<Duration> {
        self.limits.time.map(Duration::from_millis)
    }

    /// Adds what a sample has used since it last said so.
    #[expect(clippy::cast_precision_loss, reason = "a limit is shown, not calculated with")]
    pub(crate) fn add(&self, more: Used) {
        let used = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.tokens = used.tokens.saturating_add(more.tokens);
            used.messages = used.messages.saturating_add(more.messages);
            used.working = used.working.saturating_add(more.working);
            used.cost += more.cost;
            *used
        };
        let sums = &self.limits.sums;
        let counted = [("token", used.tokens, sums.tokens), ("message", used.messages, sums.messages.map(u64::from))];
        for (kind, used, limit) in counted {
            if let Some(limit) = limit.filter(|limit| used >= *limit) {
                self.end(kind, limit as f64, format!("the run has used {used} of its {limit} {kind}s"));
            }
        }
        if let Some(limit) = sums.cost.filter(|limit| used.cost >= limit.amount()) {
            self.end("cost", limit.amount(), format!("the run has cost ${:.6} of its {limit}", used.cost));
        }
        if let Some(limit) = sums.working.map(Duration::from_millis).filter(|limit| used.working >= *limit) {
            let seconds = limit.as_secs_f64();
            self.end("working", seconds, format!("the run's samples have worked for {seconds} s"));
        }
    }

    /// The run's time is up.
    pub(crate) fn end_time(&self) {
        let seconds = self.time().unwrap_or_default().as_secs_f64();
        self.end("time", seconds, format!("the run's {seconds} s were up"));
    }

    fn end(&self, kind: &'static str, limit: f64, message: String) {
        // The first limit is the reason.
        if self.over.set(Over { kind, limit, message }).is_ok() {
            self.told.cancel();
        }
    }

    pub(crate) fn over(&self) -> Option<&Over> {
        self.over.get()
    }

    /// Returns when a limit is reached; never where none is.
    pub(crate) async fn ended(&self) -> Over {
        self.told.cancelled().await;
        match self.over.get() {
            Some(over) => over.clone(),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Dollars, Limits};

    #[tokio::test]
    async fn the_first_limit_that_is_reached_ends_the_run() {
        let sums = Limits { tokens: Some(100), cost: Some(Dollars(500_000)), ..Limits::default() };
        let budget = Budget::new(RunLimits { time: None, sums });
        budget.add(Used { tokens: 99, cost: 0.4, ..Used::default() });
        assert_eq!(budget.over(), None);
        budget.add(Used { cost: 0.1, ..Used::default() });
        budget.add(Used { tokens: 1, ..Used::default() });
        let over = budget.ended().await;
        assert_eq!((over.kind, over.message.as_str()), ("cost", "the run has cost $0.500000 of its $0.5"));
    }
}
