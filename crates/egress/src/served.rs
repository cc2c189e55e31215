//! One sandbox as the gateway knows it: its rules, its addresses for names, its limits, its journal.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use profile::{AllowRule, Egress, HostName, HostPattern, Port};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::book::Book;
use crate::neighbours::Neighbourhood;
use crate::outside::Outside;
use crate::reason::Reason;
use crate::record::Journal;
use crate::relay::{Allowance, Buffers};
use crate::services::Reach;

/// What one sandbox may use of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Connections at the same time.
    pub connections: usize,
    /// Names under wildcards, over its life.
    pub open_names: usize,
    /// Queries in a second.
    pub queries_per_second: u32,
    /// Bytes in both directions, over its life; `None`: no limit.
    pub bytes: Option<u64>,
    /// Bytes in both directions in a second; `None`: no limit.
    pub bytes_per_second: Option<u64>,
    /// How long a connection may take to show what it is.
    pub greeting: Duration,
    /// How long connecting may take.
    pub connect: Duration,
    /// How long a connection may say nothing.
    pub idle: Duration,
    /// How long whoever is asked may take.
    pub decide: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            open_names: 256,
            queries_per_second: 200,
            bytes: None,
            bytes_per_second: None,
            greeting: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            idle: Duration::from_mins(10),
            decide: Duration::from_secs(30),
        }
    }
}

/// What somebody is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The sandbox.
    pub sandbox: String,
    /// The name that no rule lists.
    pub name: HostName,
}

/// Somebody who is asked when no rule lists a name. Denied names are never asked about, and at N2 nobody is asked.
/// An answer in time is recorded and holds for the sandbox's life; none in time is a no for this once.
pub trait Decider: Send + Sync {
    /// Whether the name may be reached, as if it stood in `allow_domains`.
    fn decide(&self, asked: Asked) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// Up to so many connections have buffers as large as the kernel likes.
const UNCROWDED: usize = 64;
/// How many names may be asked about at the same time.
const MAX_PENDING: usize = 16;
/// Connections to neighbours at the same time, and how many of them may be on their way.
const MAX_LINES: usize = 512;
const MAX_ASKING: usize = 32;
/// Queries of one sandbox that wait for somebody at the same time.
const MAX_QUESTIONS: usize = 64;
/// How many decisions are remembered.
const MAX_DECIDED: usize = 10_000;
/// How many answers are remembered for the record.
const MAX_ANSWERS: usize = 10_000;

pub(crate) struct Served {
    /// Its number, by which the runner knows it.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) neighbours: Neighbourhood,
    pub(crate) reach: Option<Arc<dyn Reach>>,
    pub(crate) lines: Semaphore,
    pub(crate) asking: Semaphore,
    pub(crate) questions: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) journal: Journal,
    pub(crate) outside: Arc<Outside>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) allowance: Allowance,
    pub(crate) connections: Arc<Semaphore>,
    /// Connections of all sandboxes together: descriptors are the process'.
    pub(crate) all_connections: Arc<Semaphore>,
    pub(crate) ended: CancellationToken,
    pub(crate) decider: Option<Arc<dyn Decider>>,
    rules: watch::Sender<Arc<Egress>>,
    book: Mutex<Book>,
    queries: Mutex<QueryRate>,
    pending: Mutex<HashSet<HostName>>,
    decided: Mutex<Decided>,
    /// Which name an address was given out for, where real addresses are.
    answers: Mutex<HashMap<IpAddr, HostName>>,
}

/// As if the name stood in `allow_domains`.
fn web(name: &HostName) -> AllowRule {
    AllowRule { hosts: HostPattern::Exact(name.clone()), port: Port::Web }
}

/// What was decided, so that nobody is asked twice.
#[derive(Default)]
struct Decided {
    names: HashMap<HostName, bool>,
    /// How often everything was forgotten: an answer to a question from before then is none.
    era: u64,
}

/// What becomes of decisions when other rules are put in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Decisions {
    /// They hold on, unless the new rules deny them.
    Kept,
    /// They were somebody else's: another phase begins.
    Forgotten,
}

struct QueryRate {
    tokens: f64,
    filled: Instant,
}

/// Everything that a sandbox shares with others.
pub(crate) struct Commons {
    pub(crate) outside: Arc<Outside>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) all_connections: Arc<Semaphore>,
    pub(crate) decider: Option<Arc<dyn Decider>>,
    pub(crate) reach: Option<Arc<dyn Reach>>,
}

