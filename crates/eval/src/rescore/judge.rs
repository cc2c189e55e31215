//! One sample of a log, judged again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bounded::Budget;
use log::event::{Score, What};
use log::{SampleEnd, SampleName};
use serde_json::{Map, Value, json};

use super::stored::{self, Stored};
use super::{Action, RescoreFailure, Shared, header};
use crate::journal::Journal;
use crate::run::EvalFailure;
use crate::score::{self, Judged, Panel};
use crate::solve::{self, Spent, Stop};
use crate::task::Scorer;

/// What one sample came to.
pub(super) struct One {
    pub(super) judged: Option<Judged>,
    /// Its scores of before.
    pub(super) before: Judged,
    pub(super) spent: Spent,
    /// Whether a grader failed.
    pub(super) failed: bool,
}

/// What judging never meets: it has no sandbox and keeps nothing of an earlier log.
fn unforeseen(error: impl std::error::Error + Send + Sync + 'static) -> log::LogError {
    log::LogError::Io {
        action: "write a sample",
        path: std::path::PathBuf::new(),
        source: std::io::Error::other(error),
    }
}

impl From<EvalFailure> for RescoreFailure {
    fn from(failure: EvalFailure) -> Self {
        match failure {
            EvalFailure::Log(error) => Self::Log(error),
            EvalFailure::Audit(error) => Self::Audit(error),
            EvalFailure::Earlier(error) => Self::Log(unforeseen(error)),
            EvalFailure::Place(error) => Self::Log(unforeseen(error)),
        }
    }
}

/// Judges a sample and writes it into the new log.
pub(super) async fn one(shared: &Shared, bytes: &[u8]) -> Result<One, RescoreFailure> {
    let task = &shared.prepared.task;
    let Some(stored) = Stored::read(bytes, shared.prepared.before.is_ours()) else {
        let problem = profile::Problem::new("a sample has changed while it was read");
        let origin = shared.prepared.path.display().to_string();
        return Err(RescoreFailure::Wrong(profile::Problems { origin, problems: vec![problem] }));
    };
    let keep = |scores: &BTreeMap<String, Score>| {
        let sample = &stored.sample;
        Judged::new(sample.id.clone(), stored.epoch, scores, &sample.metadata, &task.metrics)
    };
    let mut recorder = shared.recorder.sample(SampleName::from(&stored.sample.id), stored.epoch)?;
    let mut usage = Map::new();
    for (key, bytes) in &stored.fields {
        match key.as_str() {
            "scores" if !stored.failed => {}
            // Read, since graders may have used more.
            "model_usage" | "role_usage" => {
                let value = stored::read::<Value>(bytes, &Budget::for_text(bytes));
                usage.extend(value.map(|value| (key.clone(), value)));
            }
            _ => recorder.keep(key, bytes)?,
        }
    }
    let before = keep(&stored.plain_scores());
    let audit = shared.audit.of(&stored.sample, stored.epoch);
    let journal = Journal::new(recorder, audit.clone(), Arc::clone(&shared.redactor));
    let (mut spent, mut scores, mut failed) = (Spent::default(), BTreeMap::new(), false);
    if !stored.failed {
        match judge(shared, &stored, &journal, &mut spent).await {
            Ok(found) => scores = found,
            Err(stop) => {
                failed = true;
                let why = match stop {
                    Stop::Failed(why) | Stop::Blocked(why) | Stop::Limit { message: why, .. } => why,
                    Stop::Run(over) => over.message,
                };
                journal.event(What::Error { error: solve::error(&why) });
            }
        }
        let values: Map<String, Value> =
            scores.iter().map(|(name, score)| (name.clone(), score.value.clone())).collect();
        audit.record("score", journal.without_secrets(Value::Object(values)))?;
    }
    journal.check()?;
    if let Some(mut recorder) = journal.close() {
        if !stored.failed {
            let written =
                scores.iter().map(|(name, score)| (name.clone(), told(shared, &stored, &journal, name, score)));
            let written: Vec<(String, Value)> = written.collect();
            recorder.keep("scores", &joined(shared.prepared.action, failed, &stored, &written)?)?;
        }
        for (key, more) in [("model_usage", &spent.by_model), ("role_usage", &spent.by_role)] {
            if !more.is_empty() {
                usage.insert(key.into(), header::add_usage(usage.get(key), more));
            }
        }
        recorder.complete(SampleEnd { fields: journal.redact(usage) })?;
    }
    let judged = (!stored.failed).then(|| keep(&scores));
    Ok(One { judged, before, spent, failed })
}

