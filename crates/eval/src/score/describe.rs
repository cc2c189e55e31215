//! Scorers and metrics, as a log names them.

use serde_json::{Value, json};

use crate::task::{Graders, Location, Metric, Rubric, Scorer, Vote, sha256};

/// A scorer's name, as Inspect users know it.
fn name_of(scorer: &Scorer) -> &'static str {
    match scorer {
        Scorer::Exact => "exact",
        Scorer::F1 { .. } => "f1",
        Scorer::Includes { .. } => "includes",
        Scorer::Match { .. } => "match",
        Scorer::Pattern { .. } => "pattern",
        Scorer::Choice => "choice",
        Scorer::Script { .. } => "script",
        Scorer::Graded(graded) => match graded.rubric {
            Rubric::Question => "model_graded_qa",
            Rubric::Fact => "model_graded_fact",
        },
    }
}

/// A name for each scorer of a task; two of a kind are counted.
pub(crate) fn names(scorers: &[Scorer]) -> Vec<String> {
    names_beside(scorers, &[])
}

/// The same, where some names are taken.
pub(crate) fn names_beside(scorers: &[Scorer], taken: &[String]) -> Vec<String> {
    let mut names: Vec<String> = taken.to_vec();
    for scorer in scorers {
        let name = name_of(scorer);
        let mut number = 1_u32;
        let mut unique = name.to_owned();
        while names.contains(&unique) {
            number += 1;
            unique = format!("{name}_{number}");
        }
        names.push(unique);
    }
    names.split_off(taken.len())
}

/// What a scorer goes by.
fn options(scorer: &Scorer) -> Value {
    match scorer {
        Scorer::Exact | Scorer::Choice => json!({}),
        Scorer::F1 { stop_words } => json!({"stop_words": stop_words}),
        Scorer::Includes { ignore_case } => json!({"ignore_case": ignore_case}),
        Scorer::Match { location, ignore_case, numeric } => {
            let location = match location {
                Location::Begin => "begin",
                Location::End => "end",
                Location::Any => "any",
                Location::Exact => "exact",
            };
            json!({"location": location, "ignore_case": ignore_case, "numeric": numeric})
        }
        Scorer::Pattern { pattern, ignore_case } => json!({"pattern": pattern, "ignore_case": ignore_case}),
        // Its length has no bound that would do for a header.
        Scorer::Script { script, timeout } => json!({"sha256": sha256(script.as_bytes()), "timeout": timeout / 1000}),
        Scorer::Graded(graded) => {
            let (role, model) = match &graded.graders {
                Graders::Role(role) => (Some(role), None),
                Graders::Models(names) => (None, Some(names)),
            };
            let reducer = match graded.vote {
                Vote::Majority => "majority",
                Vote::Mode => "mode",
            };
            json!({
                "template": graded.template, "instructions": graded.instructions, "grade_pattern": graded.grade_pattern,
                "partial_credit": graded.partial_credit, "include_history": graded.include_history, "model_role": role,
                "model": model, "reducer": reducer,
            })
        }
    }
}

fn metric(metric: &Metric) -> Value {
    match metric {
        Metric::Accuracy => json!({"name": "accuracy"}),
        Metric::Mean => json!({"name": "mean"}),
        Metric::Std => json!({"name": "std"}),
        Metric::Var => json!({"name": "var"}),
        Metric::Stderr { cluster: None } => json!({"name": "stderr"}),
        Metric::Stderr { cluster } => json!({"name": "stderr", "options": {"cluster": cluster}}),
        Metric::Bootstrap { resamples, level } => {
            json!({"name": "bootstrap", "options": {"num_samples": resamples, "level": level}})
        }
        Metric::Grouped { by, metrics, .. } => {
            let inner: Vec<Value> = metrics.iter().map(self::metric).collect();
            json!({"name": "grouped", "options": {"group_key": by, "metrics": inner}})
        }
    }
}

/// Inspect's list of `EvalScorer`.
pub(crate) fn described(scorers: &[Scorer], metrics: &[Metric]) -> Vec<Value> {
    described_as(scorers, &names(scorers), metrics)
}

/// The same, under these names.
pub(crate) fn described_as(scorers: &[Scorer], names: &[String], metrics: &[Metric]) -> Vec<Value> {
    let metrics: Vec<Value> = metrics.iter().map(metric).collect();
    let described = scorers.iter().zip(names);
    described.map(|(scorer, name)| json!({"name": name, "options": options(scorer), "metrics": metrics})).collect()
}
