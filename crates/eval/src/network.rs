//! The gateway of an evaluation: one for all its sandboxes, and whose record is whose.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egress::{
    Asked, Attachment, Counters, Decider, GatewayError, GatewayProcess, Neighbour, Neighbours, Notice, Outcome, Record,
    Settings,
};
use profile::Egress;
use sandbox::Capture;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};

use crate::approval::Gate;
use crate::journal::Journal;

/// Network events of one sample that are kept; what comes after is counted.
const MOST_EVENTS: u64 = 10_000;

struct Watcher {
    journal: Journal,
    /// Whose network it is, where a sample has several.
    service: Option<String>,
    events: u64,
    lost: watch::Sender<Option<String>>,
    attachment: Option<u32>,
    /// Answered when all records have come.
    complete: Option<oneshot::Sender<()>>,
    /// Who is asked about names that no rule lists; nobody but while the agent works.
    gate: Option<Arc<Gate>>,
}

#[derive(Default)]
struct Table {
    watchers: HashMap<String, Watcher>,
    refused: u64,
    gone: Option<String>,
}

/// The gateway, and who hears of what.
pub(crate) struct Network {
    gateway: GatewayProcess,
    table: Arc<Mutex<Table>>,
    _listening: tokio::task::JoinHandle<()>,
}

/// One sandbox's network while it is served.
pub(crate) struct Served {
    name: String,
    attachment: Attachment,
    lost: watch::Receiver<Option<String>>,
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// `asking` says whether anybody is ever asked about names that no rule lists.
    pub(crate) async fn start(settings: Settings, asking: bool) -> Result<Self, GatewayError> {
        let table = Arc::new(Mutex::new(Table::default()));
        let decider = asking.then(|| Arc::new(Asking(Arc::clone(&table))) as Arc<dyn Decider>);
        let (gateway, notices) = GatewayProcess::start(settings, decider).await?;
        let listening = tokio::spawn(listen(notices, Arc::clone(&table)));
        Ok(Self { gateway, table, _listening: listening })
    }

    /// How many attempts were refused so far, in all samples.
    pub(crate) fn refused(&self) -> u64 {
        lock(&self.table).refused
    }

    /// Has a sandbox served; its records become events of that journal.
    pub(crate) async fn attach(
        &self,
        name: &str,
        egress: &Egress,
        capture: Capture,
        journal: &Journal,
    ) -> Result<Served, GatewayError> {
        self.attach_as(name, None, journal, self.gateway.attach(name, egress, capture)).await
    }

    async fn attach_as(
        &self,
        name: &str,
        service: Option<&str>,
        journal: &Journal,
        attaching: impl Future<Output = Result<Attachment, GatewayError>>,
    ) -> Result<Served, GatewayError> {
        let (tell, lost) = watch::channel(lock(&self.table).gone.clone());
        let (journal, service) = (journal.clone(), service.map(str::to_owned));
        let watcher = Watcher { journal, service, events: 0, lost: tell, attachment: None, complete: None, gate: None };
        lock(&self.table).watchers.insert(name.to_owned(), watcher);
        let attached = attaching.await;
        let mut table = lock(&self.table);
        match attached {
            Ok(attachment) => {
                if let Some(watcher) = table.watchers.get_mut(name) {
                    watcher.attachment = Some(attachment.id());
                }
                Ok(Served { name: name.to_owned(), attachment, lost })
            }
            Err(error) => {
                table.watchers.remove(name);
                Err(error)
            }
        }
    }

    /// Puts other rules in force; what they forbid is cut.
    pub(crate) async fn replace(&self, served: &Served, egress: &Egress) -> Result<(), GatewayError> {
        self.gateway.advance(served.attachment, egress).await
    }

    /// Who is asked from now on about names that no rule lists.
    pub(crate) fn ask(&self, served: &Served, gate: Option<Arc<Gate>>) {
        if let Some(watcher) = lock(&self.table).watchers.get_mut(&served.name) {
            watcher.gate = gate;
        }
    }

