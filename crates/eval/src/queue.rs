//! Time that a sample waits for a sandbox slot, and deadlines that exclude it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest interval between two checks of the time waited.
const SHORTEST_CHECK: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
struct State {
    /// Time spent in waits that are over.
    waited: Duration,
    /// Start of the current wait.
    since: Option<Instant>,
}

/// One sample's time of waiting for slots; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    state: Arc<Mutex<State>>,
}

/// Guard of the current wait; its end is the drop.
struct Waiting<'a>(&'a Queue);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = state.since.take() {
            state.waited += since.elapsed();
        }
    }
}

impl Queue {
    /// Waits for a slot. A sample has at most one wait at a time.
    pub(crate) async fn wait<T>(&self, turn: impl Future<Output = T>) -> T {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).since = Some(Instant::now());
        let _waiting = Waiting(self);
        turn.await
    }

    /// Total time waited, including the current wait.
    pub(crate) fn waited(&self) -> Duration {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waited + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Runs `work` within `limit`, which excludes waiting for slots; `None` if it takes longer.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (begun, before) = (Instant::now(), self.waited());
        let mut work = std::pin::pin!(work);
        loop {
            let worked = begun.elapsed().saturating_sub(self.waited().saturating_sub(before));
            let left = limit.checked_sub(worked).filter(|left| !left.is_zero())?;
            if let Ok(done) = tokio::time::timeout(left.max(SHORTEST_CHECK), &mut work).await {
                return Some(done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_millis(600);

    #[tokio::test]
    async fn waiting_for_a_turn_does_not_count_and_work_does() {
        let queue = Queue::default();
        assert_eq!(queue.within(LIMIT, async { 1 }).await, Some(1));
        assert_eq!(queue.within(LIMIT, queue.wait(sleep(LONG))).await, Some(()), "it waited only");
        assert_eq!(queue.within(LIMIT, sleep(LONG)).await, None, "earlier waiting gives no more time");
        let both = async {
            queue.wait(sleep(LONG)).await;
            sleep(LONG).await;
        };
        assert_eq!(queue.within(LIMIT, both).await, None, "after its turn it has the limit and no more");
        let given_up = tokio::time::timeout(LIMIT, queue.wait(std::future::pending::<()>())).await;
        assert!(given_up.is_err() && queue.state.lock().unwrap().since.is_none(), "a wait that is given up ends");
    }
}
