//! What one sandbox's network did: the last records, and the sums of all of them.

use std::collections::VecDeque;
use std::sync::Mutex;

use egress::{Counters, Outcome, Protocol, Record};

use super::lock;

/// One record with its number and service.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) service: String,
    pub(crate) record: Record,
}

#[derive(Debug, Default)]
struct Inner {
    kept: VecDeque<Numbered>,
    next: u64,
    totals: Counters,
}

/// The records of one sandbox.
#[derive(Debug)]
pub(crate) struct Records {
    inner: Mutex<Inner>,
    most: usize,
}

/// A part of the records.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) records: Vec<Numbered>,
    /// The number to ask from next time.
    pub(crate) next: u64,
    /// Records before these that are not kept any more.
    pub(crate) dropped: u64,
}

impl Records {
    pub(crate) fn new(most: usize) -> Self {
        Self { inner: Mutex::new(Inner { next: 1, ..Inner::default() }), most }
    }

    pub(crate) fn add(&self, service: &str, record: Record) {
        let mut inner = lock(&self.inner);
        let totals = &mut inner.totals;
        match (record.verdict, record.protocol) {
            (Outcome::Refused, _) => totals.refused += record.count,
            (_, Protocol::Dns) => totals.queries += record.count,
            (Outcome::Allowed, _) => totals.connections += record.count,
            (Outcome::Failed, _) => {}
        }
        totals.sent += record.sent;
        totals.received += record.received;
        let number = inner.next;
        inner.next += 1;
        if inner.kept.len() >= self.most {
            inner.kept.pop_front();
        }
        inner.kept.push_back(Numbered { number, service: service.to_owned(), record });
    }

    /// At most `most` of those after number `after`.
    pub(crate) fn after(&self, after: u64, most: usize) -> Part {
        let inner = lock(&self.inner);
        let records: Vec<_> = inner.kept.iter().filter(|one| one.number > after).take(most).cloned().collect();
        let next = records.last().map_or(after.min(inner.next.saturating_sub(1)), |last| last.number);
        let first = inner.kept.front().map_or(inner.next, |first| first.number);
        Part { records, next, dropped: first.saturating_sub(after.saturating_add(1)) }
    }

    pub(crate) fn totals(&self) -> Counters {
        lock(&self.inner).totals
    }

    /// Records that the gateway could not keep; it says so at the end.
    pub(crate) fn lost(&self, count: u64) {
        lock(&self.inner).totals.lost += count;
    }
}
