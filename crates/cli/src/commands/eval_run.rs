//! Runs evaluations: several at the same time, on one display, until they have ended or somebody interrupts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use eval::{EvalFailure, Evaluation, Job, Person};
use profile::Profile;
use receipt::IssueError;
use sandbox::StartError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ask::Terminal;
use super::eval_display::{Board, Lane};
use super::eval_prepare::Ready;
use super::runtime::{self, Workers};

/// What became of one evaluation.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) profile: Profile,
    pub(super) outcome: Outcome,
    /// Where the receipt of its log is, or why there is none; nothing where nobody signs.
    pub(super) receipt: Option<Result<PathBuf, IssueError>>,
}

pub(super) enum Outcome {
    Ended(Evaluation),
    Failed(EvalFailure),
    /// It ended in a way that nobody foresaw.
    Lost(String),
    /// Somebody interrupted before its turn came.
    NotBegun,
}

/// Runs all of them, `most` at the same time; `done` hears of each that has ended. The order is that of `ready`.
pub(super) fn all(
    ready: Vec<Ready>,
    most: usize,
    done: &mut dyn FnMut(usize, &Outcome),
) -> Result<Vec<Ended>, StartError> {
    let runtime = runtime::start(Workers::PerProcessor)?;
    let mut ended: Vec<Ended> = ready
        .iter()
        .map(|Ready { job, .. }| Ended {
            name: job.task.name.clone(),
            model: job.models.agent().name().to_owned(),
            profile: job.plan.profile,
            outcome: Outcome::NotBegun,
            receipt: None,
        })
        .collect();
    let board = Arc::new(Board::new(ready.len()));
    let person = {
        let _inside = runtime.enter();
        Terminal::open(Arc::clone(&board)).map(|terminal| Arc::new(terminal) as Arc<dyn Person>)
    };
    let labels: Vec<String> = match ended.as_slice() {
        [alone] => vec![alone.name.clone()],
        many => many.iter().map(|one| format!("{} {}", one.name, one.model)).collect(),
    };
    runtime.block_on(async {
        let cancel = interruptible();
        let mut running = JoinSet::new();
        let mut places = HashMap::new();
        let mut waiting = std::iter::zip(labels, ready).enumerate();
        loop {
            while running.len() < most.max(1) && !cancel.is_cancelled() {
                let Some((index, (label, Ready { job, image, signer, .. }))) = waiting.next() else { break };
                let job = Job { person: person.clone(), ..job };
                let (lane, cancel) = (Arc::new(Lane::new(&board, &label)), cancel.clone());
                let task = running.spawn(async move {
                    let ended = eval::evaluate(job, Arc::clone(&lane) as Arc<dyn eval::Display>, cancel).await;
                    lane.finish();
                    // Its layers were in use until now.
                    drop(image);
                    let log = ended.as_ref().ok().map(|evaluation| &evaluation.log);
                    // Reads the whole log once.
                    let receipt = log.and_then(|log| tokio::task::block_in_place(|| signer.issue(log)));
                    (ended, receipt)
                });
                places.insert(task.id(), index);
            }
            let (id, outcome, receipt) = match running.join_next_with_id().await {
                None => break,
                Some(Ok((id, (Ok(evaluation), receipt)))) => (id, Outcome::Ended(evaluation), receipt),
                Some(Ok((id, (Err(failure), _)))) => (id, Outcome::Failed(failure), None),
                Some(Err(panic)) => (panic.id(), Outcome::Lost(panic.to_string()), None),
            };
            let Some(index) = places.remove(&id) else { continue };
            done(index, &outcome);
            if let Some(place) = ended.get_mut(index) {
                place.outcome = outcome;
                place.receipt = receipt;
            }
        }
    });
    board.finish();
    runtime.shutdown_background();
    Ok(ended)
}

/// Ctrl-C once ends what is under way and completes all logs; twice ends us now.
fn interruptible() -> CancellationToken {
    let cancel = CancellationToken::new();
    let asked = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    });
    cancel
}
