//! What is kept of every query, connection and refusal.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::reason::Reason;
use crate::shown::Shown;

/// What was spoken, as far as we looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A query for a name.
    Dns,
    /// A connection whose greeting was checked.
    Tls,
    /// A connection whose requests were checked.
    Http,
    /// A connection that was not looked into.
    Tcp,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It went on.
    Allowed,
    /// The rules, or a check, ended it.
    Refused,
    /// It was allowed, and the other side was not there.
    Failed,
}

/// One line of the network log. Texts come from inside: untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Milliseconds since 1970; of the first, where several are one record.
    pub time_ms: u64,
    /// The sandbox.
    pub sandbox: String,
    /// What was spoken.
    pub protocol: Protocol,
    /// What became of it.
    pub verdict: Outcome,
    /// Why it was refused, failed or cut.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The service of the same sample that the name means: nothing of this left. Whatever has that name outside was
    /// neither asked for nor reached.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service: Option<String>,
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub port: Option<u16>,
    /// The type of a query, or the first request of a connection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// The address that the program asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<IpAddr>,
    /// The address that was connected to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub used: Option<IpAddr>,
    /// The names that a refused attempt really presented.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shown: Option<Box<Shown>>,
    /// Whether some of these presented something that is in no record: different ones were counted together, or the
    /// sandbox had presented too many already.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub shown_omitted: bool,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
    /// Bytes from the sandbox.
    pub sent: u64,
    /// Bytes to the sandbox.
    pub received: u64,
    /// How long it lasted.
    pub duration_ms: u64,
    /// How many of the same this record stands for.
    pub count: u64,
    /// When the last of them was.
    pub last_ms: u64,
}

impl Record {
    /// A record of now, about one thing.
    pub(crate) fn new(sandbox: &str, protocol: Protocol, verdict: Outcome) -> Self {
        let now = now_ms();
        Self {
            time_ms: now,
            sandbox: sandbox.to_owned(),
            protocol,
            verdict,
            reason: None,
            name: None,
            service: None,
            port: None,
            request: None,
            asked: None,
            used: None,
            shown: None,
            shown_omitted: false,
            rule: None,
            sent: 0,
            received: 0,
            duration_ms: 0,
            count: 1,
            last_ms: now,
        }
    }

    fn key(&self) -> Key {
        let Self { protocol, verdict, reason, name, port, request, asked, .. } = self.clone();
        Key { protocol, verdict, reason, name, port, request, asked }
    }

    /// Counts one more of the same.
    fn repeat(&mut self, again: Self) {
        if self.count == 0 {
            self.time_ms = again.time_ms;
            (self.shown, self.shown_omitted) = (again.shown, again.shown_omitted);
        } else {
            self.shown_omitted |= again.shown_omitted;
            if self.shown != again.shown {
                self.shown = None;
                self.shown_omitted = true;
            }
        }
        self.count += 1;
        self.last_ms = again.time_ms;
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What makes two records the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    protocol: Protocol,
    verdict: Outcome,
    reason: Option<Reason>,
    name: Option<String>,
    port: Option<u16>,
    request: Option<String>,
    asked: Option<IpAddr>,
}

/// Sums over a sandbox's life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Queries that were answered.
    pub queries: u64,
    /// Connections that went on, to the world.
    pub connections: u64,
    /// Connections that went on, to services of the same sample.
    #[serde(default)]
    pub services: u64,
    /// Queries and connections that were refused.
    pub refused: u64,
    /// Bytes from the sandbox.
    pub sent: u64,
    /// Bytes to the sandbox.
    pub received: u64,
    /// Records that nobody took in time.
    pub lost: u64,
}

/// Where one sandbox's records go. The first of a kind goes out at once, the same again within a second is counted.
#[derive(Debug)]
pub(crate) struct Journal {
    sandbox: String,
    repeats: Mutex<HashMap<Key, Record>>,
    presented: Mutex<Presented>,
    out: mpsc::Sender<Record>,
    lost: AtomicU64,
    counters: Mutex<Counters>,
}

