//! What each part of a task allows, and all of them together do not.

use profile::source::Complaints;
use profile::{Located, Problem};
use serde_json::Value;

use super::{Metric, Rubric, Sample, Scorer, Solver, Task};
use crate::score::group_name;

/// Choices are shown as the letters from A to Z.
const MAX_CHOICES: usize = 26;

/// Complains about samples that a solver or scorer cannot work with; the first of each kind is named.
pub(super) fn together(
    solvers: &[Located<Solver>],
    scorers: &[Located<Scorer>],
    samples: &[Sample],
    complaints: &Complaints,
) {
    let chooses = solvers.iter().find(|solver| solver.value == Solver::MultipleChoice);
    if let Some(solver) = chooses {
        tell(solver.place, samples, complaints, |sample| match sample.choices.len() {
            0 => Some("has no `choices`, which `multiple_choice` shows".to_owned()),
            1..=MAX_CHOICES => None,
            more => Some(format!("has {more} `choices`, more than there are letters")),
        });
    }
    for scorer in scorers {
        if scorer.value == Scorer::Choice && chooses.is_none() {
            complaints.add(Problem {
                place: scorer.place,
                message: "`choice` judges what `multiple_choice` chose, and no solver is one".into(),
                hint: Some("write solver: multiple_choice".into()),
            });
            continue;
        }
        tell(scorer.place, samples, complaints, |sample| judged(&scorer.value, sample));
    }
}

/// Complains about samples that do not say what a metric asks about them.
pub(super) fn measurable(metrics: &Located<Vec<Metric>>, samples: &[Sample], complaints: &Complaints) {
    for metric in &metrics.value {
        tell(metrics.place, samples, complaints, |sample| unmeasured(metric, sample));
    }
}

/// Why a sample cannot be judged, or told apart from others.
pub(crate) fn why_not(task: &Task, sample: &Sample) -> Option<String> {
    let unjudged = task.scorers.iter().find_map(|scorer| judged(scorer, sample));
    unjudged.or_else(|| task.metrics.iter().find_map(|metric| unmeasured(metric, sample)))
}

/// Why a metric can say nothing about a sample.
fn unmeasured(metric: &Metric, sample: &Sample) -> Option<String> {
    let missing = |key: &&str| matches!(sample.metadata.get(*key), None | Some(Value::Null));
    if let Some(key) = metric.asks().into_iter().find(missing) {
        return Some(format!("has no `{key}` in its `metadata`, by which a metric tells samples apart"));
    }
    let key = metric.has_all_of()?;
    let named = sample.metadata.get(key).is_some_and(|value| group_name(value) == "all");
    named.then(|| format!("is in a group called `all`, which is the name of all groups (by `{key}`)"))
}

/// Why a sample cannot be judged.
fn judged(scorer: &Scorer, sample: &Sample) -> Option<String> {
    let name = match scorer {
        Scorer::Script { .. } => return None,
        Scorer::Exact => "exact",
        Scorer::F1 { .. } => "f1",
        // Graders may go by their instructions alone.
        Scorer::Graded(graded)
            if graded.template.as_ref().is_some_and(|template| !template.contains("{criterion}")) =>
        {
            return None;
        }
        Scorer::Graded(graded) => match graded.rubric {
            Rubric::Question => "model_graded_qa",
            Rubric::Fact => "model_graded_fact",
        },
        Scorer::Includes { .. } => "includes",
        Scorer::Match { .. } => "match",
        Scorer::Pattern { .. } => "pattern",
        Scorer::Choice => "choice",
    };
    if sample.target.is_empty() {
        return Some(format!("has no `target`, which `{name}` compares with"));
    }
    match scorer {
        // Every text includes the empty one: every answer would be right.
        Scorer::Includes { .. } | Scorer::Match { .. }
            if sample.target.iter().any(|target| target.trim().is_empty()) =>
        {
            Some(format!("has an empty `target`, which `{name}` finds in every answer"))
        }
        Scorer::Choice => {
            let wrong = sample.target.iter().find(|target| !is_letter(target, sample.choices.len()))?;
            Some(format!("has the target `{wrong}`, which is not the letter of one of its choices"))
        }
        _ => None,
    }
}

fn is_letter(target: &str, choices: usize) -> bool {
    let mut letters = ('A'..='Z').take(choices);
    letters.any(|letter| target.len() == 1 && target.starts_with(letter))
}

fn tell(
    place: Option<profile::Place>,
    samples: &[Sample],
    complaints: &Complaints,
    wrong: impl Fn(&Sample) -> Option<String>,
) {
    let mut found = samples.iter().filter_map(|sample| wrong(sample).map(|why| (&sample.id, why)));
    let Some((id, why)) = found.next() else { return };
    let more = match found.count() {
        0 => String::new(),
        more => format!("; {more} more cannot be used either"),
    };
    complaints.add(Problem { place, message: format!("the sample `{id}` {why}{more}"), hint: None });
}
