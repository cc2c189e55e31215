//! Sandboxes that wait: complete, never used, each for one claim. Made while nobody waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::container::Capture;
use crate::maker::{Maker, Variant};
use crate::sandbox::{Sandbox, StartError};

/// How long the pool rests after a sandbox could not be made.
const REST: Duration = Duration::from_secs(1);

struct Shared {
    maker: Arc<dyn Maker>,
    size: usize,
    demand: Mutex<Demand>,
    ready: Mutex<VecDeque<(Sandbox, Capture)>>,
    taken: Notify,
    /// One that was being prepared is there, or could not be made.
    settled: Notify,
}

struct Demand {
    /// How many claims are still to be met by ones that nobody has begun to make.
    unmet: usize,
    /// Whether one is being prepared.
    underway: bool,
}

/// A bounded number of prepared sandboxes of one kind.
pub struct Pool {
    shared: Arc<Shared>,
    filling: JoinHandle<()>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("size", &self.shared.size).finish_non_exhaustive()
    }
}

impl Pool {
    /// Begins to prepare `size` sandboxes, and keeps as many ready.
    pub fn new(maker: Arc<dyn Maker>, size: usize) -> Self {
        Self::expecting(maker, size, usize::MAX)
    }

    /// The same where no more than so many claims are expected. Nothing is prepared for nobody; further claims are met too,
    /// by new ones.
    pub fn expecting(maker: Arc<dyn Maker>, size: usize, expected: usize) -> Self {
        let shared = Arc::new(Shared {
            maker,
            size,
            demand: Mutex::new(Demand { unmet: expected, underway: false }),
            ready: Mutex::default(),
            taken: Notify::new(),
            settled: Notify::new(),
        });
        let filling = tokio::spawn(fill(Arc::clone(&shared)));
        Self { shared, filling }
    }

    /// A sandbox that nobody had before: a prepared one, or a new one where none is ready. One whose network is captured
    /// has nobody behind its listeners yet.
    pub async fn claim(&self) -> Result<(Sandbox, Capture), StartError> {
        loop {
            // Looked at before anything else: what comes in between is not missed.
            let mut settled = std::pin::pin!(self.shared.settled.notified());
            settled.as_mut().enable();
            while let Some((sandbox, capture)) = self.shared.take() {
                self.shared.taken.notify_one();
                // It may have died while it waited.
                if sandbox.session().is_alive() {
                    return Ok((sandbox, capture));
                }
            }
            // The last that is expected is not made twice: once here, and once for nobody.
            let is_underway = {
                let mut demand = self.shared.demand();
                let all_met = demand.unmet == 0;
                demand.unmet = demand.unmet.saturating_sub(1);
                all_met && demand.underway
            };
            if !is_underway {
                return self.shared.maker.make(Variant::default()).await;
            }
            settled.await;
        }
    }

    /// How many are ready.
    pub fn ready(&self) -> usize {
        self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends what nobody claimed.
    pub async fn close(self) -> Result<(), StartError> {
        self.filling.abort();
        while let Some((sandbox, _)) = self.shared.take() {
            sandbox.stop().await?;
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.filling.abort();
    }
}

impl Shared {
    fn demand(&self) -> MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more is to be prepared; it then is under way.
    fn begin_one(&self) -> bool {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).len();
        let mut demand = self.demand();
        demand.underway = ready < self.size && demand.unmet > 0;
        demand.unmet -= usize::from(demand.underway);
        demand.underway
    }

    fn take(&self) -> Option<(Sandbox, Capture)> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Keeps the pool full, one sandbox after the other, so that it never takes more than one processor.
async fn fill(shared: Arc<Shared>) {
    loop {
        if !shared.begin_one() {
            shared.taken.notified().await;
            continue;
        }
        let made = shared.maker.make(Variant::default()).await;
        let failed = made.is_err();
        // Whoever claims will see the same error.
        shared.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(made.ok());
        shared.demand().underway = false;
        shared.settled.notify_waiters();
        if failed {
            // Trying again at once would help nobody.
            tokio::time::sleep(REST).await;
        }
    }
}
