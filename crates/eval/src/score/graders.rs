//! Judging by models: they are asked one after the other, each for itself, and everything is written down.

use std::collections::BTreeMap;

use log::event::Score;
use log::message::ChatMessage;
use serde_json::{Map, Value, json};

use super::grade::{self, Material};
use super::{ANSWER_TOO_LONG, GRADER_FAILED, scored};
use crate::budget::Budget;
use crate::display::Counters;
use crate::journal::Journal;
use crate::model::{Chosen, Models};
use crate::solve::{Speaker, Spent, State, Stop};
use crate::task::{Graded, Graders, Input, Sample, Task};

/// The role of graders that are named by their models.
const ROLE: &str = "grader";
/// The most characters of a grader's words that a score repeats; all of them are in the event.
const REPEATED: usize = 10_000;

/// Everybody who can be asked about one sample.
pub(crate) struct Panel<'a> {
    pub(crate) task: &'a Task,
    pub(crate) models: &'a Models,
    pub(crate) sample: &'a Sample,
    pub(crate) epoch: u32,
    pub(crate) journal: &'a Journal,
    pub(crate) counters: &'a Counters,
    pub(crate) budget: &'a Budget,
    /// Those who were asked already: a scripted one goes on with its script.
    pub(crate) speakers: BTreeMap<String, Speaker<'a>>,
}

/// What one grader said.
struct Opinion {
    model: String,
    grade: Option<Value>,
    said: String,
}

impl<'a> Panel<'a> {
    /// Asks all graders and counts their grades.
    pub(crate) async fn judge(&mut self, graded: &'a Graded, state: &State, spent: &mut Spent) -> Result<Score, Stop> {
        let question =
            if graded.include_history { grade::history(&state.messages) } else { question(&self.sample.input) };
        let prompt = grade::prompt(
            graded,
            &Material {
                question: &question,
                answer: state.completion(),
                criterion: &self.sample.target.join("\n"),
                metadata: &self.sample.metadata,
            },
        );
        // What the judged model wrote of it. An answer must not get out of being judged by its length.
        let written = state.completion().len() + if graded.include_history { question.len() } else { 0 };
        let is_mostly_written = written.saturating_mul(2) > prompt.len();
        let asked = [ChatMessage::user(prompt)];
        let (mut opinions, mut is_too_long) = (Vec::new(), false);
        for key in self.gather(&graded.graders)? {
            let Some(speaker) = self.speakers.get(&key) else { continue };
            let (grade, said) = match speaker.ask(&asked, &[], spent).await {
                Ok(output) => (grade::read(graded, &output.completion), output.completion),
                // What is too long for a grader cannot be judged by it.
                Err(Stop::Limit { message, .. }) => {
                    is_too_long = is_mostly_written;
                    (None, message)
                }
                Err(stop) => return Err(stop),
            };
            let said = said.chars().take(REPEATED).collect();
            opinions.push(Opinion { model: speaker.voice.name().to_owned(), grade, said });
        }
        Ok(score(graded, state.completion(), &opinions, is_too_long))
    }

    /// The keys of those who are to be asked, in their order.
    fn gather(&mut self, graders: &'a Graders) -> Result<Vec<String>, Stop> {
        let (role, chosen): (&'a str, Vec<_>) = match graders {
            Graders::Role(role) => (role, self.models.role_of(role, self.sample)),
            Graders::Models(names) => {
                let found = names.iter().map(|name| {
                    let chosen = self.models.named(name);
                    chosen.ok_or_else(|| Stop::Failed(format!("nobody has looked for the grader `{name}`")))
                });
                (
                    ROLE,
                    found
                        .map(|chosen| chosen.map(|chosen| (chosen, chosen.config.clone())))
                        .collect::<Result<_, _>>()?,
                )
            }
        };
        let mut keys = Vec::new();
        for (index, (chosen, config)) in chosen.into_iter().enumerate() {
            // Of two who share a script the second goes on where the first was.
            let number = if is_scripted(chosen) { 0 } else { index };
            let key = format!("{role} {number} {}", chosen.name());
            self.speakers.entry(key.clone()).or_insert_with(|| Speaker {
                voice: chosen.open(self.task, self.sample, Some(role)),
                role: Some(role),
                config,
                // Two graders of one name are two opinions, also where answers are kept.
                scope: format!("epoch {}, {role} {index}", self.epoch),
                journal: self.journal,
                counters: self.counters,
                budget: self.budget,
                must_count: self.budget.needs_usage(),
            });
            keys.push(key);
        }
        Ok(keys)
    }
}

fn is_scripted(chosen: &Chosen) -> bool {
    chosen.name() == "mock/scripted"
}

/// What was asked, as Inspect has it: of a conversation what the user said last.
fn question(input: &Input) -> String {
    match input {
        Input::Text(text) => text.clone(),
        Input::Messages(messages) => {
            let last = messages.iter().rev().find(|message| matches!(message, ChatMessage::User(_)));
            last.map(|message| message.text().into_owned()).unwrap_or_default()
        }
    }
}

fn score(graded: &Graded, answer: &str, opinions: &[Opinion], is_too_long: bool) -> Score {
    let votes: Vec<Option<Value>> = opinions.iter().map(|opinion| opinion.grade.clone()).collect();
    let value = grade::count(graded.vote, &votes);
    let explanation = match (opinions, &value) {
        ([one], Some(_)) => one.said.clone(),
        ([one], None) => format!("there is no grade in what {} said: {}", one.model, one.said),
        (all, value) => told(all, value.as_ref()),
    };
    let graders: Vec<Value> = opinions
        .iter()
        .map(|opinion| json!({"model": opinion.model, "grade": opinion.grade, "explanation": opinion.said}))
        .collect();
    let metadata: Map<String, Value> = [("graders".to_owned(), Value::Array(graders))].into_iter().collect();
    let judged = match value {
        Some(value) => scored(value, Some(answer.to_owned())),
        None if is_too_long => {
            Score { reason: Some(ANSWER_TOO_LONG.into()), ..scored(Value::from("I"), Some(answer.to_owned())) }
        }
        None => Score { reason: Some(GRADER_FAILED.into()), ..scored(Value::from("N"), Some(answer.to_owned())) },
    };
    Score { explanation: Some(explanation), metadata: Some(metadata), ..judged }
}

/// Who said what, in one line.
fn told(opinions: &[Opinion], value: Option<&Value>) -> String {
    let shown = |grade: &Value| super::group_name(grade);
    let each: Vec<String> = opinions
        .iter()
        .map(|opinion| format!("{} {}", opinion.model, opinion.grade.as_ref().map_or("no grade".to_owned(), shown)))
        .collect();
    let each = each.join(", ");
    match value {
        Some(value) => format!("{} graders: {} ({each})", opinions.len(), shown(value)),
        None => format!("{} graders do not agree ({each})", opinions.len()),
    }
}