impl Served {
    pub(crate) fn new(
        (id, name): (u32, &str),
        egress: Egress,
        neighbours: Neighbourhood,
        limits: Limits,
        journal: Journal,
        commons: &Commons,
    ) -> Self {
        let mut book = Book::new(limits.open_names);
        book.list_services(&neighbours);
        book.list(&egress);
        Self {
            id,
            name: name.to_owned(),
            neighbours,
            reach: commons.reach.clone(),
            lines: Semaphore::new(MAX_LINES),
            asking: Semaphore::new(MAX_ASKING),
            questions: Arc::new(Semaphore::new(MAX_QUESTIONS)),
            journal,
            outside: Arc::clone(&commons.outside),
            buffers: Arc::clone(&commons.buffers),
            allowance: Allowance::new(limits.bytes, limits.bytes_per_second),
            connections: Arc::new(Semaphore::new(limits.connections)),
            all_connections: Arc::clone(&commons.all_connections),
            ended: CancellationToken::new(),
            decider: commons.decider.clone(),
            rules: watch::Sender::new(Arc::new(egress)),
            book: Mutex::new(book),
            queries: Mutex::new(QueryRate { tokens: f64::from(limits.queries_per_second), filled: Instant::now() }),
            pending: Mutex::default(),
            decided: Mutex::default(),
            answers: Mutex::default(),
            limits,
        }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules in force now.
    pub(crate) fn rules(&self) -> Arc<Egress> {
        Arc::clone(&self.rules.borrow())
    }

    fn decided(&self) -> MutexGuard<'_, Decided> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules, and every change of them.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Egress>> {
        self.rules.subscribe()
    }

    /// Puts other rules in force. Open connections that they forbid are cut by those who watch.
    pub(crate) fn replace(&self, mut egress: Egress, decisions: Decisions) {
        // Held to the end: an answer that comes meanwhile is of before or of after.
        let mut decided = self.decided();
        if decisions == Decisions::Forgotten {
            *decided = Decided { names: HashMap::new(), era: decided.era + 1 };
        }
        if let Egress::Listed { rules } = &mut egress {
            let granted = decided.names.iter().filter(|(_, allowed)| **allowed).map(|(name, _)| web(name));
            rules.allow.extend(granted);
        }
        self.book().list(&egress);
        self.rules.send_replace(Arc::new(egress));
    }

    /// Whether so many connections are open that each of them gets less.
    pub(crate) fn is_crowded(&self) -> bool {
        self.limits.connections.saturating_sub(self.connections.available_permits()) > UNCROWDED
    }

    /// Whether one more query comes in time.
    pub(crate) fn may_ask(&self) -> bool {
        let mut rate = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let most = f64::from(self.limits.queries_per_second);
        let now = Instant::now();
        rate.tokens = (rate.tokens + now.duration_since(rate.filled).as_secs_f64() * most).min(most);
        rate.filled = now;
        if rate.tokens < 1.0 {
            return false;
        }
        rate.tokens -= 1.0;
        true
    }

    /// Asks whoever decides about a name that no rule lists.
    pub(crate) async fn ask(&self, name: &HostName) -> Result<(), Reason> {
        let Some(person) = &self.decider else { return Err(Reason::NameNotListed) };
        let (known, era) = {
            let decided = self.decided();
            (decided.names.get(name).copied(), decided.era)
        };
        if known == Some(false) {
            return Err(Reason::DecidedNo);
        }
        {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            if pending.len() >= MAX_PENDING || !pending.insert(name.clone()) {
                return Err(Reason::DeciderTimeout);
            }
        }
        let asked = Asked { sandbox: self.name.clone(), name: name.clone() };
        let answer = tokio::time::timeout(self.limits.decide, person.decide(asked)).await;
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let mut decided = self.decided();
        if decided.era != era {
            // Asked for a phase that is over.
            return Err(Reason::DeciderTimeout);
        }
        if let Ok(answer) = answer
            && decided.names.len() < MAX_DECIDED
        {
            decided.names.insert(name.clone(), answer);
        }
        match answer {
            Ok(true) => {
                self.grant(name);
                Ok(())
            }
            Ok(false) => Err(Reason::DecidedNo),
            Err(_) => Err(Reason::DeciderTimeout),
        }
    }

    /// As if the name stood in the list; whatever the rules became meanwhile, deny still beats it.
    fn grant(&self, name: &HostName) {
        self.rules.send_modify(|rules| {
            let mut changed = Egress::clone(rules);
            if let Egress::Listed { rules } = &mut changed {
                rules.allow.insert(web(name));
            }
            *rules = Arc::new(changed);
        });
    }

    pub(crate) fn remember(&self, address: IpAddr, name: &HostName) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(address, name.clone());
    }

    pub(crate) fn remembered(&self, address: IpAddr) -> Option<HostName> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }
}
