//! `scorer: model_graded_qa` and `model_graded_fact`: judging by models.

use std::str::FromStr;

use profile::Problem;
use profile::source::{Complaints, Fields, Node, text};

use super::amounts::{text_or_file, words};
use super::files::Files;
use super::kinds::one_or_many;
use super::scorer::expression;
use super::{Graded, Graders, Rubric, Scorer, Vote};

/// Their keys.
pub(super) const KEYS: &[&str] = &[
    "kind",
    "template",
    "instructions",
    "grade_pattern",
    "partial_credit",
    "include_history",
    "model",
    "role",
    "reducer",
];
/// Who grades, unless a task says otherwise.
const ROLE: &str = "grader";
/// The most bytes of a template and of instructions: they stand in every prompt, and in the log's header.
const LONGEST: usize = 200_000;
/// The most graders that one scorer asks.
const MOST_GRADERS: usize = 25;

impl FromStr for Vote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "majority" => Ok(Self::Majority),
            "mode" => Ok(Self::Mode),
            _ => Err(format!("`{text}` is not a way to count grades: use majority or mode")),
        }
    }
}

pub(super) fn read(rubric: Rubric, fields: &mut Fields<'_>, files: &dyn Files) -> Scorer {
    let complaints = fields.complaints();
    let place = fields.place_of("template");
    let template = bounded(fields, "template", files);
    if template.as_ref().is_some_and(|template| !template.contains("{answer}")) {
        complaints.add(Problem {
            place,
            message: "the `template` has no place for the {answer}".into(),
            hint: Some(
                "a grader that is not shown the answer would grade anything: write {answer} where it belongs".into(),
            ),
        });
    }
    let place = fields.place_of("instructions");
    let instructions = bounded(fields, "instructions", files);
    if let (Some(_), Some(template)) = (&instructions, &template)
        && !template.contains("{instructions}")
    {
        complaints.add(Problem {
            place,
            message: "the `template` has no place for the {instructions}".into(),
            hint: Some("write {instructions} in the template, or leave them out".into()),
        });
    }
    let grade_pattern = expression(fields, "grade_pattern");
    let partial_credit = fields.truth("partial_credit").unwrap_or(false);
    let include_history = fields.truth("include_history").unwrap_or(false);
    let graders = graders(fields, complaints);
    let vote = fields.parsed::<Vote>("reducer").map_or(Vote::Majority, |vote| vote.value);
    Scorer::Graded(Box::new(Graded {
        rubric,
        template,
        instructions,
        grade_pattern,
        partial_credit,
        include_history,
        graders,
        vote,
    }))
}

/// A text that is not too long for every prompt.
fn bounded(fields: &mut Fields<'_>, key: &str, files: &dyn Files) -> Option<String> {
    let node = fields.take(key)?;
    let (place, complaints) = (node.place, fields.complaints());
    let text = text_or_file(node, key, complaints, files)?;
    if text.len() > LONGEST {
        complaints.add(Problem::at(place, format!("`{key}` is longer than {LONGEST} bytes")));
    }
    Some(text)
}

/// `model:`, one or several, or `role:`.
fn graders(fields: &mut Fields<'_>, complaints: &Complaints) -> Graders {
    let role = words(fields, "role");
    let Some(node) = fields.take("model") else { return Graders::Role(role.unwrap_or_else(|| ROLE.to_owned())) };
    let place = node.place;
    if role.is_some() {
        complaints.add(Problem::at(place, "graders are named by `model` or by `role`, not by both"));
    }
    let named: Vec<String> = one_or_many(node).into_iter().filter_map(|node| named(node, complaints)).collect();
    if named.is_empty() || named.len() > MOST_GRADERS {
        complaints.add(
            Problem::at(place, format!("`model` must name 1 to {MOST_GRADERS} graders")).hint("write [openai/gpt-5]"),
        );
    }
    Graders::Models(named)
}

fn named(node: Node, complaints: &Complaints) -> Option<String> {
    let place = node.place;
    let name = text(node, "model", complaints)?.value;
    if name.trim().is_empty() {
        complaints.add(Problem::at(place, "the model's name is empty"));
        return None;
    }
    Some(name)
}
