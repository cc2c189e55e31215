//! Counts what an audit chain tells, line by line.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::run::{DroppedSample, Kept, KeptSample, Network, Scored, Verdicts, Vouched};

/// So many decisions, or kinds of limits, are told apart; the rest is counted together. Lines may be anybody's.
const MOST_KINDS: usize = 32;
const LONGEST_KIND: usize = 64;
const OTHERS: &str = "other";
/// So many kept samples are listed; the digest covers all of them.
const MOST_KEPT: usize = 10_000;
/// A longer id is not listed.
const LONGEST_ID: usize = 256;

/// What a chain tells.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// What the first line says: evaluation, plan, profile.
    pub(crate) start: Option<Start>,
    pub(crate) kept: Option<Kept>,
    /// Of all entries of the list of kept samples.
    kept_hash: Option<Sha256>,
    pub(crate) scored: Option<Scored>,
    pub(crate) network: Network,
    pub(crate) approvals: BTreeMap<String, u64>,
    pub(crate) limits: BTreeMap<String, u64>,
}

/// What the first line says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) eval_id: String,
    pub(crate) plan: String,
    pub(crate) profile: String,
}

impl Tally {
    /// Takes a line.
    pub(crate) fn see(&mut self, kind: &str, data: &Value) {
        // What belongs to a sample is wrapped with its name.
        let own = data.get("data").unwrap_or(data);
        let text = |data: &Value, key: &str| data[key].as_str().unwrap_or_default().to_owned();
        match kind {
            "start" if self.start.is_none() => {
                let (eval_id, plan) = (text(data, "eval_id"), text(data, "plan"));
                self.start = Some(Start { eval_id, plan, profile: text(data, "profile") });
            }
            "kept" if self.kept.is_none() => {
                let samples = data["samples"].as_u64().unwrap_or_default();
                self.kept = Some(Kept {
                    log: text(data, "log"),
                    sha256: text(data, "sha256"),
                    samples,
                    vouched: vouched(data),
                    unsigned: 0,
                    list: Vec::new(),
                    list_sha256: None,
                    dropped: 0,
                    dropped_list: Vec::new(),
                });
            }
            "sample" if own["kept"] == true => self.kept_sample(data, own),
            "dropped" => self.dropped_sample(data, own),
            "scored" if self.scored.is_none() => {
                let from = &data["from"];
                let (log, sha256) = (text(from, "log"), text(from, "sha256"));
                self.scored = Some(Scored { log, sha256, vouched: vouched(from) });
            }
            "approval" => count(&mut self.approvals, own["decision"].as_str().unwrap_or(OTHERS)),
            "limit" => count(&mut self.limits, own["type"].as_str().unwrap_or(OTHERS)),
            "network" => self.record(own),
            "network_totals" => self.totals(own),
            _ => {}
        }
    }

    /// A sample that was taken over from the earlier log.
    fn kept_sample(&mut self, data: &Value, own: &Value) {
        let Some(kept) = &mut self.kept else { return };
        let sample = KeptSample {
            id: data["sample"].clone(),
            epoch: data["epoch"].as_u64().unwrap_or_default(),
            sha256: own["sha256"].as_str().unwrap_or_default().chars().take(64).collect(),
            unsigned: own["unsigned"] == true,
        };
        let line = log::canonical(&json!(sample));
        let hash = self.kept_hash.get_or_insert_default();
        hash.update(line.as_bytes());
        hash.update(b"\n");
        kept.unsigned += u64::from(sample.unsigned);
        if kept.list.len() < MOST_KEPT && line.len() <= LONGEST_ID + 128 {
            kept.list.push(sample);
        }
    }

    /// A finished sample of the earlier run that was not taken over.
    fn dropped_sample(&mut self, data: &Value, own: &Value) {
        let Some(kept) = &mut self.kept else { return };
        kept.dropped += 1;
        let text = |key: &str| own[key].as_str().unwrap_or_default().chars().take(64).collect();
        let epoch = data["epoch"].as_u64().unwrap_or_default();
        let sample = DroppedSample { id: data["sample"].clone(), epoch, sha256: text("sha256"), why: text("why") };
        if kept.dropped_list.len() < MOST_KEPT && log::canonical(&sample.id).len() <= LONGEST_ID {
            kept.dropped_list.push(sample);
        }
    }

    /// The earlier log, once all lines were seen.
    pub(crate) fn kept(&mut self) -> Option<Kept> {
        let digest = self.kept_hash.take().map(|hash| {
            hash.finalize().iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}"))
        });
        self.kept.take().map(|kept| Kept { list_sha256: digest, ..kept })
    }

    fn record(&mut self, data: &Value) {
        let Some(record) = data.get("record") else {
            self.network.cut += 1;
            return;
        };
        let verdicts = match record["protocol"].as_str() {
            Some("dns") => &mut self.network.queries,
            _ => &mut self.network.connections,
        };
        let Verdicts { allowed, refused, failed } = verdicts;
        let count = match record["verdict"].as_str() {
            Some("allowed") => allowed,
            Some("refused") => refused,
            _ => failed,
        };
        add(count, &record["count"]);
    }

    fn totals(&mut self, data: &Value) {
        let totals = &mut self.network.totals;
        for (sum, key) in [
            (&mut totals.queries, "queries"),
            (&mut totals.connections, "connections"),
            (&mut totals.refused, "refused"),
            (&mut totals.sent, "sent"),
            (&mut totals.received, "received"),
            (&mut totals.records_lost, "records_lost"),
        ] {
            add(sum, &data[key]);
        }
    }
}

