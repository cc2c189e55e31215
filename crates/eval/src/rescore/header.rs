//! What the new log says before and after its samples.

use log::{Reader, Status};
use serde_json::{Map, Value, json};

use super::{Action, Prepared};
use crate::score::{self, Judged};
use crate::task::Epochs;

/// What the log that was read says of itself.
pub(super) struct Before {
    pub(super) header: Map<String, Value>,
    pub(super) status: Status,
    pub(super) reductions: Vec<Value>,
}

impl Before {
    pub(super) fn of(reader: &Reader) -> Result<Self, log::ReadError> {
        let reductions = match reader.reductions()? {
            Some(Value::Array(all)) => all,
            _ => Vec::new(),
        };
        Ok(Self { header: reader.header().clone(), status: reader.status(), reductions })
    }

    pub(super) fn spec(&self) -> &Value {
        self.header.get("eval").unwrap_or(&Value::Null)
    }

    /// Whether we wrote it.
    pub(super) fn is_ours(&self) -> bool {
        self.spec()["metadata"].get("ringfence").is_some()
    }

    /// How often each sample was asked, and what was made of it.
    pub(super) fn epochs(&self) -> Epochs {
        let config = &self.spec()["config"];
        let count = config["epochs"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(1).max(1);
        let named = config["epochs_reducer"].as_array().into_iter().flatten();
        let known: Vec<_> = named.filter_map(|name| name.as_str()?.parse().ok()).collect();
        if known.is_empty() { Epochs { count, ..Epochs::default() } } else { Epochs { count, reducers: known } }
    }

    /// Scores that it had results for.
    fn results(&self) -> Vec<Value> {
        let scores = self.header.get("results").and_then(|results| results["scores"].as_array());
        let mut scores = scores.cloned().unwrap_or_default();
        for score in &mut scores {
            // Inspect insists on a number, and JSON has none for what could not be measured.
            if let Some(metrics) = score["metrics"].as_object_mut() {
                metrics.retain(|_, metric| metric["value"].is_number());
            }
        }
        scores
    }
}

/// The new `eval`: the old one, by whom it is scored now, and where it is from.
pub(super) fn spec(prepared: &Prepared, from: &Value) -> Value {
    let mut spec = prepared.before.spec().clone();
    let mut scorers = score::described_as(&prepared.task.scorers, &prepared.names, &prepared.task.metrics);
    if prepared.action == Action::Append {
        let old = spec["scorers"].as_array().cloned().unwrap_or_default();
        scorers = old.into_iter().chain(scorers).collect();
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("scorers".into(), Value::Array(scorers));
        // It is no part of a set: sets go on from logs of runs.
        spec.remove("eval_set_id");
        let mut metadata = spec.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        // The chain of the log that was read; the new one has its own.
        metadata.remove("ringfence_audit");
        metadata.remove(log::Expectation::FIELD);
        if let Some(own) = metadata.get_mut("ringfence").and_then(Value::as_object_mut) {
            own.remove("set_key");
        }
        let mut history =
            metadata.remove("ringfence_scored").and_then(|old| old.as_array().cloned()).unwrap_or_default();
        history.push(from.clone());
        metadata.insert("ringfence_scored".into(), Value::Array(history));
        spec.insert("metadata".into(), Value::Object(metadata));
    }
    spec
}

/// Results and reductions of the new log. What it was scored before keeps its results; where a killed run left none, they are
/// made.
pub(super) fn results(prepared: &Prepared, judged: &[Judged], before: &[Judged], read: usize) -> (Value, Value) {
    let (task, epochs) = (&prepared.task, &prepared.task.epochs);
    let names = &prepared.names;
    let (mut scores, mut reductions) = (Vec::new(), Vec::new());
    if prepared.action == Action::Append {
        scores = prepared.before.results();
        reductions.clone_from(&prepared.before.reductions);
        let known = |name: &String| scores.iter().any(|score| score["scorer"] == *name.as_str());
        let mut unknown: Vec<String> = before.iter().flat_map(|one| one.scores.keys().cloned()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|name| !known(name) && !names.contains(name));
        scores.extend(score::scores(before, &unknown, &task.metrics, epochs));
        reductions.extend(score::reductions(before, &unknown, &epochs.reducers));
    }
    scores.extend(score::scores(judged, names, &task.metrics, epochs));
    reductions.extend(score::reductions(judged, names, &epochs.reducers));
    let old = prepared.before.header.get("results");
    let number = |key: &str| old.and_then(|old| old[key].as_u64());
    let read = u64::try_from(read).unwrap_or(u64::MAX);
    let completed = u64::try_from(judged.len()).unwrap_or(u64::MAX);
    let results = json!({
        "total_samples": number("total_samples").unwrap_or(read),
        "completed_samples": number("completed_samples").unwrap_or(completed),
        "scores": scores,
    });
    (results, Value::Array(reductions))
}

/// What was used before, and what graders used now.
pub(super) fn add_usage(old: Option<&Value>, more: &std::collections::BTreeMap<String, log::message::Usage>) -> Value {
    let mut all = old.and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, usage) in more {
        let mut sum: log::message::Usage =
            all.get(name).and_then(|old| serde_json::from_value(old.clone()).ok()).unwrap_or_default();
        sum.add(usage);
        all.insert(name.clone(), json!(sum));
    }
    Value::Object(all)
}
