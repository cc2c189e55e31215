//! Whoever makes sandboxes of a kind, kept for the next one of the same kind: starting a helper costs more than a sandbox.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sandbox::{Capture, Kind, Maker, Sandbox, StartError, Variant};

use super::lock;

/// Kinds whose makers are kept while none of their sandboxes lives.
const KEPT: usize = 8;

/// Makers by what they make.
#[derive(Default)]
pub(crate) struct Makers {
    kept: Mutex<VecDeque<(String, Arc<dyn Maker>)>>,
    next: AtomicU64,
}

impl Makers {
    /// A sandbox of this kind. `key` is the same for the same kind only.
    pub(crate) async fn make(
        &self,
        key: &str,
        kind: &Arc<dyn Kind>,
    ) -> Result<(Sandbox, Capture, Arc<dyn Maker>), StartError> {
        if let Some(maker) = self.find(key) {
            match maker.make(Variant::default()).await {
                Ok((sandbox, capture)) => return Ok((sandbox, capture, maker)),
                // Its helper may be dead; another may do better.
                Err(_) => self.forget(key),
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let maker = kind.start(&format!("serve-{}-{number}", std::process::id())).await?;
        let (sandbox, capture) = maker.make(Variant::default()).await?;
        self.keep(key, &maker);
        Ok((sandbox, capture, maker))
    }

    fn find(&self, key: &str) -> Option<Arc<dyn Maker>> {
        let mut kept = lock(&self.kept);
        let place = kept.iter().position(|(known, _)| known == key)?;
        // Used last is kept longest.
        let found = kept.remove(place)?;
        let maker = Arc::clone(&found.1);
        kept.push_back(found);
        Some(maker)
    }

    fn keep(&self, key: &str, maker: &Arc<dyn Maker>) {
        let mut kept = lock(&self.kept);
        if kept.iter().any(|(known, _)| known == key) {
            return;
        }
        let over = if kept.len() >= KEPT { kept.pop_front() } else { None };
        kept.push_back((key.to_owned(), Arc::clone(maker)));
        drop(kept);
        // Ending one takes a moment: not while others wait for the list.
        drop(over);
    }

    fn forget(&self, key: &str) {
        lock(&self.kept).retain(|(known, _)| known != key);
    }

    /// Ends those whose sandboxes are gone.
    pub(crate) fn close(&self) {
        let all = std::mem::take(&mut *lock(&self.kept));
        drop(all);
    }
}
