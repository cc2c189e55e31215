//! What many scores come to.

use serde_json::{Map, Value, json};

use super::bootstrap::bootstrap;
use super::reduce::mean;
use crate::task::{AllGroups, Metric};

/// One sample's score, as a number, and what its data set says about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scored<'a> {
    pub(super) value: f64,
    pub(super) metadata: &'a Map<String, Value>,
}

/// What one metric says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    /// Where it stands among the results; two of a name are counted.
    pub(super) key: String,
    /// What it is called there.
    pub(super) name: String,
    /// Those of one group belong together.
    pub(super) group: Option<String>,
    pub(super) value: f64,
    pub(super) params: Value,
}

/// A group's name: a text as it is, anything else as JSON.
pub(crate) fn group_name(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Where samples are counted that do not say in which group they are.
const NOWHERE: Value = Value::Null;

fn of<'a>(scored: &Scored<'a>, key: &str) -> &'a Value {
    scored.metadata.get(key).unwrap_or(&NOWHERE)
}

/// Everything that a metric says about these scores.
pub(super) fn say(metric: &Metric, scores: &[Scored<'_>]) -> Vec<Said> {
    let one = |name: &str, value: f64, params: Value| Said {
        key: name.to_owned(),
        name: name.to_owned(),
        group: None,
        value,
        params,
    };
    let values: Vec<f64> = scores.iter().map(|scored| scored.value).collect();
    let none = json!({});
    match metric {
        Metric::Accuracy => vec![one("accuracy", mean(&values), none)],
        Metric::Mean => vec![one("mean", mean(&values), none)],
        Metric::Var => vec![one("var", variance(&values), none)],
        Metric::Std => vec![one("std", variance(&values).sqrt(), none)],
        Metric::Stderr { cluster: None } => vec![one("stderr", stderr(&values), none)],
        Metric::Stderr { cluster: Some(key) } => {
            vec![one("stderr", clustered(&parted(scores, key)), json!({"cluster": key}))]
        }
        Metric::Bootstrap { resamples, level } => {
            let found = bootstrap(&values, *resamples, *level);
            let params = json!({"num_samples": resamples, "level": level});
            [("bootstrap_stderr", found.stderr), ("bootstrap_low", found.low), ("bootstrap_high", found.high)]
                .into_iter()
                .map(|(name, value)| one(name, value, params.clone()))
                .collect()
        }
        Metric::Grouped { by, metrics, all } => {
            metrics.iter().flat_map(|inner| grouped(inner, scores, by, *all)).collect()
        }
    }
}

/// The parts of samples that have the same value there, in the order of their first.
fn parts<'a>(scores: &[Scored<'a>], key: &str) -> Vec<(&'a Value, Vec<Scored<'a>>)> {
    let mut parts: Vec<(&Value, Vec<Scored<'_>>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for scored in scores {
        let value = of(scored, key);
        let place = *places.entry(value.to_string()).or_insert(parts.len());
        if place == parts.len() {
            parts.push((value, Vec::new()));
        }
        if let Some((_, part)) = parts.get_mut(place) {
            part.push(*scored);
        }
    }
    parts
}