/// How many kinds are counted at once; beyond, each is its own record.
const MAX_KINDS: usize = 4096;
/// How much different evidence of one sandbox gets a record of its own, over its life.
const MAX_PRESENTED: usize = 1024;

/// Evidence that was recorded already, by a keyed hash, so that a flood of names costs a few bytes each, up to a limit.
#[derive(Debug, Default)]
struct Presented {
    state: RandomState,
    seen: HashSet<u64>,
}

/// How the evidence of a refusal compares with that of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Novelty {
    /// Not recorded yet, and there is room for it.
    New,
    Known,
    /// Not recorded, and there is no room.
    Omitted,
}

impl Presented {
    fn judge(&mut self, key: &Key, shown: &Shown) -> Novelty {
        let hash = self.state.hash_one((key, shown));
        if self.seen.contains(&hash) {
            return Novelty::Known;
        }
        if self.seen.len() >= MAX_PRESENTED {
            return Novelty::Omitted;
        }
        self.seen.insert(hash);
        Novelty::New
    }
}

/// How long whoever reads the records may hold up one of them.
const PATIENCE: Duration = Duration::from_millis(500);

impl Journal {
    pub(crate) fn new(sandbox: &str, out: mpsc::Sender<Record>) -> Self {
        Self {
            sandbox: sandbox.to_owned(),
            repeats: Mutex::default(),
            presented: Mutex::default(),
            out,
            lost: AtomicU64::new(0),
            counters: Mutex::default(),
        }
    }

    pub(crate) fn record(&self, protocol: Protocol, verdict: Outcome) -> Record {
        Record::new(&self.sandbox, protocol, verdict)
    }

