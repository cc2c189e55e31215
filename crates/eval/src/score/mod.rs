//! How an answer is judged, and what all judgements come to.
//!
//! Pure: `text.rs`, `words.rs`, `number.rs` judge words, `grade.rs` reads what graders say, `reduce.rs`, `metrics.rs` and
//! `results.rs` make numbers of scores. `script.rs` (with `room.rs`) and `graders.rs` ask a sandbox and models.

mod bootstrap;
mod describe;
mod grade;
mod graders;
mod metrics;
mod number;
mod reduce;
mod results;
mod room;
mod script;
mod text;
mod words;

use log::event::Score;
use serde_json::Value;

use crate::solve::{State, letters};
use crate::task::{Location, Sample, Scorer, Task};

pub(crate) use describe::{described, described_as, names, names_beside};
pub(crate) use graders::Panel;
pub(crate) use metrics::group_name;
pub(crate) use results::{Judged, reductions, results, scores};
pub(crate) use script::{blocked, by_script, killed, lost};

/// The reason of a score that is none because graders gave none.
pub(crate) const GRADER_FAILED: &str = "grader_failed";
/// The reason of a score that is wrong because the answer is longer than graders take.
const ANSWER_TOO_LONG: &str = "answer_too_long";

/// What a score is worth: as Inspect has it.
pub(crate) fn worth(value: &Value) -> f64 {
    match value {
        Value::String(text) => match text.as_str() {
            "C" => 1.0,
            "P" => 0.5,
            "I" | "N" => 0.0,
            other => match other.to_lowercase().as_str() {
                "yes" | "true" => 1.0,
                other => number::plain(other).unwrap_or(0.0),
            },
        },
        Value::Bool(true) => 1.0,
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// Whether a score says that there is none: nobody could judge, which is not the same as a wrong answer.
pub(crate) fn is_unscored(score: &Score) -> bool {
    score.value.is_null() || (score.value == "N" && score.reason.is_some())
}

fn scored(value: Value, answer: Option<String>) -> Score {
    Score { value, answer, explanation: None, reason: None, metadata: None }
}

fn verdict(right: bool, answer: Option<String>) -> Score {
    scored(Value::from(if right { "C" } else { "I" }), answer)
}

/// Judges by words alone; `None` for scorers that need a sandbox or a model.
pub(crate) fn by_words(scorer: &Scorer, sample: &Sample, state: &State) -> Option<Score> {
    let answer = state.completion();
    let any = |right: &dyn Fn(&str) -> bool| sample.target.iter().any(|target| right(target));
    Some(match scorer {
        Scorer::Exact => verdict(any(&|target| text::is_same(answer, target)), Some(answer.to_owned())),
        Scorer::F1 { stop_words } => {
            scored(Value::from(words::f1(answer, &sample.target, stop_words)), Some(answer.to_owned()))
        }
        Scorer::Includes { ignore_case } => {
            verdict(any(&|target| text::includes(answer, target, *ignore_case)), Some(answer.to_owned()))
        }
        Scorer::Match { location, ignore_case, numeric } => {
            matched(answer, &sample.target, *location, *ignore_case, *numeric)
        }
        Scorer::Pattern { pattern, ignore_case } => match text::find(pattern, *ignore_case, answer) {
            Ok(Some(found)) => {
                let right = any(&|target| text::equal(&found, target, *ignore_case));
                verdict(right, Some(found))
            }
            Ok(None) => Score { explanation: Some("the pattern finds nothing".into()), ..verdict(false, None) },
            Err(why) => Score { explanation: Some(why), ..verdict(false, None) },
        },
        Scorer::Choice => {
            let chosen = letters(state.chosen.as_deref().unwrap_or_default());
            verdict(!chosen.is_empty() && any(&|target| target.trim() == chosen), Some(chosen))
        }
        Scorer::Script { .. } | Scorer::Graded(_) => return None,
    })
}

/// The first target that matches counts. What was taken for the answer is a number, where numbers were compared.
fn matched(answer: &str, targets: &[String], location: Location, ignore_case: bool, numeric: bool) -> Score {
    let mut taken = None;
    for target in targets {
        let numbers = if numeric { number::matches(answer, target, location) } else { None };
        let (right, said) =
            numbers.unwrap_or_else(|| (text::matches(answer, target, location, ignore_case), answer.to_owned()));
        if right {
            return verdict(true, Some(said));
        }
        taken = Some(said);
    }
    verdict(false, taken)
}

/// Whether the first scorer that can say so says that the answer is right.
pub(crate) fn is_right(task: &Task, sample: &Sample, state: &State) -> bool {
    let score = task.scorers.iter().find_map(|scorer| by_words(scorer, sample, state));
    score.is_some_and(|score| worth(&score.value) >= 1.0)
}
