//! How many requests are under way at the same time: as many as the provider bears.
//!
//! Additive increase, multiplicative decrease: every answer lets a little more through, a refusal halves it. Whoever
//! waits is served in the order of asking.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Lets requests through.
#[derive(Debug, Clone)]
pub(crate) struct Limiter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// How many may be under way; at least 1.
    limit: f64,
    most: f64,
    under_way: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
    /// Counts the cuts: refusals of requests from before a cut say nothing new.
    cuts: u64,
}

/// One request that may be under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Limiter,
    cuts: u64,
}

impl Limiter {
    #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        Self(Arc::new(Mutex::new(State { limit: most, most, under_way: 0, waiting: VecDeque::new(), cuts: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    pub(crate) async fn acquire(&self) -> Permit {
        loop {
            let turn = {
                let mut state = self.state();
                if state.waiting.is_empty() && state.has_room() {
                    state.under_way += 1;
                    return Permit { limiter: self.clone(), cuts: state.cuts };
                }
                let (sender, turn) = oneshot::channel();
                state.waiting.push_back(sender);
                turn
            };
            // A sender is only dropped with its permit inside, which cannot be lost while we wait.
            if let Ok(permit) = turn.await {
                return permit;
            }
        }
    }

    /// Hands turns to those who wait, the first first.
    fn hand_on(&self) {
        loop {
            let (sender, cuts) = {
                let mut state = self.state();
                if !state.has_room() {
                    return;
                }
                let Some(sender) = state.waiting.pop_front() else { return };
                if sender.is_closed() {
                    continue;
                }
                state.under_way += 1;
                (sender, state.cuts)
            };
            // Should it stop waiting just now, the permit is dropped, and comes here again.
            drop(sender.send(Permit { limiter: self.clone(), cuts }));
        }
    }
}

impl State {
    #[expect(clippy::cast_precision_loss, reason = "a count of connections")]
    fn has_room(&self) -> bool {
        (self.under_way as f64) < self.limit.floor()
    }
}

impl Permit {
    /// The provider answered: it may bear more.
    pub(crate) fn succeeded(self) {
        let mut state = self.limiter.state();
        state.limit = (state.limit + 1.0 / state.limit).min(state.most);
    }

    /// The provider bears less.
    pub(crate) fn refused(self) {
        let mut state = self.limiter.state();
        if self.cuts == state.cuts {
            state.limit = (state.limit / 2.0).max(1.0);
            state.cuts += 1;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.state().under_way -= 1;
        self.limiter.hand_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(limiter: &Limiter) -> f64 {
        limiter.state().limit
    }

    #[tokio::test]
    async fn a_refusal_halves_and_answers_bring_it_back() {
        let limiter = Limiter::new(8);
        let permits = [limiter.acquire().await, limiter.acquire().await, limiter.acquire().await];
        for permit in permits {
            // Three requests that were under way together are one piece of news.
            permit.refused();
        }
        assert!((limit(&limiter) - 4.0).abs() < 1e-9);
        for _ in 0..5 {
            limiter.acquire().await.refused();
        }
        assert!((limit(&limiter) - 1.0).abs() < 1e-9);
        for _ in 0..40 {
            limiter.acquire().await.succeeded();
        }
        assert!((limit(&limiter) - 8.0).abs() < 1e-9, "{}", limit(&limiter));
        assert_eq!(limiter.state().under_way, 0);
    }

    #[tokio::test]
    async fn who_waits_is_served_in_order_and_may_leave() {
        let limiter = Limiter::new(1);
        let first = limiter.acquire().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..4 {
            let (limiter, order) = (limiter.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let permit = limiter.acquire().await;
                order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                permit.succeeded();
            }));
            tokio::task::yield_now().await;
        }
        tasks.remove(1).abort();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            assert!(task.await.is_ok());
        }
        assert_eq!(*order.lock().unwrap_or_else(PoisonError::into_inner), [0, 2, 3]);
        assert_eq!(limiter.state().under_way, 0);
    }
}
