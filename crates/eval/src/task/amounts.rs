//! Small values that several parts of a task file hold.

use profile::source::{Complaints, Fields, Node, Value};
use profile::{Place, Problem};
use serde_json::{Map, Number};

use super::files::{Files, MAX_INCLUDED_BYTES, included_text};

/// A whole number from 1 to `most`.
pub(super) fn count(fields: &mut Fields<'_>, key: &str, most: u32) -> Option<u32> {
    let node = fields.take(key)?;
    count_of(&node, key, most, fields.complaints())
}

/// A node as a whole number from 1 to `most`.
pub(super) fn count_of(node: &Node, key: &str, most: u32, complaints: &Complaints) -> Option<u32> {
    let count = match node.value {
        Value::Integer(number) => u32::try_from(number).ok().filter(|count| (1..=most).contains(count)),
        _ => None,
    };
    if count.is_none() {
        let found = match &node.value {
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => other.kind().to_owned(),
        };
        complaints
            .add(Problem::at(node.place, format!("`{key}` must be a whole number from 1 to {most}, found {found}")));
    }
    count
}

/// A text that says something.
pub(super) fn words(fields: &mut Fields<'_>, key: &str) -> Option<String> {
    let text = fields.text(key)?;
    if !text.value.trim().is_empty() {
        return Some(text.value);
    }
    fields.complaints().add(Problem {
        place: text.place,
        message: format!("`{key}` is empty"),
        hint: Some("fill it in, or remove the key".into()),
    });
    None
}

/// A text, or what a file beside the task holds: `{file: relative}`.
pub(super) fn text_or_file(node: Node, key: &str, complaints: &Complaints, files: &dyn Files) -> Option<String> {
    match node.value {
        Value::Map(_) => {
            let (name, place) = file_name(node, complaints)?;
            included_text(&name, place, MAX_INCLUDED_BYTES, complaints, files)
        }
        _ => profile::source::text(node, key, complaints).map(|text| text.value),
    }
}

/// The name in `{file: relative}`.
pub(super) fn file_name(node: Node, complaints: &Complaints) -> Option<(String, Place)> {
    let mut fields = Fields::open(node, "a file beside the task", &["file"], complaints)?;
    let place = fields.place();
    let stated = fields.has("file");
    let name = fields.text("file");
    fields.close();
    if !stated {
        complaints.add(Problem::at(place, "a file beside the task needs a `file`").hint("write {file: notes.txt}"));
    }
    name.map(|name| (name.value, name.place.unwrap_or(place)))
}

/// A mapping as JSON.
pub(super) fn object(node: Node, key: &str, complaints: &Complaints) -> Option<Map<String, serde_json::Value>> {
    let Value::Map(entries) = node.value else {
        complaints.add(Problem::at(node.place, format!("`{key}` must be a mapping, found {}", node.value.kind())));
        return None;
    };
    entries.into_iter().map(|(name, value)| Some((name.name, json(value, complaints)?))).collect()
}

/// Any value as JSON.
pub(super) fn json(node: Node, complaints: &Complaints) -> Option<serde_json::Value> {
    Some(match node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => value.into(),
        Value::Integer(value) => value.into(),
        Value::Float(value) => {
            let number = Number::from_f64(value);
            if number.is_none() {
                complaints.add(Problem::at(node.place, "logs are JSON, which has no such number"));
            }
            serde_json::Value::Number(number?)
        }
        Value::Text(value) => value.into(),
        Value::List(items) => items.into_iter().map(|item| json(item, complaints)).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(_) => object(node, "a value", complaints)?.into(),
    })
}
