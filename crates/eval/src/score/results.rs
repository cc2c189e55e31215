//! Scores of all samples, as a log has them: reduced over epochs, and what they come to.

use std::collections::BTreeMap;

use log::event::Score;
use serde_json::{Map, Value, json};

use super::metrics::{Said, Scored, say};
use super::reduce::reduce;
use super::{is_unscored, worth};
use crate::task::{Epochs, Metric, Reducer, SampleId};

/// One sample's scores, by scorer, of one epoch: no more of them than is counted with.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) sample: SampleId,
    pub(crate) epoch: u32,
    pub(crate) scores: BTreeMap<String, Score>,
    /// What metrics ask about the sample.
    pub(crate) metadata: Map<String, Value>,
}

impl Judged {
    /// Keeps what counts: explanations and what graders said are in the log only.
    pub(crate) fn new(
        sample: SampleId,
        epoch: u32,
        scores: &BTreeMap<String, Score>,
        metadata: &Map<String, Value>,
        metrics: &[Metric],
    ) -> Self {
        let scores = scores.iter().map(|(name, score)| {
            let (value, reason) = (score.value.clone(), score.reason.clone());
            (name.clone(), Score { value, answer: None, explanation: None, reason, metadata: None })
        });
        let keys = metrics.iter().flat_map(Metric::asks);
        let metadata = keys.filter_map(|key| Some((key.to_owned(), metadata.get(key)?.clone()))).collect();
        Self { sample, epoch, scores: scores.collect(), metadata }
    }
}

/// One sample under one scorer and reducer; nothing if nobody could judge it.
struct Reduced<'a> {
    sample: &'a SampleId,
    value: Option<Value>,
    metadata: &'a Map<String, Value>,
}

/// In the order of their ids, whatever order they ended in.
fn reduced<'a>(judged: &'a [Judged], scorer: &str, reducer: Reducer) -> Vec<Reduced<'a>> {
    let mut by_sample: BTreeMap<&SampleId, Vec<&Judged>> = BTreeMap::new();
    for one in judged.iter().filter(|one| one.scores.contains_key(scorer)) {
        by_sample.entry(&one.sample).or_default().push(one);
    }
    let mut all = Vec::new();
    for (sample, mut epochs) in by_sample {
        epochs.sort_by_key(|one| one.epoch);
        let given = epochs.iter().filter_map(|one| one.scores.get(scorer));
        let values: Vec<&Value> = given.filter(|score| !is_unscored(score)).map(|score| &score.value).collect();
        if let Some(first) = epochs.first() {
            all.push(Reduced { sample, value: reduce(reducer, &values), metadata: &first.metadata });
        }
    }
    all
}

/// As Inspect tells two of a name apart.
fn unique(key: &str, known: &Map<String, Value>) -> String {
    let mut name = key.to_owned();
    let mut number = 2_u32;
    while known.contains_key(&name) {
        name = format!("{key}{number}");
        number += 1;
    }
    name
}

/// Everything that the metrics say; nothing if there is nothing to say it about.
fn measured(metrics: &[Metric], scores: &[Scored<'_>]) -> Map<String, Value> {
    let mut all = Map::new();
    if scores.is_empty() {
        return all;
    }
    for Said { key, name, group, value, params } in metrics.iter().flat_map(|metric| say(metric, scores)) {
        let mut said = json!({"name": name, "value": value, "params": params});
        if let Some(group) = group {
            said["group"] = Value::from(group);
        }
        all.insert(unique(&key, &all), said);
    }
    all
}

/// Inspect's list of `EvalScore`: what each scorer's scores come to under each reducer.
pub(crate) fn scores(judged: &[Judged], scorers: &[String], metrics: &[Metric], epochs: &Epochs) -> Vec<Value> {
    let mut all = Vec::new();
    for scorer in scorers {
        for reducer in &epochs.reducers {
            let samples = reduced(judged, scorer, *reducer);
            let scored: Vec<Scored<'_>> = samples
                .iter()
                .filter_map(|one| Some(Scored { value: worth(one.value.as_ref()?), metadata: one.metadata }))
                .collect();
            let name = (epochs.count > 1).then(|| reducer.to_string());
            all.push(json!({
                "name": scorer, "scorer": scorer, "reducer": name, "params": {}, "metrics": measured(metrics, &scored),
                "scored_samples": scored.len(), "unscored_samples": samples.len() - scored.len(),
            }));
        }
    }
    all
}

/// Inspect's `results`.
pub(crate) fn results(
    judged: &[Judged],
    scorers: &[String],
    metrics: &[Metric],
    epochs: &Epochs,
    total: usize,
) -> Value {
    let all = scores(judged, scorers, metrics, epochs);
    json!({"total_samples": total, "completed_samples": judged.len(), "scores": all})
}

/// Inspect's `reductions`. A sample that nobody could judge has the value `N`.
pub(crate) fn reductions(judged: &[Judged], scorers: &[String], reducers: &[Reducer]) -> Vec<Value> {
    let mut all = Vec::new();
    for scorer in scorers {
        for reducer in reducers {
            let samples: Vec<Value> = reduced(judged, scorer, *reducer)
                .into_iter()
                .map(|one| match one.value {
                    Some(value) => json!({"sample_id": one.sample.to_json(), "value": value}),
                    None => json!({"sample_id": one.sample.to_json(), "value": "N", "reason": "scoring_failed"}),
                })
                .collect();
            all.push(json!({"scorer": scorer, "reducer": reducer.to_string(), "samples": samples}));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(sample: i64, epoch: u32, value: Value, reason: Option<&str>) -> Judged {
        let score = Score { value, answer: None, explanation: None, reason: reason.map(str::to_owned), metadata: None };
        let scores = [("x".to_owned(), score)].into_iter().collect();
        Judged { sample: SampleId::Number(sample), epoch, scores, metadata: Map::new() }
    }

    #[test]
    fn samples_that_nobody_could_judge_are_counted_apart() {
        let all = [
            judged(1, 2, json!("I"), None),
            judged(1, 1, json!("C"), None),
            judged(2, 1, json!("N"), Some("grader_failed")),
            judged(3, 1, json!("N"), None),
        ];
        let epochs = Epochs { count: 2, reducers: vec![Reducer::Mode] };
        let metrics =
            [Metric::Accuracy, Metric::Stderr { cluster: None }, Metric::Stderr { cluster: Some("g".into()) }];
        let results = results(&all, &["x".into()], &metrics, &epochs, 8);
        let score = &results["scores"][0];
        assert_eq!((&score["scored_samples"], &score["unscored_samples"]), (&json!(2), &json!(1)));
        assert_eq!(
            score["metrics"]["accuracy"]["value"],
            json!(0.5),
            "of two grades the first epoch's; no answer is 0"
        );
        assert_eq!(score["metrics"]["stderr2"]["params"], json!({"cluster": "g"}));
        let reductions = reductions(&all, &["x".into()], &epochs.reducers);
        assert_eq!(reductions[0]["samples"][0], json!({"sample_id": 1, "value": "C"}));
        assert_eq!(reductions[0]["samples"][1]["value"], "N");
        let nothing = scores(&all[2..3], &["x".into()], &metrics, &epochs);
        assert_eq!(nothing[0]["metrics"], json!({}), "nothing is not zero");
    }
}
