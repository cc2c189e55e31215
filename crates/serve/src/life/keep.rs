//! Whoever keeps a sandbox: holds it, and ends it when somebody wants that, its lease is over, or it died.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use sandbox::{Maker, Registered, Sandbox};
use tokio::task::JoinHandle;

use super::held::Held;
use super::services::Stacked;
use super::table::Slot;
use crate::app::App;

/// How long ending may take before it is left to the engine's own safety net.
const PATIENCE: Duration = Duration::from_secs(20);

/// A sandbox that other commands of this user find while this is held.
pub(crate) struct Listed {
    _registered: Registered,
    serving: JoinHandle<()>,
}

impl Listed {
    /// Puts it on the list. Where that cannot be done it works all the same; the command has warned when the server started.
    pub(crate) fn new(sandbox: &Sandbox, name: &str, about: &str, image: &str) -> Option<Self> {
        let registered = Registered::new(name, about, image).ok()?;
        let listener = tokio::net::UnixListener::bind(registered.socket()).ok()?;
        let serving = tokio::spawn(sandbox::share(sandbox.session().clone(), sandbox.changes(), listener));
        Some(Self { _registered: registered, serving })
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What is held while it lives.
pub(crate) struct Kept {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) stacked: Option<Stacked>,
    pub(crate) listed: Vec<Listed>,
    pub(crate) makers: Vec<Arc<dyn Maker>>,
    pub(crate) slot: Slot,
    pub(crate) held: Box<dyn Any + Send + Sync>,
}

/// Keeps it to its end.
pub(crate) async fn keep(app: Arc<App>, held: Arc<Held>, kept: Kept) {
    let Kept { sandboxes, stacked, listed, makers, slot, held: resources } = kept;
    tokio::select! {
        () = held.ending.wanted() => {}
        () = app.closing.cancelled() => held.ending.want("the server ends"),
        () = lease(&held) => held.ending.want("nobody asked for it, and its lease ended"),
        () = death(&held) => held.ending.want("it died"),
    }
    drop(listed);
    app.approvals.forget(&held.id);
    let ended = async {
        for sandbox in sandboxes {
            if sandbox.stop().await.is_err() {
                app.metrics.count_failed_end();
            }
        }
        if let Some(stacked) = stacked {
            if stacked.end().await.is_err() {
                app.metrics.count_failed_end();
            }
            return;
        }
        for service in held.services.values() {
            if let Some(served) = &service.served {
                served.detach().await;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, ended).await;
    app.sandboxes.remove(&held);
    drop((makers, resources, slot));
    held.ending.finish();
}

/// Resolves when one of its containers died.
async fn death(held: &Held) {
    if held.services.is_empty() {
        return;
    }
    select_all(held.services.values().map(|service| Box::pin(service.view.session().gone()))).await;
}

/// Resolves when the lease is over; never without one.
async fn lease(held: &Held) {
    loop {
        match held.left() {
            None => std::future::pending().await,
            Some(Duration::ZERO) => return,
            Some(left) => tokio::time::sleep(left).await,
        }
    }
}
