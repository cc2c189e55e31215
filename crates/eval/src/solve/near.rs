//! Limits that come near: each is said once, before it ends anything.

use std::time::Duration;

use serde_json::json;

use super::{State, Work};
use crate::journal::Journal;

/// From this share on, a limit is near.
const NEAR: f64 = 0.8;

/// A limit that is near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Near {
    pub(super) limit: &'static str,
    pub(super) used: f64,
    pub(super) of: f64,
}

impl Near {
    /// `None` while it is far, and where nothing limits.
    #[expect(clippy::cast_precision_loss, reason = "a share is shown, not calculated with")]
    pub(super) fn of(limit: &'static str, used: u64, of: Option<u64>) -> Option<Self> {
        Self::of_amount(limit, used as f64, of? as f64)
    }

    /// The same for any amount.
    pub(super) fn of_amount(limit: &'static str, used: f64, of: f64) -> Option<Self> {
        (used >= of * NEAR).then_some(Self { limit, used, of })
    }

    /// The same for a time, of which people hear in seconds.
    pub(super) fn of_time(limit: &'static str, used: Duration, millis: Option<u64>) -> Option<Self> {
        let near = Self::of(limit, u64::try_from(used.as_millis()).unwrap_or(u64::MAX), millis)?;
        Some(Self { used: near.used / 1000.0, of: near.of / 1000.0, ..near })
    }

    fn is_over(self) -> bool {
        self.used >= self.of
    }
}

/// The sample's own limits that are near.
pub(super) fn of_sample(work: &Work<'_>, state: &State) -> Vec<Near> {
    let (limits, messages) = (&work.limits, u64::try_from(state.messages.len()).unwrap_or(u64::MAX));
    let all = [
        Near::of_time("time", work.journal.elapsed(), Some(work.plan.limits.time.amount.0)),
        Near::of_time("working", work.journal.worked(), limits.working),
        Near::of("message", messages, limits.messages.map(u64::from)),
        Near::of("token", state.tokens(), limits.tokens),
        limits.cost.and_then(|limit| Near::of_amount("cost", state.cost(), limit.amount())),
    ];
    all.into_iter().flatten().collect()
}

/// Writes each down, once in a sample. A limit that is over has its own event.
pub(super) fn note(journal: &Journal, state: &mut State, near: &[Near]) {
    for one in near {
        if !one.is_over() && !state.neared.contains(&one.limit) {
            state.neared.push(one.limit);
            say(journal, *one);
        }
    }
}

fn say(journal: &Journal, near: Near) {
    journal.info(json!({"kind": "limit_nearing", "limit": near.limit, "at": NEAR, "used": near.used, "of": near.of}));
}

/// Says when the sample's time comes to an end, whatever it is doing then; never returns.
pub(super) async fn watch_time(work: &Work<'_>) -> std::convert::Infallible {
    let limit = Duration::from_millis(work.plan.limits.time.amount.0);
    tokio::time::sleep(limit.mul_f64(NEAR).saturating_sub(work.journal.elapsed())).await;
    say(work.journal, Near { limit: "time", used: work.journal.elapsed().as_secs_f64(), of: limit.as_secs_f64() });
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_at_four_fifths() {
        assert_eq!(Near::of("token", 79, Some(100)), None);
        assert_eq!(Near::of("token", 80, Some(100)), Some(Near { limit: "token", used: 80.0, of: 100.0 }));
        assert_eq!(Near::of("token", u64::MAX, None), None);
        let near = Near::of_time("time", Duration::from_secs(9), Some(10_000));
        assert_eq!(near, Some(Near { limit: "time", used: 9.0, of: 10.0 }));
        assert!(Near::of("message", 4, Some(4)).is_some_and(Near::is_over));
    }
}
