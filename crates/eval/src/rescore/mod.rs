//! Judging a log again: the samples stay as they are, the scores are new, and a new log says what it was made from.
//!
//! [`prepare`] reads the log and finds everything that is wrong before anything is written; [`rescore`] judges.

mod header;
mod judge;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt as _;
use log::{Expectation, Format, LogError, ReadError, Reader, Recorder, Redactor, Start, Status};
use profile::{Document, Problem, Problems, Profile};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::audit::Audit;
use crate::budget::Budget;
use crate::display::Counters;
use crate::journal::now;
use crate::model::Models;
use crate::score::{self, Judged};
use crate::solve::Spent;
use crate::task::{
    Dataset, Epochs, Graders, Limits, Metric, RunLimits, Scorer, Scoring, Solver, Sources, Task, why_not,
};

use header::Before;
use stored::Stored;

/// What becomes of scores that a log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// They stay, beside the new ones.
    Append,
    /// The new ones take their place.
    Overwrite,
}

/// A log that can be judged: everything was checked.
pub struct Prepared {
    path: PathBuf,
    reader: Reader,
    before: Before,
    task: Task,
    models: Models,
    action: Action,
    /// The names of the new scores.
    names: Vec<String>,
    digest: String,
}

/// How a log is judged.
pub struct Rescore {
    /// The new log; nothing may be there.
    pub output: PathBuf,
    /// Its format.
    pub format: Format,
    /// Who has it judged, for the log.
    pub author: String,
    /// What must not be written.
    pub redactor: Redactor,
    /// Whether the new log is to have a receipt, if it is of a run of ours that has ended.
    pub receipt: Expectation,
    /// Who vouches for the log that is read, as `Vouched::to_json` has it.
    pub vouched: Value,
    /// Samples at the same time, where models judge.
    pub max_samples: usize,
}

/// A log that was judged.
#[derive(Debug)]
pub struct Rescored {
    /// The new log.
    pub log: PathBuf,
    /// SHA-256 of the log that was read, in hexadecimal.
    pub from: String,
    /// Samples that were read.
    pub samples: usize,
    /// Of these, those that were judged.
    pub judged: usize,
    /// Those of which a grader failed: they have no new score.
    pub failed: usize,
    /// Inspect's `results`.
    pub results: Value,
}