fn parted(scores: &[Scored<'_>], key: &str) -> Vec<Vec<f64>> {
    parts(scores, key).into_iter().map(|(_, part)| part.iter().map(|scored| scored.value).collect()).collect()
}

/// A metric for each group, and one for all of them.
fn grouped(inner: &Metric, scores: &[Scored<'_>], by: &str, all: AllGroups) -> Vec<Said> {
    let mut by_group: Vec<(String, Vec<Said>)> =
        parts(scores, by).into_iter().map(|(value, part)| (group_name(value), say(inner, &part))).collect();
    by_group.sort_by(|(one, _), (other, _)| one.cmp(other));
    let whole = match all {
        AllGroups::None => None,
        AllGroups::Samples => Some(say(inner, scores)),
        AllGroups::Groups => Some(say(inner, scores)).map(|whole| {
            let mean_of = |place: usize| {
                let values: Vec<f64> =
                    by_group.iter().filter_map(|(_, said)| said.get(place)).map(|said| said.value).collect();
                mean(&values)
            };
            whole.into_iter().enumerate().map(|(place, said)| Said { value: mean_of(place), ..said }).collect()
        }),
    };
    by_group.extend(whole.map(|said| ("all".to_owned(), said)));
    let all = match all {
        AllGroups::Samples => json!("samples"),
        AllGroups::Groups => json!("groups"),
        AllGroups::None => json!(false),
    };
    let named = by_group.into_iter().flat_map(|(name, said)| said.into_iter().map(move |said| (name.clone(), said)));
    named
        .map(|(name, said)| Said {
            key: format!("{}_{name}", said.key),
            group: Some(format!("{} by {by}", said.key)),
            value: said.value,
            params: json!({"metric": said.key, "group_key": by, "all": all}),
            name,
        })
        .collect()
}

/// The variance of samples; 0 where there is nothing to compare.
#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// The standard error of the mean; 0 where there is nothing to compare.
#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn stderr(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { (variance(values) / values.len() as f64).sqrt() }
}

/// The same where samples of a cluster go together (Miller, "Adding error bars to evals", appendix A), with the correction for
/// few clusters.
#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn clustered(clusters: &[Vec<f64>]) -> f64 {
    if clusters.len() < 2 {
        return 0.0;
    }
    let all: Vec<f64> = clusters.concat();
    let centre = mean(&all);
    let squares: f64 =
        clusters.iter().map(|cluster| cluster.iter().map(|value| value - centre).sum::<f64>().powi(2)).sum();
    let count = clusters.len() as f64;
    (squares * count / (count - 1.0)).sqrt() / all.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-5, "{one} is not {other}");
    }

    fn metadata(group: &Value) -> Map<String, Value> {
        [("g".to_owned(), group.clone())].into_iter().collect()
    }

    #[test]
    fn errors_are_what_their_names_say() {
        about(stderr(&[1.0, 0.0, 1.0, 0.0]), 0.288_675);
        about(stderr(&[1.0]), 0.0);
        about(variance(&[1.0, 2.0, 4.0]), 2.333_333);
        // Two clusters that are each one sample said twice are as unsure as two samples.
        about(clustered(&[vec![1.0, 1.0], vec![0.0, 0.0]]), 0.5);
        about(clustered(&[vec![1.0, 0.0, 1.0]]), 0.0);
    }

    #[test]
    fn groups_are_counted_apart_and_together() {
        let groups = [metadata(&json!("easy")), metadata(&json!("hard")), metadata(&json!(3))];
        let rows = [(1.0, 0), (1.0, 0), (0.0, 1), (1.0, 2), (0.0, 0)];
        let scores: Vec<Scored<'_>> =
            rows.iter().map(|(value, group)| Scored { value: *value, metadata: &groups[*group] }).collect();
        let metric = |all| Metric::Grouped {
            by: "g".into(),
            metrics: vec![Metric::Accuracy, Metric::Stderr { cluster: None }],
            all,
        };
        let keys = |all| say(&metric(all), &scores).into_iter().map(|said| (said.key, said.value)).collect::<Vec<_>>();
        let samples = keys(AllGroups::Samples);
        let names: Vec<&str> = samples.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            names,
            [
                "accuracy_3",
                "accuracy_easy",
                "accuracy_hard",
                "accuracy_all",
                "stderr_3",
                "stderr_easy",
                "stderr_hard",
                "stderr_all"
            ]
        );
        about(samples[1].1, 2.0 / 3.0);
        about(samples[3].1, 0.6);
        about(keys(AllGroups::Groups)[3].1, (1.0 + 2.0 / 3.0) / 3.0);
        assert_eq!(keys(AllGroups::None).len(), 6);
    }
}
