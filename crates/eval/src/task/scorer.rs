//! `scorer:`, one or several.

use std::str::FromStr;

use profile::source::{Complaints, Fields, Node, text};
use profile::{Located, Millis, Problem};

use super::amounts::{text_or_file, words};
use super::files::Files;
use super::kinds::{self, Kind};
use super::{Location, Rubric, Scorer, graded};

const KINDS: &[Kind] = &[
    ("exact", &["kind"]),
    ("includes", &["kind", "ignore_case"]),
    ("f1", &["kind", "stop_words"]),
    ("match", &["kind", "location", "ignore_case", "numeric"]),
    ("pattern", &["kind", "pattern", "ignore_case"]),
    ("choice", &["kind"]),
    ("script", &["kind", "script", "timeout"]),
    ("model_graded_qa", graded::KEYS),
    ("model_graded_fact", graded::KEYS),
];
/// How long a script may judge when nobody says, in milliseconds.
const SCRIPT_TIMEOUT: u64 = 60_000;
/// The largest regular expression, as it is compiled: those that are used are held to the same.
pub(crate) const PATTERN_SIZE: usize = 1 << 20;

/// Reads all of them.
pub(super) fn read(node: Node, complaints: &Complaints, files: &dyn Files) -> Vec<Located<Scorer>> {
    let read = kinds::one_or_many(node).into_iter().filter_map(|node| {
        let place = node.place;
        read_one(node, complaints, files).map(|scorer| Located::at(place, scorer))
    });
    read.collect()
}

fn read_one(node: Node, complaints: &Complaints, files: &dyn Files) -> Option<Scorer> {
    let (kind, mut fields) = kinds::open(node, "a scorer", KINDS, complaints)?;
    // As in Inspect: case matters only where a task says so.
    let ignore_case = |fields: &mut Fields<'_>| fields.truth("ignore_case").unwrap_or(true);
    let scorer = match kind {
        "exact" => Some(Scorer::Exact),
        "choice" => Some(Scorer::Choice),
        "includes" => Some(Scorer::Includes { ignore_case: ignore_case(&mut fields) }),
        "match" => {
            let location = fields.parsed::<Location>("location").map_or(Location::End, |location| location.value);
            let numeric = fields.truth("numeric").unwrap_or(false);
            Some(Scorer::Match { location, ignore_case: ignore_case(&mut fields), numeric })
        }
        "f1" => {
            let stop_words = fields.list("stop_words").into_iter();
            let stop_words = stop_words.filter_map(|node| Some(text(node, "stop_words", complaints)?.value)).collect();
            Some(Scorer::F1 { stop_words })
        }
        "model_graded_qa" => Some(graded::read(Rubric::Question, &mut fields, files)),
        "model_graded_fact" => Some(graded::read(Rubric::Fact, &mut fields, files)),
        "pattern" => {
            let ignore_case = ignore_case(&mut fields);
            read_pattern(&mut fields).map(|pattern| Scorer::Pattern { pattern, ignore_case })
        }
        _ => read_script(&mut fields, files),
    };
    fields.close();
    scorer
}

fn read_pattern(fields: &mut Fields<'_>) -> Option<String> {
    let place = fields.place_of("pattern");
    if place.is_none() {
        fields.complaints().add(
            Problem::at(fields.place(), "`pattern` needs a `pattern`")
                .hint("write {kind: pattern, pattern: \"ANSWER: (.*)\"}"),
        );
    }
    expression(fields, "pattern")
}

/// A regular expression that can be used.
pub(super) fn expression(fields: &mut Fields<'_>, key: &str) -> Option<String> {
    let place = fields.place_of(key);
    let pattern = words(fields, key)?;
    if let Err(error) = regex::RegexBuilder::new(&pattern).size_limit(PATTERN_SIZE).build() {
        // The last line says what is wrong; those before draw the pattern.
        let said = error.to_string();
        let said = said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        fields.complaints().add(Problem {
            place,
            message: format!("`{key}` is not a regular expression: {said}"),
            hint: Some("in single quotes, YAML leaves backslashes alone".into()),
        });
        return None;
    }
    Some(pattern)
}

fn read_script(fields: &mut Fields<'_>, files: &dyn Files) -> Option<Scorer> {
    let complaints = fields.complaints();
    if !fields.has("script") {
        complaints.add(
            Problem::at(fields.place(), "`script` needs a `script`")
                .hint("write {kind: script, script: \"test -e /srv/done\"}"),
        );
    }
    let script = fields.take("script").and_then(|node| text_or_file(node, "script", complaints, files));
    let timeout = fields.parsed::<Millis>("timeout").map_or(SCRIPT_TIMEOUT, |timeout| timeout.value.0);
    script.map(|script| Scorer::Script { script, timeout })
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "begin" => Ok(Self::Begin),
            "end" => Ok(Self::End),
            "any" => Ok(Self::Any),
            "exact" => Ok(Self::Exact),
            _ => Err(format!("`{text}` is not a location: use begin, end, any, exact")),
        }
    }
}