/// Asks every scorer.
async fn judge(
    shared: &Shared,
    stored: &Stored<'_>,
    journal: &Journal,
    spent: &mut Spent,
) -> Result<BTreeMap<String, Score>, Stop> {
    let task = &shared.prepared.task;
    let talks = |scorer: &Scorer| matches!(scorer, Scorer::Graded(graded) if graded.include_history);
    let state = stored.state(task.scorers.iter().any(talks));
    let mut panel = Panel {
        task,
        models: &shared.prepared.models,
        sample: &stored.sample,
        epoch: stored.epoch,
        journal,
        counters: &shared.counters,
        budget: &shared.budget,
        speakers: BTreeMap::new(),
    };
    let mut scores = BTreeMap::new();
    let _span = journal.span("scorers", "scorers");
    for (scorer, name) in task.scorers.iter().zip(&shared.prepared.names) {
        let _span = journal.span("scorer", name);
        let score = match (scorer, score::by_words(scorer, &stored.sample, &state)) {
            (_, Some(score)) => score,
            (Scorer::Graded(graded), None) => panel.judge(graded, &state, spent).await?,
            _ => return Err(Stop::Failed("a scoring script needs a sandbox".into())),
        };
        let target = Some(stored.sample.target.clone());
        journal.event(What::Score { score: score.clone(), target, intermediate: false });
        scores.insert(name.clone(), score);
    }
    Ok(scores)
}

/// A score with who gave it when; where it takes the place of another, with that one.
fn told(shared: &Shared, stored: &Stored<'_>, journal: &Journal, name: &str, score: &Score) -> Value {
    let mut told = journal.without_secrets(json!(score));
    let old = stored.scores.iter().find(|(known, _)| known == name && shared.prepared.action == Action::Overwrite);
    let old: Option<Value> = old.and_then(|(_, bytes)| stored::read(bytes, &Budget::for_text(bytes)));
    let mut edit = Map::new();
    for key in ["value", "answer", "explanation", "reason", "metadata"] {
        edit.extend(told.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    edit.insert("provenance".into(), shared.provenance.clone());
    let mut history = Vec::new();
    if let Some(mut old) = old.filter(|old| !old["value"].is_null()) {
        match old["history"].take() {
            Value::Array(all) if !all.is_empty() => history = all,
            _ => {
                let original = ["value", "answer", "explanation", "reason", "metadata"];
                let original = original.into_iter().filter(|key| !old[*key].is_null());
                history.push(original.map(|key| (key.to_owned(), old[key].clone())).collect());
            }
        }
    }
    history.push(Value::Object(edit));
    told["history"] = Value::Array(history);
    told
}

/// The new scores, beside the old ones as they are written, or in their place. Where graders failed, the old ones stay.
fn joined(
    action: Action,
    failed: bool,
    stored: &Stored<'_>,
    new: &[(String, Value)],
) -> Result<Vec<u8>, RescoreFailure> {
    let broken = |error: serde_json::Error| {
        RescoreFailure::Log(log::LogError::Io {
            action: "write a score",
            path: std::path::PathBuf::new(),
            source: error.into(),
        })
    };
    let mut out = vec![b'{'];
    let old = stored.scores.iter().filter(|_| action == Action::Append || failed);
    let old = old.filter(|(name, _)| !new.iter().any(|(known, _)| known == name));
    for (name, bytes) in old {
        separate(&mut out);
        serde_json::to_writer(&mut out, name).map_err(broken)?;
        out.push(b':');
        out.extend_from_slice(bytes);
    }
    for (name, score) in new {
        separate(&mut out);
        serde_json::to_writer(&mut out, name).map_err(broken)?;
        out.push(b':');
        serde_json::to_writer(&mut out, score).map_err(broken)?;
    }
    out.push(b'}');
    Ok(out)
}

fn separate(out: &mut Vec<u8>) {
    if out.len() > 1 {
        out.push(b',');
    }
}