/// Who vouched, where a line says so.
fn vouched(data: &Value) -> Option<Vouched> {
    Vouched::deserialize(data.get("vouched")?).ok()
}

fn add(sum: &mut u64, count: &Value) {
    *sum = sum.saturating_add(count.as_u64().unwrap_or_default());
}

fn count(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    let known = kinds.contains_key(kind) || (kinds.len() < MOST_KINDS && kind.len() <= LONGEST_KIND);
    *kinds.entry(if known { kind } else { OTHERS }.to_owned()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_counted_by_what_they_tell() {
        let mut tally = Tally::default();
        let sample = |data: Value| json!({"sample": 1, "epoch": 1, "data": data});
        let record = |protocol: &str, verdict: &str, count: u64| {
            sample(json!({"kind": "network", "record": {"protocol": protocol, "verdict": verdict, "count": count}}))
        };
        tally.see("start", &json!({"eval_id": "e", "plan": "p", "profile": "T0.H1.N1"}));
        tally.see("start", &json!({"eval_id": "another"}));
        tally.see("kept", &json!({"log": "a.eval", "sha256": "00", "samples": 3, "status": "error"}));
        for (protocol, verdict, count) in
            [("dns", "allowed", 2), ("dns", "refused", 1), ("tls", "failed", 1), ("http", "refused", 5)]
        {
            tally.see("network", &record(protocol, verdict, count));
        }
        tally.see("network", &sample(json!({"kind": "network", "more": "…"})));
        for _ in 0..2 {
            tally.see("network_totals", &sample(json!({"queries": 3, "refused": 6, "sent": 10})));
        }
        tally.see("approval", &sample(json!({"decision": "reject"})));
        tally.see("limit", &sample(json!({"type": "time"})));
        assert_eq!(tally.start, Some(Start { eval_id: "e".into(), plan: "p".into(), profile: "T0.H1.N1".into() }));
        tally.see("scored", &json!({"from": {"log": "b.eval", "sha256": "01"}}));
        assert_eq!(tally.scored, Some(Scored { log: "b.eval".into(), sha256: "01".into(), vouched: None }));
        assert_eq!(json!(tally.kept()), json!({"log": "a.eval", "sha256": "00", "samples": 3}));
        let network = json!({
            "queries": {"allowed": 2, "refused": 1, "failed": 0}, "connections": {"allowed": 0, "refused": 5, "failed": 1},
            "cut": 1, "totals": {"queries": 6, "connections": 0, "refused": 12, "sent": 20, "received": 0, "records_lost": 0},
        });
        assert_eq!(json!(tally.network), network);
        assert_eq!((json!(tally.approvals), json!(tally.limits)), (json!({"reject": 1}), json!({"time": 1})));
    }

    #[test]
    fn kept_samples_are_listed_with_their_digests_and_who_vouched() {
        let mut tally = Tally::default();
        let vouched = json!({"by": "operator"});
        tally.see("kept", &json!({"log": "a.eval", "sha256": "00", "samples": 2, "vouched": vouched}));
        for (id, own) in [
            (json!("a"), json!({"sha256": "01", "kept": true, "unsigned": true})),
            (json!(7), json!({"sha256": "02", "kept": true})),
            (json!("x".repeat(1000)), json!({"sha256": "03", "kept": true})),
            (json!("b"), json!({"sha256": "04"})),
        ] {
            tally.see("sample", &json!({"sample": id, "epoch": 1, "data": own}));
        }
        let mut kept = json!(tally.kept());
        assert_eq!(kept["list_sha256"].take().as_str().unwrap().len(), 64);
        assert_eq!(kept["vouched"], vouched);
        assert_eq!(kept["unsigned"], 1);
        let list =
            json!([{"id": "a", "epoch": 1, "sha256": "01", "unsigned": true}, {"id": 7, "epoch": 1, "sha256": "02"}]);
        assert_eq!(kept["list"], list);
    }

    #[test]
    fn results_that_are_not_kept_are_counted_and_listed() {
        let mut tally = Tally::default();
        let dropped = |id: Value| json!({"sample": id, "epoch": 2, "data": {"sha256": "01", "why": "missing"}});
        // Without an earlier log there is nothing that could be dropped.
        tally.see("dropped", &dropped(json!("before")));
        tally.see("kept", &json!({"log": "a.eval", "sha256": "00", "samples": 0}));
        tally.see("dropped", &dropped(json!("a")));
        tally.see("dropped", &dropped(json!("x".repeat(1000))));
        let kept = json!(tally.kept());
        let list = json!([{"id": "a", "epoch": 2, "sha256": "01", "why": "missing"}]);
        assert_eq!((&kept["dropped"], &kept["dropped_list"]), (&json!(2), &list));
    }

    #[test]
    fn no_chain_fills_the_memory_with_kinds() {
        let mut tally = Tally::default();
        for number in 0..1000 {
            tally.see("approval", &json!({"data": {"decision": format!("decision {number}")}}));
        }
        tally.see("limit", &json!({"data": {"type": "x".repeat(1 << 20)}}));
        assert_eq!((tally.approvals.len(), tally.approvals[OTHERS]), (MOST_KINDS + 1, 1000 - 32));
        assert_eq!(tally.limits, BTreeMap::from([(OTHERS.to_owned(), 1)]));
    }
}
