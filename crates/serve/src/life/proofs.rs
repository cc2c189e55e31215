//! Proofs of plans, kept: the same plan of the same wish is proven once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
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
    /// What probes see of this plan, of each service where there are several; what is not as planned is refused.
    pub(crate) async fn observed(
        &self,
        key: &str,
        speed: Speed,
        subjects: &[(Option<String>, Subject)],
    ) -> Answer<Value> {
        let key = (key.to_owned(), speed);
        let _turn = self.turn.acquire().await;
        if let Some(known) = lock(&self.known).get(&key) {
            return Ok(known.clone());
        }
        let mut observed = Value::Null;
        let mut services = Map::new();
        for (service, subject) in subjects {
            let report = run(subject.clone(), speed).await?;
            if report.conclusion != Conclusion::AsPlanned {
                return Err(refused(service.as_deref(), &report));
            }
            let outcome = outcome(&report);
            if let Some(service) = service {
                services.insert(service.clone(), outcome.clone());
            }
            // The first is the one that the agent works in.
            if observed.is_null() {
                observed = outcome;
            }
        }
        if !services.is_empty() {
            observed["services"] = Value::Object(services);
        }
        let mut known = lock(&self.known);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(key, observed.clone());
        Ok(observed)
    }

    /// The whole report, now; of several services all of them, as the command has them.
    pub(crate) async fn report(&self, speed: Speed, subjects: Vec<(Option<String>, Subject)>) -> Answer<Value> {
        let _turn = self.turn.acquire().await;
        let mut services = Map::new();
        for (service, subject) in subjects {
            let report = run(subject, speed).await?;
            match service {
                None => return Ok(json!(report)),
                Some(service) => services.insert(service, json!(report)),
            };
        }
        Ok(json!({"schema": "ringfence.verify.services/1", "services": services}))
    }
}

fn refused(service: Option<&str>, report: &Report) -> Problem {
    let unmet = report.unmet().map(
        |probed| json!({"control": probed.control, "cause": "unproven", "reason": probed.evidence, "probe": probed.id}),
    );
    let of = service.map(|service| format!(" of the service `{service}`")).unwrap_or_default();
    let detail = format!("the profile{of} is not as planned on this host, so nothing was started");
    Problem::new(Code::Refused, detail).hint("see `ringfence verify`").unmet(unmet.collect())
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
