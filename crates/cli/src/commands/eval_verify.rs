//! Before the first sample: what the plan promises is tried, once for each plan and image.

use std::collections::BTreeMap;
use std::sync::Arc;

use profile::{Cause, Plan, Unmet};
use serde_json::{Value, json};
use verify::{Conclusion, Report, Speed, Subject, Verdict};

use super::eval_obstacle::Obstacle;
use super::eval_prepare::Ready;
use super::runtime::{self, Workers};
use super::verify as command;
use crate::eval_args::Verify;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// Whoever goes without a proof says why.
pub(super) fn check(wish: Option<Verify>, plan: &Plan) -> Vec<Unmet> {
    if wish != Some(Verify::Off) || plan.justification.is_some() {
        return Vec::new();
    }
    let reason = "`--verify off` goes without the proof of the profile, and nobody says why";
    vec![Unmet::new(Cause::Contradiction, "verify", reason).hint("add --justification, or leave --verify off out")]
}

/// Proves every plan that has a wall, and keeps the outcome for the log. What is not as planned does not start.
pub(super) fn all(ready: &mut [Ready], printer: &mut Printer) -> Result<(), Exit> {
    let mut known: BTreeMap<(String, Speed), Value> = BTreeMap::new();
    for Ready { job, verify, .. } in ready {
        let speed = match verify {
            Verify::Full => Speed::Full,
            Verify::Fast => Speed::Fast,
            Verify::Off => {
                job.verified = json!({"speed": "off", "justification": job.plan.justification});
                continue;
            }
        };
        let Some(kind) = &job.kind else {
            job.verified = json!({"speed": speed, "conclusion": "nothing_to_prove"});
            continue;
        };
        // The plan names the image.
        let key = (job.plan.hash(), speed);
        if let Some(outcome) = known.get(&key) {
            job.verified = outcome.clone();
            continue;
        }
        let subject = Subject {
            requested: job.requested.parse().unwrap_or(job.plan.profile),
            plan: job.plan.clone(),
            kind: Arc::clone(kind),
            offered: eval::offered(&job.task, &job.plan),
        };
        let report = prove(subject, speed, printer)?;
        job.verified = outcome(&report);
        known.insert(key, job.verified.clone());
    }
    Ok(())
}

fn prove(subject: Subject, speed: Speed, printer: &mut Printer) -> Result<Report, Exit> {
    let runtime = runtime::start(Workers::Fixed(2)).map_err(|error| Obstacle::Start(error).report(printer))?;
    let report = runtime.block_on(verify::verify(subject, speed, Arc::new(|_, _| {})));
    runtime.shutdown_background();
    let report = report.map_err(|error| {
        let exit = super::run::failed(&error, Exit::Provider, printer);
        let text = ": `--verify off` with a --justification goes without the proof";
        printer.message(&vec![vec![span(Look::Faint, "hint"), plain(text)]]);
        exit
    })?;
    if report.conclusion == Conclusion::AsPlanned {
        return Ok(report);
    }
    command::unmet(&report, printer);
    let text = ": the profile is not as planned, so nothing was started; see `ringfence verify`";
    printer.message(&vec![vec![span(Look::Bad, "error"), plain(text)]]);
    Err(Exit::Unverified)
}

/// What the log says of it. Evidence speaks of this machine and stays here.
fn outcome(report: &Report) -> Value {
    let probes: Vec<Value> = report
        .probes
        .iter()
        .map(|probed| {
            json!({"id": probed.id, "control": probed.control, "zones": probed.zones, "verdict": probed.verdict})
        })
        .collect();
    json!({
        "schema": report.schema, "speed": report.speed, "conclusion": report.conclusion, "zones": report.zones,
        "observed": {
            "state": "probed", "profile": report.observed().map(|observed| observed.to_string()).unwrap_or_default(),
            "passed": report.count(Verdict::Pass), "failed": report.count(Verdict::Fail),
            "unknown": report.count(Verdict::Unknown),
        },
        "unclaimed": report.count(Verdict::Unclaimed), "probes": probes, "duration_ms": report.duration_ms,
    })
}
