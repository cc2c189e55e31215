//! Proofs of plans, kept: the same plan of the same wish is proven once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use verify::{Conclusion, Report, Speed, Subject, Verdict};

use super::lock;
use crate::api::problem::{Answer, Code, Problem, chain};

/// Proofs that are kept.
const KEPT: usize = 64;

/// What was proven.
pub(crate) struct Proofs {
    known: Mutex<BTreeMap<(String, Speed), Value>>,
    /// One at a time: probes watch the clock.
    turn: Semaphore,
}

impl Default for Proofs {
    fn default() -> Self {
        Self { known: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Proofs {
    /// What probes see of this plan; what is not as planned is refused.
    pub(crate) async fn observed(&self, key: &str, speed: Speed, subject: Subject) -> Answer<Value> {
        let key = (key.to_owned(), speed);
        let _turn = self.turn.acquire().await;
        if let Some(known) = lock(&self.known).get(&key) {
            return Ok(known.clone());
        }
        let report = run(subject, speed).await?;
        if report.conclusion != Conclusion::AsPlanned {
            let unmet = report.unmet().map(|probed| {
                json!({"control": probed.control, "cause": "unproven", "reason": probed.evidence, "probe": probed.id})
            });
            let detail = "the profile is not as planned on this host, so nothing was started";
            return Err(Problem::new(Code::Refused, detail).hint("see `ringfence verify`").unmet(unmet.collect()));
        }
        let observed = outcome(&report);
        let mut known = lock(&self.known);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(key, observed.clone());
        Ok(observed)
    }

    /// The whole report, now.
    pub(crate) async fn report(&self, speed: Speed, subject: Subject) -> Answer<Report> {
        let _turn = self.turn.acquire().await;
        run(subject, speed).await
    }
}

async fn run(subject: Subject, speed: Speed) -> Answer<Report> {
    verify::verify(subject, speed, Arc::new(|_, _| {})).await.map_err(|error| {
        Problem::new(Code::Unavailable, chain(&error)).hint("`ringfence verify` says more; `verify: off` goes without")
    })
}

/// The same words as in an evaluation's log.
fn outcome(report: &Report) -> Value {
    json!({
        "state": "probed", "profile": report.observed().map(|observed| observed.to_string()).unwrap_or_default(),
        "passed": report.count(Verdict::Pass), "failed": report.count(Verdict::Fail),
        "unknown": report.count(Verdict::Unknown), "speed": report.speed,
    })
}
