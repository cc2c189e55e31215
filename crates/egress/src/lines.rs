//! The gateway's side of lines to services: it asks the runner, who answers with a descriptor.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, mpsc, oneshot};

use crate::link::FromGateway;
use crate::reason::Reason;
use crate::services::{Line, Reach};

/// How many open lines are kept before those that ended are looked for.
const SWEEP: usize = 256;

/// Lines that were asked for, and those that are open.
pub(crate) struct Lines {
    out: mpsc::UnboundedSender<FromGateway>,
    next: AtomicU32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<u32, oneshot::Sender<Result<Line, Reason>>>,
    open: HashMap<u32, Weak<Notify>>,
    sweep_at: usize,
}

impl Lines {
    pub(crate) fn new(out: mpsc::UnboundedSender<FromGateway>) -> Self {
        Self { out, next: AtomicU32::new(1), table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runner's answer. A line that nobody waits for any more is closed, and the runner sees that.
    pub(crate) fn reached(&self, ask: u32, error: Option<Reason>, socket: Option<OwnedFd>) {
        let mut table = self.table();
        let Some(waiting) = table.waiting.remove(&ask) else { return };
        let answer = match (error, socket) {
            (None, Some(socket)) => {
                let broken = Arc::new(Notify::new());
                if table.open.len() >= table.sweep_at.max(SWEEP) {
                    table.open.retain(|_, line| line.strong_count() > 0);
                    table.sweep_at = table.open.len() * 2;
                }
                table.open.insert(ask, Arc::downgrade(&broken));
                Ok(Line { socket, broken })
            }
            (error, _) => Err(error.unwrap_or(Reason::HostUnreachable)),
        };
        let _ = waiting.send(answer);
    }

    /// The service's side of a line broke.
    pub(crate) fn cut(&self, ask: u32) {
        let line = self.table().open.remove(&ask).and_then(|line| line.upgrade());
        if let Some(line) = line {
            // Kept for whoever does not wait yet.
            line.notify_one();
        }
    }
}

impl Reach for Lines {
    fn reach(
        &self,
        from: u32,
        service: &str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = Result<Line, Reason>> + Send + '_>> {
        let ask = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut table = self.table();
            // Those whose time was up.
            table.waiting.retain(|_, sender| !sender.is_closed());
            table.waiting.insert(ask, sender);
        }
        let _ = self.out.send(FromGateway::Reach { ask, id: from, service: service.to_owned(), port });
        Box::pin(async move { answer.await.unwrap_or(Err(Reason::HostUnreachable)) })
    }
}
