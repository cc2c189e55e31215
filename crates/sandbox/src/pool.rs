//! Sandboxes that wait: complete, never used, each for one claim. Made while nobody waits for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// How many claims are still to be met by ones that nobody has begun to make.
    wanted: Mutex<usize>,
    ready: Mutex<VecDeque<(Sandbox, Capture)>>,
    taken: Notify,
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
            wanted: Mutex::new(expected),
            ready: Mutex::default(),
            taken: Notify::new(),
        });
        let filling = tokio::spawn(fill(Arc::clone(&shared)));
        Self { shared, filling }
    }

    /// A sandbox that nobody had before: a prepared one, or a new one where none is ready. One whose network is captured
    /// has nobody behind its listeners yet.
    pub async fn claim(&self) -> Result<(Sandbox, Capture), StartError> {
        while let Some((sandbox, capture)) = self.shared.take() {
            self.shared.taken.notify_one();
            // It may have died while it waited.
            if sandbox.session().is_alive() {
                return Ok((sandbox, capture));
            }
        }
        self.shared.begin_one();
        self.shared.maker.make(Variant::default()).await
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
    /// One more is made; whether anybody is expected to claim it.
    fn begin_one(&self) -> bool {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = *wanted > 0;
        *wanted = wanted.saturating_sub(1);
        is_wanted
    }

    fn take(&self) -> Option<(Sandbox, Capture)> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Keeps the pool full, one sandbox after the other, so that it never takes more than one processor.
async fn fill(shared: Arc<Shared>) {
    loop {
        let ready = shared.ready.lock().unwrap_or_else(PoisonError::into_inner).len();
        if ready >= shared.size || !shared.begin_one() {
            shared.taken.notified().await;
            continue;
        }
        match shared.maker.make(Variant::default()).await {
            Ok(made) => shared.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(made),
            // Whoever claims will see the same error; trying again at once would help nobody.
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}
