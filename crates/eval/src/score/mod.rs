//! How an answer is judged, and what all judgements come to.

mod metrics;
mod text;

use std::time::Duration;

use log::event::Score;
use sandbox::{Exec, Outcome, Overflow, Sandbox, User};
use serde_json::{Map, Value};

use crate::solve::{State, letters};
use crate::task::{Sample, Scorer, Task};

pub(crate) use metrics::{Judged, reductions, results};

/// A scorer's name, as Inspect users know it.
pub(crate) fn name_of(scorer: &Scorer) -> &'static str {
    match scorer {
        Scorer::Exact => "exact",
        Scorer::Includes { .. } => "includes",
        Scorer::Match { .. } => "match",
        Scorer::Pattern { .. } => "pattern",
        Scorer::Choice => "choice",
        Scorer::Script { .. } => "script",
    }
}

/// A name for each scorer of a task; two of a kind are counted.
pub(crate) fn names(scorers: &[Scorer]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for scorer in scorers {
        let name = name_of(scorer);
        let same = names.iter().filter(|known| *known == name || known.starts_with(&format!("{name}_"))).count();
        names.push(if same == 0 { name.to_owned() } else { format!("{name}_{}", same + 1) });
    }
    names
}

/// What a score is worth.
pub(crate) fn worth(value: &Value) -> f64 {
    match value {
        Value::String(text) => match text.as_str() {
            "C" => 1.0,
            "P" => 0.5,
            _ => 0.0,
        },
        Value::Bool(true) => 1.0,
        other => other.as_f64().unwrap_or(0.0),
    }
}

fn verdict(right: bool, answer: Option<String>) -> Score {
    Score { value: Value::from(if right { "C" } else { "I" }), answer, explanation: None, metadata: None }
}

/// Judges by words alone; `None` for scorers that need a sandbox.
pub(crate) fn by_words(scorer: &Scorer, sample: &Sample, state: &State) -> Option<Score> {
    let answer = state.completion();
    let any = |right: &dyn Fn(&str) -> bool| sample.target.iter().any(|target| right(target));
    Some(match scorer {
        Scorer::Exact => verdict(any(&|target| text::is_same(answer, target)), Some(answer.to_owned())),
        Scorer::Includes { ignore_case } => {
            verdict(any(&|target| text::includes(answer, target, *ignore_case)), Some(answer.to_owned()))
        }
        Scorer::Match { location, ignore_case } => {
            verdict(any(&|target| text::matches(answer, target, *location, *ignore_case)), Some(answer.to_owned()))
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
        Scorer::Script { .. } => return None,
    })
}

/// Whether the first scorer that can say so says that the answer is right.
pub(crate) fn is_right(task: &Task, sample: &Sample, state: &State) -> bool {
    let score = task.scorers.iter().find_map(|scorer| by_words(scorer, sample, state));
    score.is_some_and(|score| worth(&score.value) >= 1.0)
}

/// The most that is read of what a script says.
const SAID: usize = 1 << 20;
/// What a script finds set; nothing that the agent could have written is looked up by it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Judges by a script, in the sandbox of the score phase.
pub(crate) async fn by_script(
    sandbox: &Sandbox,
    script: &str,
    timeout: Duration,
    sample: &Sample,
    state: &State,
) -> Result<Score, String> {
    let answer = state.completion().to_owned();
    let exec = Exec {
        argv: ["/bin/sh", "-euc", script].map(str::to_owned).to_vec(),
        env: vec![
            ("PATH".into(), PATH.into()),
            ("HOME".into(), "/nonexistent".into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("ANSWER".into(), answer.clone()),
            ("TARGET".into(), sample.target.join("\n")),
        ],
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        max_output: None,
    };
    let completed = sandbox.exec(exec, b"", SAID, Overflow::KeepTail).await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&completed.stdout).into_owned();
    let number = said.lines().next_back().and_then(|line| line.trim().parse::<f64>().ok()).filter(|n| n.is_finite());
    let errors = String::from_utf8_lossy(&completed.stderr).into_owned();
    let explanation = Some(format!("{said}{errors}").chars().take(2000).collect());
    let value = match (completed.outcome, number) {
        (Outcome::Exited(0), Some(number)) => Value::from(number),
        (Outcome::Exited(0), None) => Value::from("C"),
        (Outcome::Exited(_), _) => Value::from("I"),
        (other, _) => return Err(format!("the scoring script did not end by itself: {other:?}")),
    };
    Ok(Score { value, answer: Some(answer), explanation, metadata: Some(Map::new()) })
}
