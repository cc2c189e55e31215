//! Reads typed values out of a located tree and collects *every* problem on the way.
//!
//! A reader never stops at the first mistake: a user who fixes one line should not find the next one by running again.

use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;

use crate::problem::{Located, Place, Problem, nearest_word};
use crate::yaml::{Node, Value};

/// Where problems go while a document is read.
#[derive(Debug, Default)]
pub struct Complaints(RefCell<Vec<Problem>>);

impl Complaints {
    /// Notes a problem.
    pub fn add(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// Whether there are none so far.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All of them in the order of the text.
    pub fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.0.into_inner();
        problems.sort_by_key(|problem| problem.place);
        problems
    }
}

/// The fields of one mapping, taken out one by one; what is left in the end is unknown.
#[derive(Debug)]
pub struct Fields<'a> {
    complaints: &'a Complaints,
    what: &'static str,
    place: Place,
    known: &'static [&'static str],
    entries: Vec<(String, Place, Node)>,
}

impl<'a> Fields<'a> {
    /// Opens a mapping. `what` names it in messages; `known` are its keys.
    pub fn open(
        node: Node,
        what: &'static str,
        known: &'static [&'static str],
        complaints: &'a Complaints,
    ) -> Option<Self> {
        let place = node.place;
        match node.value {
            Value::Map(entries) => {
                let entries = entries.into_iter().map(|(key, node)| (key.name, key.place, node)).collect();
                Some(Self { complaints, what, place, known, entries })
            }
            other => {
                complaints.add(
                    Problem::at(place, format!("{what} must be a mapping, found {}", other.kind()))
                        .hint(format!("its keys are {}", known.join(", "))),
                );
                None
            }
        }
    }

    /// Where problems with it go.
    pub fn complaints(&self) -> &'a Complaints {
        self.complaints
    }

    /// What it is called in messages.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Where the mapping begins.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether `key` is there and was not taken yet.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, ..)| name == key)
    }

    /// Where the value of `key` stands, if it is there.
    pub fn place_of(&self, key: &str) -> Option<Place> {
        self.entries.iter().find(|(name, ..)| name == key).map(|(_, _, node)| node.place)
    }

    /// The value of `key`, if it is there and was not taken yet.
    pub fn node(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(name, ..)| name == key).map(|(_, _, node)| node)
    }

    /// Takes the value of `key`. A key without a value is an error: `tools:` left empty must not mean "the default set".
    pub fn take(&mut self, key: &str) -> Option<Node> {
        let index = self.entries.iter().position(|(name, ..)| name == key)?;
        let (_, _, node) = self.entries.swap_remove(index);
        if node.value == Value::Null {
            self.complaints.add(
                Problem::at(node.place, format!("`{key}` has no value"))
                    .hint("give it one, [] for an empty list, or remove the key"),
            );
            return None;
        }
        Some(node)
    }

    /// Takes a text.
    pub fn text(&mut self, key: &str) -> Option<Located<String>> {
        let node = self.take(key)?;
        text(node, key, self.complaints)
    }

    /// Takes a text or number that parses as `T`.
    pub fn parsed<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<Located<T>> {
        let node = self.take(key)?;
        parsed(node, key, self.complaints, |_| None)
    }

    /// Takes a truth value.
    pub fn truth(&mut self, key: &str) -> Option<bool> {
        let node = self.take(key)?;
        match node.value {
            Value::Bool(value) => Some(value),
            other => {
                self.complaints
                    .add(Problem::at(node.place, format!("`{key}` must be true or false, found {}", other.kind())));
                None
            }
        }
    }

    /// Takes a list; a lone value is not one.
    pub fn list(&mut self, key: &str) -> Vec<Node> {
        let Some(node) = self.take(key) else { return Vec::new() };
        match node.value {
            Value::List(items) => items,
            other => {
                self.complaints.add(
                    Problem::at(node.place, format!("`{key}` must be a list, found {}", other.kind()))
                        .hint(format!("write {key}: [first, second]")),
                );
                Vec::new()
            }
        }
    }

    /// Complains about every key that nobody took.
    pub fn close(self) {
        for (name, place, _) in self.entries {
            let problem = Problem::at(place, format!("unknown key `{name}` in {}", self.what));
            self.complaints.add(match nearest_word(&name, self.known.iter().copied()) {
                Some(known) => problem.hint(format!("did you mean `{known}`?")),
                None => problem.hint(format!("known keys are {}", self.known.join(", "))),
            });
        }
    }
}

/// A node as text.
pub fn text(node: Node, key: &str, complaints: &Complaints) -> Option<Located<String>> {
    match node.value {
        Value::Text(value) => Some(Located::at(node.place, value)),
        other => {
            let problem = Problem::at(node.place, format!("`{key}` must be a text, found {}", other.kind()));
            complaints.add(match other {
                Value::Bool(_) | Value::Integer(_) | Value::Float(_) => problem.hint("put it in quotes"),
                _ => problem,
            });
            None
        }
    }
}

/// A node as text or number that parses as `T`; `hint` may explain a failure.
pub fn parsed<T: FromStr<Err: Display>>(
    node: Node,
    key: &str,
    complaints: &Complaints,
    hint: impl Fn(&T::Err) -> Option<String>,
) -> Option<Located<T>> {
    let written = match node.value {
        Value::Text(value) => value,
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        other => {
            complaints.add(Problem::at(node.place, format!("`{key}` cannot be {}", other.kind())));
            return None;
        }
    };
    match written.parse() {
        Ok(value) => Some(Located::at(node.place, value)),
        Err(error) => {
            let hint = hint(&error);
            complaints.add(Problem { place: Some(node.place), message: format!("`{key}`: {error}"), hint });
            None
        }
    }
}
