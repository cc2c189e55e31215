//! Which column of a data file is which part of a sample.

use std::collections::BTreeSet;

use bounded::Budget;
use profile::source::{Complaints, Fields, Key, Node, Value, nearest_word, text};
use profile::{Located, Place, Problem};

use super::json;
use super::sample::KEYS;

/// How many names of columns are kept for hints.
const MAX_NAMES: usize = 1_000;
/// The most choices that a cell may list.
const MAX_CHOICES: usize = 1_000;

/// The columns of a data file, by the names that Inspect users know.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// Part of the sample and column, where the task says so.
    stated: Vec<(&'static str, Located<String>)>,
    /// Columns that become metadata.
    metadata: Vec<Located<String>>,
    /// The same, to look up.
    moved: BTreeSet<String>,
    /// Which of all these no record had so far.
    missing: BTreeSet<String>,
    /// Columns that records had, for hints.
    seen: BTreeSet<String>,
}

impl Columns {
    /// Reads `fields:`.
    pub(super) fn read(node: Node, complaints: &Complaints) -> Self {
        let mut columns = Self::default();
        let Some(mut fields) = Fields::open(node, "`fields`", KEYS, complaints) else { return columns };
        refuse_sandbox(&mut fields);
        for key in KEYS {
            match fields.take(key) {
                Some(Node { value: Value::List(items), .. }) if *key == "metadata" => {
                    columns.metadata.extend(items.into_iter().filter_map(|item| text(item, key, complaints)));
                }
                Some(node) => columns.stated.extend(text(node, key, complaints).map(|column| (*key, column))),
                None => {}
            }
        }
        fields.close();
        let stated = columns.stated.iter().map(|(_, column)| column).chain(&columns.metadata);
        columns.moved = columns.metadata.iter().map(|column| column.value.clone()).collect();
        columns.missing = stated.map(|column| column.value.clone()).collect();
        columns
    }

    /// A record as a sample is written in a task. Columns that nobody names are left out.
    pub(super) fn apply(&mut self, node: Node) -> Result<Node, String> {
        let place = node.place;
        let Value::Map(entries) = node.value else {
            return Err(format!("a sample must be a mapping, found {}", node.value.kind()));
        };
        for (key, _) in &entries {
            self.missing.remove(&key.name);
            if self.seen.len() < MAX_NAMES && !self.seen.contains(&key.name) {
                self.seen.insert(key.name.clone());
            }
        }
        // Absent and null are the same in data of others.
        let mut entries: Vec<_> = entries.into_iter().filter(|(_, node)| node.value != Value::Null).collect();
        let mut sample = Vec::new();
        let metadata: Vec<(Key, Node)> =
            entries.iter().filter(|(key, _)| self.moved.contains(&key.name)).cloned().collect();
        if !metadata.is_empty() {
            sample.push((key("metadata", place), Node { place, value: Value::Map(metadata) }));
        }
        // Kept, so that it is refused: elsewhere it would mean a sandbox of the sample's own.
        for part in KEYS.iter().chain(&["sandbox"]) {
            // Data is of others: that it may choose models and limits must be said.
            if *part == "overrides" && !self.stated.iter().any(|(name, _)| name == part) {
                continue;
            }
            if *part == "metadata" && !self.metadata.is_empty() {
                continue;
            }
            let column = self.stated.iter().find(|(name, _)| name == part).map_or(*part, |(_, column)| &column.value);
            let Some(index) = entries.iter().position(|(key, _)| key.name == column) else { continue };
            let value = structured(part, entries.swap_remove(index).1)?;
            sample.push((key(part, place), value));
        }
        Ok(Node { place, value: Value::Map(sample) })
    }

    /// Complains about stated columns that no record had.
    pub(super) fn finish(self, file: &str, place: Place, complaints: &Complaints) {
        let stated = self.stated.into_iter().map(|(_, column)| column);
        for column in stated.chain(self.metadata).filter(|column| self.missing.contains(&column.value)) {
            let problem =
                Problem::at(column.place.unwrap_or(place), format!("`{file}` has no column `{}`", column.value));
            let known = || self.seen.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
            complaints.add(match nearest_word(&column.value, self.seen.iter().map(String::as_str)) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(format!("its columns are {}", known())),
            });
        }
    }
}

fn key(name: &str, place: Place) -> Key {
    Key { place, name: name.to_owned() }
}

/// A cell that holds a structure holds it as JSON; choices may also be separated by commas.
fn structured(part: &str, node: Node) -> Result<Node, String> {
    let place = node.place;
    let Value::Text(cell) = &node.value else { return Ok(node) };
    match part {
        "choices" if !cell.trim_start().starts_with('[') => {
            if cell.bytes().filter(|byte| *byte == b',').count() >= MAX_CHOICES {
                return Err(format!("`choices` lists more than {MAX_CHOICES}"));
            }
            let choices = cell.split(',').map(|choice| Node { place, value: Value::Text(choice.trim().to_owned()) });
            Ok(Node { place, value: Value::List(choices.collect()) })
        }
        "choices" | "files" | "metadata" | "mock" | "overrides" => {
            let budget = Budget::for_text(cell.as_bytes());
            json::parse(cell.as_bytes(), place, &budget).map_err(|error| {
                format!("`{part}` holds no JSON, column {}: write a mapping or a list", error.column())
            })
        }
        _ => Ok(node),
    }
}

/// Complains about `sandbox`, which Inspect's samples may have.
pub(super) fn refuse_sandbox(fields: &mut Fields<'_>) {
    if let Some(node) = fields.take("sandbox") {
        fields.complaints().add(
            Problem::at(node.place, "a sample cannot have a `sandbox` of its own")
                .hint("one profile holds for the whole task; make a second task for another"),
        );
    }
}