    /// Ends a sandbox's network. Its records are in the journal then, or the gateway is gone.
    pub(crate) async fn detach(&self, served: Served) -> Option<Counters> {
        let (answer, complete) = oneshot::channel();
        if let Some(watcher) = lock(&self.table).watchers.get_mut(&served.name) {
            watcher.complete = Some(answer);
        }
        let counters = self.gateway.detach(served.attachment).await.ok();
        if counters.is_some() {
            // The gateway's answer can overtake records that `listen` has not read yet.
            let _ = complete.await;
        }
        lock(&self.table).watchers.remove(&served.name);
        counters
    }
}

/// The networks of one sample's services; their records become events of its journal.
pub(crate) struct Services<'a> {
    pub(crate) network: &'a Network,
    /// Whose they are: part of the names in records.
    pub(crate) sample: String,
    pub(crate) journal: &'a Journal,
}

impl stack::Gateway for Services<'_> {
    type Served = Served;

    async fn attach(
        &self,
        service: &str,
        egress: &Egress,
        capture: Capture,
        neighbours: Vec<Neighbour>,
        through: Arc<dyn Neighbours>,
    ) -> Result<Served, GatewayError> {
        let name = format!("{}/{service}", self.sample);
        let attaching = self.network.gateway.attach_among(&name, egress, capture, neighbours, through);
        self.network.attach_as(&name, Some(service), self.journal, attaching).await
    }

    async fn replace(&self, served: &Served, egress: &Egress) -> Result<(), GatewayError> {
        self.network.replace(served, egress).await
    }

    async fn detach(&self, service: &str, served: Served) {
        if let Some(counters) = self.network.detach(served).await {
            self.journal.info(totals(Some(service), counters));
        }
    }
}

/// What came together in a network, for the log.
pub(crate) fn totals(service: Option<&str>, counters: Counters) -> serde_json::Value {
    let mut totals = json!({
        "kind": "network_totals",
        "queries": counters.queries,
        "connections": counters.connections,
        "refused": counters.refused,
        "sent": counters.sent,
        "received": counters.received,
        "records_lost": counters.lost,
    });
    if let Some(service) = service {
        totals["service"] = json!(service);
    }
    totals
}

/// Has the sample's own gate decide; the gateway asks only where a name is neither listed nor denied.
struct Asking(Arc<Mutex<Table>>);

impl Decider for Asking {
    fn decide(&self, asked: Asked) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let gate = lock(&self.0).watchers.get(&asked.sandbox).and_then(|watcher| watcher.gate.clone());
        Box::pin(async move {
            match gate {
                Some(gate) => gate.name(&asked.name).await,
                None => false,
            }
        })
    }
}

impl Served {
    /// Resolves when nothing watches this network any more.
    pub(crate) async fn lost(&mut self) -> String {
        match self.lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the gateway is gone".into(),
        }
    }
}

async fn listen(mut notices: mpsc::UnboundedReceiver<Notice>, table: Arc<Mutex<Table>>) {
    while let Some(notice) = notices.recv().await {
        let mut table = lock(&table);
        match notice {
            Notice::Record(record) => {
                if record.verdict == Outcome::Refused {
                    table.refused += record.count;
                }
                if let Some(watcher) = table.watchers.get_mut(&record.sandbox) {
                    watcher.hear(&record);
                }
            }
            Notice::Detached(attachment) => {
                let of = |watcher: &&mut Watcher| watcher.attachment == Some(attachment.id());
                if let Some(answer) = table.watchers.values_mut().find(of).and_then(|one| one.complete.take()) {
                    let _ = answer.send(());
                }
            }
            Notice::Lost(lost) => {
                let found = table.watchers.values().find(|watcher| watcher.attachment == Some(lost.id));
                if let Some(watcher) = found {
                    watcher.lost.send_replace(Some(lost.why));
                }
            }
            Notice::Gone => {
                let why = String::from("the gateway is gone");
                for watcher in table.watchers.values_mut() {
                    watcher.complete = None;
                    watcher.lost.send_replace(Some(why.clone()));
                }
                table.gone = Some(why);
            }
        }
    }
}

impl Watcher {
    fn hear(&mut self, record: &Record) {
        self.events += 1;
        if self.events <= MOST_EVENTS {
            let mut event = json!({"kind": "network", "record": record});
            if let Some(service) = &self.service {
                event["service"] = json!(service);
            }
            self.journal.info(event);
        } else if self.events == MOST_EVENTS + 1 {
            self.journal.info(json!({"kind": "network", "more": "further records of this sample are only counted"}));
        }
    }
}
