//! The gateway of the server: one for all sandboxes, and whose record is whose.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use egress::{Asked, Attachment, Decider, GatewayError, GatewayProcess, Neighbour, Neighbours, Notice, Settings};
use profile::Egress;
use sandbox::Capture;
use tokio::sync::{mpsc, oneshot};

use super::approvals::Approvals;
use super::ending::Ending;
use super::lock;
use super::records::Records;
use crate::server::Owner;

/// Whose network it is, and who hears of it.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) sandbox: String,
    pub(crate) service: String,
    pub(crate) owner: Owner,
    /// Whether names that no rule lists are put before a person.
    pub(crate) asks: bool,
    pub(crate) records: Arc<Records>,
    pub(crate) ending: Ending,
}

#[derive(Default)]
struct Table {
    watchers: HashMap<String, (Watcher, Option<u32>)>,
    /// Answered when all records of a network that ends have come, by the attachment's number.
    completing: HashMap<u32, oneshot::Sender<()>>,
    gone: bool,
}

/// One gateway process, and who hears of what.
pub(crate) struct Network {
    gateway: GatewayProcess,
    table: Arc<Mutex<Table>>,
}

/// Where a gateway comes from: started when it is needed, and again when it is gone.
pub(crate) struct Networks {
    settings: Settings,
    approvals: Arc<Approvals>,
    current: tokio::sync::Mutex<Option<Arc<Network>>>,
}

/// One sandbox's network while it is served.
pub(crate) struct Served {
    network: Arc<Network>,
    name: String,
    attachment: Attachment,
}

impl Networks {
    pub(crate) fn new(settings: Settings, approvals: Arc<Approvals>) -> Self {
        Self { settings, approvals, current: tokio::sync::Mutex::default() }
    }

    async fn network(&self) -> Result<Arc<Network>, GatewayError> {
        // Held while one starts: whoever else needs it waits for the same.
        let mut current = self.current.lock().await;
        if let Some(network) = current.as_ref().filter(|network| !lock(&network.table).gone) {
            return Ok(Arc::clone(network));
        }
        let table = Arc::new(Mutex::new(Table::default()));
        let decider = Asking { table: Arc::clone(&table), approvals: Arc::clone(&self.approvals) };
        let (gateway, notices) = GatewayProcess::start(self.settings.clone(), Some(Arc::new(decider))).await?;
        // Ends with the gateway, whose reader holds the other end.
        tokio::spawn(listen(notices, Arc::clone(&table)));
        let network = Arc::new(Network { gateway, table });
        *current = Some(Arc::clone(&network));
        Ok(network)
    }

    /// Has a sandbox served, among its neighbours if it has some. Nothing may run in it before.
    pub(crate) async fn attach(
        &self,
        watcher: Watcher,
        egress: &Egress,
        capture: Capture,
        among: Option<(Vec<Neighbour>, Arc<dyn Neighbours>)>,
    ) -> Result<Served, GatewayError> {
        let network = self.network().await?;
        let name = format!("{}/{}", watcher.sandbox, watcher.service);
        lock(&network.table).watchers.insert(name.clone(), (watcher, None));
        let attached = match among {
            None => network.gateway.attach(&name, egress, capture).await,
            Some((neighbours, through)) => {
                network.gateway.attach_among(&name, egress, capture, neighbours, through).await
            }
        };
        let mut table = lock(&network.table);
        match attached {
            Ok(attachment) => {
                let gone = table.gone;
                if let Some((watcher, number)) = table.watchers.get_mut(&name) {
                    *number = Some(attachment.id());
                    if gone {
                        watcher.ending.want(GONE);
                    }
                }
                drop(table);
                Ok(Served { network, name, attachment })
            }
            Err(error) => {
                table.watchers.remove(&name);
                Err(error)
            }
        }
    }

    /// Ends the gateway.
    pub(crate) async fn close(&self) {
        self.current.lock().await.take();
    }
}

impl Served {
    /// Puts other rules in force; what they forbid is cut.
    pub(crate) async fn replace(&self, egress: &Egress) -> Result<(), GatewayError> {
        self.network.gateway.replace(self.attachment, egress).await
    }

    /// Ends it. All its records have come then, or the gateway is gone.
    pub(crate) async fn detach(&self) {
        let (answer, complete) = oneshot::channel();
        lock(&self.network.table).completing.insert(self.attachment.id(), answer);
        let counters = self.network.gateway.detach(self.attachment).await.ok();
        if counters.is_some() {
            // The gateway's answer can overtake records that `listen` has not read yet.
            let _ = complete.await;
        }
        let watcher = {
            let mut table = lock(&self.network.table);
            table.completing.remove(&self.attachment.id());
            table.watchers.remove(&self.name)
        };
        if let (Some((watcher, _)), Some(counters)) = (watcher, counters) {
            watcher.records.lost(counters.lost);
        }
    }
}

const GONE: &str = "capture_lost: nothing watches its network any more: the gateway is gone";

async fn listen(mut notices: mpsc::UnboundedReceiver<Notice>, table: Arc<Mutex<Table>>) {
    while let Some(notice) = notices.recv().await {
        let mut table = lock(&table);
        match notice {
            Notice::Record(mut record) => {
                if let Some((watcher, _)) = table.watchers.get(&record.sandbox) {
                    record.sandbox.clone_from(&watcher.sandbox);
                    watcher.records.add(&watcher.service, record);
                }
            }
            Notice::Detached(attachment) => {
                if let Some(answer) = table.completing.remove(&attachment.id()) {
                    let _ = answer.send(());
                }
            }
            Notice::Lost(lost) => {
                let found = table.watchers.values().find(|(_, number)| *number == Some(lost.id));
                if let Some((watcher, _)) = found {
                    watcher.ending.want(&format!("capture_lost: nothing watches its network any more: {}", lost.why));
                }
            }
            Notice::Gone => {
                table.gone = true;
                table.completing.clear();
                for (watcher, _) in table.watchers.values() {
                    watcher.ending.want(GONE);
                }
            }
        }
    }
}

/// Puts names before a person, where their sandbox says so; else the answer is no.
struct Asking {
    table: Arc<Mutex<Table>>,
    approvals: Arc<Approvals>,
}

impl Decider for Asking {
    fn decide(&self, asked: Asked) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let watcher = lock(&self.table).watchers.get(&asked.sandbox).map(|(watcher, _)| watcher.clone());
        let Some(watcher) = watcher.filter(|watcher| watcher.asks) else { return Box::pin(std::future::ready(false)) };
        let approvals = Arc::clone(&self.approvals);
        Box::pin(async move { approvals.ask(watcher.owner, &watcher.sandbox, &watcher.service, &asked.name).await })
    }
}
