//! What the scores of all samples come to.

use std::collections::BTreeMap;

use log::event::Score;
use serde_json::{Map, Value, json};

use super::worth;
use crate::task::{Reducer, SampleId};

/// One sample's scores, by scorer, of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) sample: SampleId,
    pub(crate) scores: BTreeMap<String, Score>,
}

fn name(reducer: Reducer) -> &'static str {
    match reducer {
        Reducer::Mean => "mean",
        Reducer::Mode => "mode",
        Reducer::Max => "max",
    }
}

fn reduce(reducer: Reducer, values: &[f64]) -> f64 {
    match reducer {
        Reducer::Mean => mean(values),
        Reducer::Max => values.iter().copied().fold(f64::MIN, f64::max),
        Reducer::Mode => {
            let count = |value: &f64| values.iter().filter(|other| (*other - value).abs() < 1e-9).count();
            // Of equally frequent ones the first.
            let best = values.iter().map(count).max().unwrap_or(0);
            values.iter().copied().find(|value| count(value) == best).unwrap_or(0.0)
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The standard error of the mean; 0 where there is nothing to compare.
#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn stderr(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt() / (values.len() as f64).sqrt()
}

/// The samples' values under one scorer and reducer, in the order of their ids.
fn reduced(judged: &[Judged], scorer: &str, reducer: Reducer) -> Vec<(SampleId, f64)> {
    let mut by_sample: BTreeMap<SampleId, Vec<f64>> = BTreeMap::new();
    for one in judged {
        if let Some(score) = one.scores.get(scorer) {
            by_sample.entry(one.sample.clone()).or_default().push(worth(&score.value));
        }
    }
    by_sample.into_iter().map(|(sample, values)| (sample, reduce(reducer, &values))).collect()
}

/// Inspect's `results`: for every scorer and reducer accuracy, mean and standard error.
pub(crate) fn results(judged: &[Judged], scorers: &[String], reducers: &[Reducer], epochs: u32, total: usize) -> Value {
    let mut all = Vec::new();
    for scorer in scorers {
        for reducer in reducers {
            let values: Vec<f64> = reduced(judged, scorer, *reducer).into_iter().map(|(_, value)| value).collect();
            let metric =
                |name: &str, value: f64| (name.to_owned(), json!({"name": name, "value": value, "params": {}}));
            let metrics: Map<String, Value> =
                [metric("accuracy", mean(&values)), metric("mean", mean(&values)), metric("stderr", stderr(&values))]
                    .into_iter()
                    .collect();
            let reducer = (epochs > 1).then(|| name(*reducer));
            all.push(json!({
                "name": scorer, "scorer": scorer, "reducer": reducer, "params": {}, "metrics": metrics,
                "scored_samples": values.len(), "unscored_samples": 0,
            }));
        }
    }
    json!({"total_samples": total, "completed_samples": judged.len(), "scores": all})
}

/// Inspect's `reductions`.
pub(crate) fn reductions(judged: &[Judged], scorers: &[String], reducers: &[Reducer]) -> Value {
    let mut all = Vec::new();
    for scorer in scorers {
        for reducer in reducers {
            let samples: Vec<Value> = reduced(judged, scorer, *reducer)
                .into_iter()
                .map(|(sample, value)| json!({"sample_id": sample.to_json(), "value": value}))
                .collect();
            all.push(json!({"scorer": scorer, "reducer": name(*reducer), "samples": samples}));
        }
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reducers_and_errors_are_what_their_names_say() {
        assert!((reduce(Reducer::Mean, &[1.0, 0.0, 0.0, 1.0]) - 0.5).abs() < 1e-9);
        assert!((reduce(Reducer::Mode, &[1.0, 0.0, 0.0]) - 0.0).abs() < 1e-9);
        assert!((reduce(Reducer::Max, &[0.0, 0.5, 0.2]) - 0.5).abs() < 1e-9);
        assert!((stderr(&[1.0, 0.0, 1.0, 0.0]) - 0.288_675).abs() < 1e-5);
        assert!(stderr(&[1.0]).abs() < 1e-9);
    }
}
