//! One mapping of the file: its values are taken out one by one, and what is left is ignored, refused or unknown by its rules.

use std::fmt::Display;
use std::str::FromStr;

use profile::source::{Key, Node, Value, nearest_word};
use profile::{Located, Place, Problem};

use crate::reading::Reading;
use crate::rules::{Rule, Treatment};

/// The most entries of any list or mapping: comparing them with one another must end.
const MAX_ENTRIES: usize = 4096;

/// A mapping that is being read.
pub(crate) struct Section<'r, 'a> {
    pub(crate) reading: &'r Reading<'a>,
    what: &'static str,
    rules: &'static [Rule],
    pub(crate) place: Place,
    entries: Vec<(Key, Node)>,
}

impl<'r, 'a> Section<'r, 'a> {
    /// Opens a mapping; `what` names it in messages.
    pub(crate) fn open(
        reading: &'r Reading<'a>,
        node: Node,
        what: &'static str,
        rules: &'static [Rule],
    ) -> Option<Self> {
        let place = node.place;
        let entries = entries(reading, node, what)?;
        Some(Self { reading, what, rules, place, entries })
    }

    /// Whether a key is there and was not taken yet.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(found, _)| found.name == key)
    }

    /// Takes a value; a key without one is as good as absent, as in Compose.
    pub(crate) fn take(&mut self, key: &str) -> Option<Node> {
        self.take_with_key(key).map(|(_, node)| node)
    }

    /// Takes a value and the place of its key: what is refused or left out is best shown by its name.
    pub(crate) fn take_with_key(&mut self, key: &str) -> Option<(Place, Node)> {
        let index = self.entries.iter().position(|(found, _)| found.name == key)?;
        let (key, node) = self.entries.remove(index);
        (node.value != Value::Null).then_some((key.place, node))
    }

    /// Takes a text; a number is one too.
    pub(crate) fn text(&mut self, key: &str) -> Option<Located<String>> {
        let node = self.take(key)?;
        text(self.reading, node, key)
    }

    /// Takes a text that `parse` understands.
    pub(crate) fn parsed<T, E: Display>(
        &mut self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<Located<T>> {
        let written = self.text(key)?;
        parsed(self.reading, &written, key, parse)
    }

    /// Takes a truth value.
    pub(crate) fn truth(&mut self, key: &str) -> Option<bool> {
        let node = self.take(key)?;
        truth(self.reading, &node, key)
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, key: &str) -> Vec<Node> {
        let Some(node) = self.take(key) else { return Vec::new() };
        list(self.reading, node, key)
    }

    /// Deals with every key that nobody took.
    pub(crate) fn finish(self) {
        for (key, node) in &self.entries {
            let name = key.name.as_str();
            match self.rules.iter().find(|rule| rule.key == name) {
                Some(_) if node.value == Value::Null => {}
                Some(Rule { treatment: Treatment::Refused, why, .. }) if !is_off(&node.value) => {
                    self.reading.refuse(key.place, name, format_args!("`{name}`"), why);
                }
                Some(Rule { treatment: Treatment::Ignored, why, .. }) => self.reading.ignore(key.place, name, *why),
                Some(_) => {}
                None if name.starts_with("x-") => {}
                None => self.reading.complain(self.unknown(key)),
            }
        }
    }

    fn unknown(&self, key: &Key) -> Problem {
        let shown: String = key.name.chars().take(80).collect();
        let problem = Problem::at(key.place, format!("unknown key `{shown}` in {}", self.what));
        match nearest_word(&key.name, self.rules.iter().map(|rule| rule.key)) {
            Some(known) => problem.hint(format!("did you mean `{known}`?")),
            None if self.rules.len() > 12 => problem.hint("notes of your own have names that begin with x-"),
            None => {
                let known: Vec<&str> = self.rules.iter().map(|rule| rule.key).collect();
                problem.hint(format!("known keys are {}", known.join(", ")))
            }
        }
    }
}

/// Whether a value asks for nothing: `false`, an empty list or mapping.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Text(text) => text.is_empty() || truth_of(text) == Some(false),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Bool(true) | Value::Integer(_) | Value::Float(_) => false,
    }
}

/// The entries of a mapping.
pub(crate) fn entries(reading: &Reading, node: Node, what: &str) -> Option<Vec<(Key, Node)>> {
    match node.value {
        Value::Map(entries) if entries.len() <= MAX_ENTRIES => Some(entries),
        Value::Null => Some(Vec::new()),
        Value::Map(_) => {
            reading.problem(node.place, format!("{what} has more than {MAX_ENTRIES} entries"));
            None
        }
        other => {
            reading.problem(node.place, format!("{what} must be a mapping, found {}", other.kind()));
            None
        }
    }
}

/// The items of a list.
pub(crate) fn list(reading: &Reading, node: Node, key: &str) -> Vec<Node> {
    match node.value {
        Value::List(items) if items.len() <= MAX_ENTRIES => items,
        Value::List(_) => {
            reading.problem(node.place, format!("`{key}` has more than {MAX_ENTRIES} entries"));
            Vec::new()
        }
        other => {
            reading.problem_with_hint(
                node.place,
                format!("`{key}` must be a list, found {}", other.kind()),
                format!("write {key}: [first, second]"),
            );
            Vec::new()
        }
    }
}

/// A text or number as text.
pub(crate) fn text(reading: &Reading, node: Node, key: &str) -> Option<Located<String>> {
    let place = node.place;
    match node.value {
        Value::Text(text) => Some(Located::at(place, text)),
        Value::Integer(number) => Some(Located::at(place, number.to_string())),
        Value::Float(number) => Some(Located::at(place, number.to_string())),
        other => {
            let problem = Problem::at(place, format!("`{key}` must be a text, found {}", other.kind()));
            reading.complain(if matches!(other, Value::Bool(_)) { problem.hint("put it in quotes") } else { problem });
            None
        }
    }
}

/// A text that `parse` understands.
pub(crate) fn parsed<T, E: Display>(
    reading: &Reading,
    written: &Located<String>,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Option<Located<T>> {
    match parse(&written.value) {
        Ok(value) => Some(Located { value, place: written.place }),
        Err(error) => {
            reading.complain(Problem { place: written.place, message: format!("`{key}`: {error}"), hint: None });
            None
        }
    }
}

/// A key as a name of some kind.
pub(crate) fn name<T: FromStr<Err: Display>>(reading: &Reading, place: Place, text: &str, what: &str) -> Option<T> {
    match text.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            reading.problem(place, format!("the name of {what}: {error}"));
            None
        }
    }
}

fn truth_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// A truth value; a text can be one, because variables make texts.
pub(crate) fn truth(reading: &Reading, node: &Node, key: &str) -> Option<bool> {
    let found = match &node.value {
        Value::Bool(value) => Some(*value),
        Value::Text(text) => truth_of(text),
        _ => None,
    };
    if found.is_none() {
        reading.problem(node.place, format!("`{key}` must be true or false, found {}", node.value.kind()));
    }
    found
}
