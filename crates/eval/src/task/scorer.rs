//! `scorer:`, one or several, and `epochs:`.

use std::str::FromStr;

use profile::source::{Complaints, Fields, Node, Value, parsed};
use profile::{Located, Millis, Problem};

use super::amounts::{count, count_of, text_or_file, words};
use super::files::Files;
use super::kinds::{self, Kind};
use super::{Epochs, Location, Reducer, Scorer};

const KINDS: &[Kind] = &[
    ("exact", &["kind"]),
    ("includes", &["kind", "ignore_case"]),
    ("match", &["kind", "location", "ignore_case"]),
    ("pattern", &["kind", "pattern", "ignore_case"]),
    ("choice", &["kind"]),
    ("script", &["kind", "script", "timeout"]),
];
/// How long a script may judge when nobody says, in milliseconds.
const SCRIPT_TIMEOUT: u64 = 60_000;
/// The most epochs that a task may have.
pub(super) const MOST_EPOCHS: u32 = 10_000;

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
            Some(Scorer::Match { location, ignore_case: ignore_case(&mut fields) })
        }
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
    let pattern = words(fields, "pattern")?;
    if let Err(error) = regex::Regex::new(&pattern) {
        // The last line says what is wrong; those before draw the pattern.
        let said = error.to_string();
        let said = said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        fields.complaints().add(Problem {
            place,
            message: format!("`pattern` is not a regular expression: {said}"),
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

impl FromStr for Reducer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "mean" => Ok(Self::Mean),
            "mode" => Ok(Self::Mode),
            "max" => Ok(Self::Max),
            _ => Err(format!("`{text}` is not a reducer: use mean, mode, max")),
        }
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self { count: 1, reducers: vec![Reducer::Mean] }
    }
}

impl Epochs {
    /// Reads `epochs:`, a number or `{count, reducer}`.
    pub(super) fn read(node: Node, complaints: &Complaints) -> Self {
        let mut epochs = Self::default();
        if !matches!(node.value, Value::Map(_)) {
            epochs.count = count_of(&node, "epochs", MOST_EPOCHS, complaints).unwrap_or(1);
            return epochs;
        }
        let Some(mut fields) = Fields::open(node, "`epochs`", &["count", "reducer"], complaints) else { return epochs };
        if !fields.has("count") {
            complaints
                .add(Problem::at(fields.place(), "`epochs` needs a `count`").hint("write {count: 3, reducer: mean}"));
        }
        epochs.count = count(&mut fields, "count", MOST_EPOCHS).unwrap_or(1);
        if let Some(node) = fields.take("reducer") {
            let place = node.place;
            let nodes = kinds::one_or_many(node);
            if nodes.is_empty() {
                complaints.add(Problem::at(place, "`reducer` is empty").hint("write mean, mode or max"));
            }
            let reducers =
                nodes.into_iter().filter_map(|node| parsed::<Reducer>(node, "reducer", complaints, |_| None));
            epochs.reducers = reducers.map(|reducer| reducer.value).collect();
        }
        fields.close();
        epochs
    }
}