    fn count(&self, record: &Record) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        match (record.verdict, record.protocol) {
            (Outcome::Refused, _) => counters.refused += 1,
            (_, Protocol::Dns) => counters.queries += 1,
            (Outcome::Allowed, _) if record.service.is_some() => counters.services += 1,
            (Outcome::Allowed, _) => counters.connections += 1,
            (Outcome::Failed, _) => {}
        }
        counters.sent += record.sent;
        counters.received += record.received;
    }

    /// Notes a query or a refusal: never waits. Evidence that is new has a record of its own; the rest is counted with
    /// refusals of the same kind, whatever it presented, so that a flood of names is no flood of records.
    pub(crate) fn note(&self, mut record: Record) {
        self.count(&record);
        let key = record.key();
        let novelty = record
            .shown
            .as_ref()
            .map(|shown| self.presented.lock().unwrap_or_else(PoisonError::into_inner).judge(&key, shown));
        if novelty == Some(Novelty::Omitted) {
            record.shown = None;
            record.shown_omitted = true;
        }
        {
            let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
            let full = repeats.len() >= MAX_KINDS;
            match repeats.entry(key) {
                Entry::Occupied(_) if novelty == Some(Novelty::New) => {}
                Entry::Occupied(mut known) => {
                    known.get_mut().repeat(record);
                    return;
                }
                Entry::Vacant(free) if !full => {
                    free.insert(Record { count: 0, ..record.clone() });
                }
                Entry::Vacant(_) => {}
            }
        }
        self.send(record);
    }

    /// Notes a connection that is over: waits a moment for a slow reader.
    pub(crate) async fn note_connection(&self, record: Record) {
        self.count(&record);
        if self.out.send_timeout(record, PATIENCE).await.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, record: Record) {
        if self.out.try_send(record).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends the counts of what came again; called every second and at the end.
    pub(crate) fn flush(&self) {
        let mut again = Vec::new();
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, record| {
            if record.count == 0 {
                return false;
            }
            again.push(record.clone());
            record.count = 0;
            true
        });
        for record in again {
            self.send(record);
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let lost = self.lost.load(Ordering::Relaxed);
        Counters { lost, ..*self.counters.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(journal: &Journal, name: &str) -> Record {
        let mut record = journal.record(Protocol::Dns, Outcome::Refused);
        record.name = Some(name.into());
        record
    }

    #[test]
    fn the_same_again_is_counted() {
        let (out, mut records) = mpsc::channel(10);
        let journal = Journal::new("s", out);
        for name in ["a", "a", "b", "a"] {
            journal.note(refusal(&journal, name));
        }
        journal.flush();
        journal.flush();
        journal.note(refusal(&journal, "a"));
        let mut seen = Vec::new();
        while let Ok(record) = records.try_recv() {
            seen.push((record.name.unwrap(), record.count));
        }
        assert_eq!(seen, [("a".into(), 1), ("b".into(), 1), ("a".into(), 2), ("a".into(), 1)]);
        assert_eq!(journal.counters(), Counters { refused: 5, ..Counters::default() });
    }

    #[test]
    fn a_reader_that_sleeps_loses_records_and_is_told_how_many() {
        let (out, _records) = mpsc::channel(1);
        let journal = Journal::new("s", out);
        for number in 0..10_000 {
            journal.note(refusal(&journal, &number.to_string()));
        }
        assert_eq!(journal.counters().lost, 9_999);
        assert!(journal.repeats.lock().unwrap().len() <= MAX_KINDS);
    }

    fn presenting(journal: &Journal, sni: &str) -> Record {
        let mut record = journal.record(Protocol::Tls, Outcome::Refused);
        record.name = Some("www.example.org".into());
        record.reason = Some(Reason::SniMismatch);
        record.shown = Some(Box::new(Shown { sni: vec![sni.into()], ..Shown::default() }));
        record
    }

    #[test]
    fn each_name_that_is_presented_has_a_record_and_the_rest_is_counted() {
        let (out, mut records) = mpsc::channel(100);
        let journal = Journal::new("s", out);
        let mut taken = || {
            let mut seen = Vec::new();
            while let Ok(record) = records.try_recv() {
                seen.push((record.shown.map(|shown| shown.sni.concat()), record.shown_omitted, record.count));
            }
            seen
        };
        let one = |name: &str, count| (Some(name.to_owned()), false, count);
        for name in ["a", "b", "a", "b"] {
            journal.note(presenting(&journal, name));
        }
        assert_eq!(taken(), [one("a", 1), one("b", 1)]);
        journal.flush();
        assert_eq!(taken(), [(None, true, 2)], "of two different ones neither is named");
        for name in ["a", "a", "c"] {
            journal.note(presenting(&journal, name));
        }
        journal.flush();
        assert_eq!(taken(), [one("c", 1), one("a", 2)], "of the same ones the name is");
        assert_eq!(journal.counters().refused, 7);
    }

    #[test]
    fn a_flood_of_presented_names_is_bounded_in_records_and_memory() {
        let (out, mut records) = mpsc::channel(100_000);
        let journal = Journal::new("s", out);
        for number in 0..50_000 {
            journal.note(presenting(&journal, &format!("{number}.evil.example.net")));
            if number % 1000 == 0 {
                journal.flush();
            }
        }
        journal.flush();
        let (mut all, mut named) = (0, 0);
        while let Ok(record) = records.try_recv() {
            named += usize::from(record.shown.is_some());
            assert!(record.shown.is_some() || record.shown_omitted, "{record:?}");
            all += record.count;
        }
        assert_eq!((all, named), (50_000, MAX_PRESENTED), "every attempt is counted, the first are named");
        assert_eq!(journal.presented.lock().unwrap().seen.len(), MAX_PRESENTED);
        assert_eq!(journal.repeats.lock().unwrap().len(), 1);
        assert_eq!(journal.counters(), Counters { refused: 50_000, ..Counters::default() });
    }
}
