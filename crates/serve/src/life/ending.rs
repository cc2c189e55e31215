//! The end of a sandbox: who wants it says why, once; whoever keeps the sandbox does it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Shared by everybody who may end a sandbox.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    why: Arc<OnceLock<String>>,
    wanted: CancellationToken,
    done: CancellationToken,
}

impl Ending {
    /// Wants the end; the first reason is the reason.
    pub(crate) fn want(&self, why: &str) {
        let _ = self.why.set(why.to_owned());
        self.wanted.cancel();
    }

    /// Resolves when somebody wants it.
    pub(crate) async fn wanted(&self) {
        self.wanted.cancelled().await;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.is_cancelled()
    }

    pub(crate) fn why(&self) -> String {
        self.why.get().cloned().unwrap_or_else(|| "it ended".into())
    }

    /// Says that nothing of it is left.
    pub(crate) fn finish(&self) {
        self.done.cancel();
    }

    /// Resolves when nothing of it is left.
    pub(crate) async fn finished(&self) {
        self.done.cancelled().await;
    }
}