/// Why a log cannot be judged.
#[derive(Debug, Error)]
pub enum RescoreFailure {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The scorers do not fit it.
    #[error("the log cannot be judged like this")]
    Wrong(Problems),
    /// The new one cannot be written.
    #[error("cannot write the log")]
    Log(#[from] LogError),
    /// Its audit chain cannot be written.
    #[error("cannot write the audit chain")]
    Audit(#[from] log::audit::AuditError),
}

/// The profile of a task that nobody runs.
const NOWHERE: &str = "T2.H1.N2";

impl Prepared {
    /// Reads a log and holds the scorers against every sample of it. Nothing is written, and nobody is asked.
    pub fn new(path: &Path, scoring: Scoring, action: Action) -> Result<Self, RescoreFailure> {
        let reader = Reader::open(path)?;
        let before = Before::of(&reader)?;
        let wrong = |problem: Problem| {
            RescoreFailure::Wrong(Problems { origin: path.display().to_string(), problems: vec![problem] })
        };
        // A living writer holds a lock on what it writes.
        let locked = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        if before.status == Status::Started && File::open(path).is_ok_and(locked) {
            return Err(wrong(Problem::new("it is still being written").hint("wait until its evaluation has ended")));
        }
        let mut epochs = before.epochs();
        epochs.reducers = scoring.reducers.clone().unwrap_or(epochs.reducers);
        if let Some(problem) = epochs.too_few() {
            return Err(wrong(problem));
        }
        // A log may be anybody's: it does not choose whom we ask.
        if let Some(role) = vacant(&scoring) {
            let hint = format!("name somebody: --model-role {role}=MODEL, or `model` in the scorer");
            return Err(wrong(Problem::new(format!("nobody has the role `{role}`")).hint(hint)));
        }
        // Of the file that was opened, whatever lies at its path by now.
        let digest = reader.digest()?;
        let task =
            task(scoring, epochs, &before).ok_or_else(|| wrong(Problem::new("it says nothing of its evaluation")))?;
        let taken = check(&reader, &task, &before, path)?;
        let taken = if action == Action::Append { taken } else { Vec::new() };
        let names = score::names_beside(&task.scorers, &taken);
        let models = Models::find(&task).map_err(|error| wrong(Problem::new(error.to_string()).hint(error.hint())))?;
        Ok(Self { path: path.to_path_buf(), reader, before, task, models, action, names, digest })
    }

    /// Keys that must stand in no log.
    pub fn secrets(&self) -> Vec<String> {
        self.models.secrets()
    }

    /// SHA-256 of the file that was opened, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether the new log can have a receipt: the one that was read is of a run of ours that has ended.
    pub fn can_be_signed(&self) -> bool {
        self.before.is_ours() && self.before.status != Status::Started
    }
}

/// A role that somebody is to judge in, and nobody has.
fn vacant(scoring: &Scoring) -> Option<&str> {
    scoring.scorers.iter().find_map(|scorer| match scorer {
        Scorer::Graded(graded) => match &graded.graders {
            Graders::Role(role) => (!scoring.model_roles.contains_key(role)).then_some(role.as_str()),
            Graders::Models(_) => None,
        },
        _ => None,
    })
}

/// A task that says no more than how answers are judged.
fn task(scoring: Scoring, epochs: Epochs, before: &Before) -> Option<Task> {
    let spec = before.spec();
    let name = spec["task"].as_str()?.to_owned();
    Some(Task {
        document: Document::bare(NOWHERE.parse::<Profile>().ok()?, scoring.origin.clone()),
        origin: scoring.origin,
        dataset: Dataset { name: name.clone(), location: None, samples: Vec::new(), shuffled: false },
        name,
        solvers: vec![Solver::Generate],
        scorers: scoring.scorers,
        metrics: scoring.metrics.unwrap_or_else(Metric::defaults),
        epochs,
        limits: Limits::default(),
        run_limits: RunLimits::default(),
        model: None,
        generate: ::model::GenerateConfig::default(),
        model_roles: scoring.model_roles,
        mock: Vec::new(),
        mock_roles: scoring.mock_roles,
        tags: Vec::new(),
        metadata: Map::new(),
        parameters: BTreeMap::new(),
        sources: Sources::default(),
        included: Vec::new(),
    })
}

/// Complains about samples that cannot be judged, and returns the names that scores have already.
fn check(reader: &Reader, task: &Task, before: &Before, path: &Path) -> Result<Vec<String>, RescoreFailure> {
    let samples = reader.samples()?;
    let mut taken = BTreeSet::new();
    let mut wrong: Vec<(String, usize)> = Vec::new();
    for index in 0..samples.len() {
        let bytes = samples.get(index)?.unwrap_or_default();
        let why = match Stored::read(&bytes, before.is_ours()) {
            None => Some(format!("sample {} is not what a log has there", index + 1)),
            Some(stored) => {
                taken.extend(stored.scores.iter().map(|(name, _)| name.clone()));
                let why = if stored.failed { None } else { why_not(task, &stored.sample) };
                why.map(|why| format!("the sample `{}` {why}", stored.sample.id))
            }
        };
        match (why, wrong.last_mut()) {
            (Some(why), None) => wrong.push((why, 0)),
            (Some(_), Some((_, more))) => *more += 1,
            (None, _) => {}
        }
    }
    let Some((first, more)) = wrong.pop() else { return Ok(taken.into_iter().collect()) };
    let more = if more == 0 { String::new() } else { format!("; {more} more cannot be judged either") };
    let problem = Problem::new(format!("{first}{more}")).hint("choose a scorer and metrics that fit the log's samples");
    Err(RescoreFailure::Wrong(Problems { origin: path.display().to_string(), problems: vec![problem] }))
}

/// What all samples share.
struct Shared {
    prepared: Prepared,
    recorder: Recorder,
    audit: Audit,
    redactor: Arc<Redactor>,
    counters: Counters,
    budget: Budget,
    /// Who scored when, from what.
    provenance: Value,
    receipt: Expectation,
}

/// Judges every sample that did not fail, and writes a new log. The one that was read is left as it is.
pub async fn rescore(prepared: Prepared, how: Rescore) -> Result<Rescored, RescoreFailure> {
    let time = now();
    let from = json!({
        "log": prepared.path.file_name().map(|name| name.to_string_lossy()), "sha256": prepared.digest,
        "audit": prepared.before.spec()["metadata"]["ringfence_audit"], "vouched": how.vouched,
    });
    let action = if prepared.action == Action::Append { "append" } else { "overwrite" };
    let scored = json!({"time": time, "by": how.author, "action": action, "scorers": prepared.names, "from": from});
    let mut spec = header::spec(&prepared, &scored);
    how.redactor.value(&mut spec);
    let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
    let plan = prepared.before.header.get("plan").cloned().unwrap_or_default();
    let start = Start { task: text("task"), eval_id: text("eval_id"), created: text("created"), plan, spec };
    // The chain first: wherever we are killed, a log has its chain. What cannot be made here is told by whoever needs it.
    let _ = how.output.parent().map(std::fs::create_dir_all);
    let audit = Audit::new(log::audit::Audit::create(&log::audit::Audit::beside(&how.output))?);
    let recorder = Recorder::create_at(&how.output, how.format, start)?;
    audit.record("scored", scored)?;
    let provenance = json!({
        "timestamp": time, "author": how.author, "reason": "scored again", "metadata": {"sha256": prepared.digest},
    });
    let graded = prepared.task.scorers.iter().any(|scorer| matches!(scorer, Scorer::Graded(_)));
    // Words are judged faster than samples are read: several at once would only need more memory.
    let at_once = if graded { how.max_samples.max(1) } else { 1 };
    let whole = prepared.can_be_signed();
    let unsigned = || Expectation::None { reason: "it is not of a run of ours that has ended".into() };
    let shared = Shared {
        receipt: if whole { how.receipt } else { unsigned() },
        prepared,
        recorder,
        audit,
        redactor: Arc::new(how.redactor),
        counters: Counters::default(),
        budget: Budget::default(),
        provenance,
    };
    let samples = shared.prepared.reader.samples()?;
    let read = samples.len();
    let mut done = Done::default();
    let mut under_way = futures_util::stream::iter(0..read)
        .map(|index| {
            let bytes = samples.get(index);
            let shared = &shared;
            async move { judge::one(shared, &bytes?.unwrap_or_default()).await }
        })
        .buffered(at_once);
    while let Some(one) = under_way.next().await {
        done.take(one?);
    }
    drop(under_way);
    drop(samples);
    finish(&shared, &done, read)
}

/// What all samples came to.
#[derive(Default)]
struct Done {
    judged: Vec<Judged>,
    before: Vec<Judged>,
    spent: Spent,
    failed: usize,
}

impl Done {
    fn take(&mut self, one: judge::One) {
        for (model, usage) in &one.spent.by_model {
            self.spent.by_model.entry(model.clone()).or_default().add(usage);
        }
        for (role, usage) in &one.spent.by_role {
            self.spent.by_role.entry(role.clone()).or_default().add(usage);
        }
        self.failed += usize::from(one.failed);
        self.judged.extend(one.judged);
        self.before.push(one.before);
    }
}

fn finish(shared: &Shared, done: &Done, read: usize) -> Result<Rescored, RescoreFailure> {
    let Shared { prepared, recorder, audit, redactor, .. } = shared;
    let (mut results, mut reductions) = header::results(prepared, &done.judged, &done.before, read);
    redactor.value(&mut results);
    redactor.value(&mut reductions);
    let mut stats = prepared.before.header.get("stats").cloned().unwrap_or_else(|| json!({}));
    for (key, more) in [("model_usage", &done.spent.by_model), ("role_usage", &done.spent.by_role)] {
        if !more.is_empty() && stats.is_object() {
            stats[key] = header::add_usage(stats.get(key), more);
        }
    }
    audit.record("end", json!({"done": done.judged.len(), "failed": done.failed}))?;
    let head = audit.end()?;
    let error = prepared.before.header.get("error").and_then(|error| serde_json::from_value(error.clone()).ok());
    let finished = recorder.finish(log::End {
        status: prepared.before.status,
        results: Some(results.clone()),
        stats,
        error,
        reductions: Some(reductions),
        metadata: [
            ("ringfence_audit".to_owned(), json!({"count": head.count, "hash": head.hash})),
            (Expectation::FIELD.to_owned(), shared.receipt.to_json()),
        ]
        .into_iter()
        .collect(),
    })?;
    let (judged, failed) = (done.judged.len(), done.failed);
    Ok(Rescored { log: finished.path, from: prepared.digest.clone(), samples: read, judged, failed, results })
}
