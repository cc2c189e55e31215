//! `environment`, `env_file`, and the arguments of a build, which have the same shape.

use std::collections::BTreeMap;
use std::io;

use profile::source::{Node, Value};
use profile::{Located, Place};

use crate::dotenv;
use crate::host::{self, Use};
use crate::reading::Reading;
use crate::section::{self, Section};

/// The most variables of one service.
const MAX_VARIABLES: usize = 4096;

/// Variables of the service: those of `environment` beat those of files, and a later file beats an earlier one.
pub(super) fn read(keys: &mut Section) -> BTreeMap<String, Located<String>> {
    let mut found = keys.take("env_file").map(|node| files(keys.reading, node)).unwrap_or_default();
    if let Some(node) = keys.take("environment") {
        let place = node.place;
        found.extend(entries(keys.reading, node, "environment"));
        if found.len() > MAX_VARIABLES {
            keys.reading.problem(place, format!("more than {MAX_VARIABLES} variables"));
        }
    }
    found
}

/// A mapping `NAME: VALUE`, or a list of `NAME=VALUE`. A bare name takes the value that is outside, if there is one.
pub(super) fn entries(reading: &Reading, node: Node, key: &str) -> BTreeMap<String, Located<String>> {
    let place = node.place;
    let written: Vec<(Place, String, Option<String>)> = match node.value {
        Value::Map(entries) => entries
            .into_iter()
            .filter_map(|(name, node)| match node.value {
                Value::Null => Some((name.place, name.name, None)),
                Value::Bool(value) => Some((name.place, name.name, Some(value.to_string()))),
                Value::Integer(_) | Value::Float(_) => {
                    number(reading, node, key).map(|it| (name.place, name.name, Some(it)))
                }
                _ => section::text(reading, node, key).map(|text| (name.place, name.name, Some(text.value))),
            })
            .collect(),
        Value::List(items) => items
            .into_iter()
            .filter_map(|item| {
                let text = section::text(reading, item, key)?;
                let place = text.place.unwrap_or(place);
                Some(match text.value.split_once('=') {
                    Some((name, value)) => (place, name.to_owned(), Some(value.to_owned())),
                    None => (place, text.value, None),
                })
            })
            .collect(),
        other => {
            reading.problem(place, format!("`{key}` must be a mapping or a list, found {}", other.kind()));
            Vec::new()
        }
    };
    let mut found = BTreeMap::new();
    for (place, name, value) in written {
        if name.is_empty() || name.len() > 256 || name.contains(['=', '\0']) || name.trim() != name {
            let shown: String = name.chars().take(80).collect();
            reading.problem(place, format!("`{key}`: `{shown}` is not the name of a variable"));
        } else if value.as_ref().is_some_and(|value| value.contains('\0')) {
            reading.problem(place, format!("`{key}`: the value of `{name}` has a zero byte in it"));
        } else if let Some(value) = value.or_else(|| reading.variable(&name)) {
            found.insert(name, Located::at(place, value));
        }
    }
    found
}

/// A number as it was written. One that means another text than it looks like is a mistake: Compose makes 83 of `0123`.
fn number(reading: &Reading, node: Node, key: &str) -> Option<String> {
    let place = node.place;
    let text = section::text(reading, node, key)?.value;
    if reading.is_written_as(place, &text) {
        return Some(text);
    }
    reading.problem_with_hint(
        place,
        format!("`{key}`: a number is not the text that it looks like"),
        "put it in quotes",
    );
    None
}

/// A path, a list of paths, or of mappings with `path`, `required` and `format`.
fn files(reading: &Reading, node: Node) -> BTreeMap<String, Located<String>> {
    let items = match node.value {
        Value::List(items) => items,
        _ => vec![node],
    };
    let mut found = BTreeMap::new();
    for item in items {
        let place = item.place;
        let Some((path, required, raw)) = file(reading, item) else { continue };
        let Some(path) = host::path(reading, &path, Use::EnvFile) else { continue };
        let text = match host::read(reading, &path.value) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => continue,
            Err(error) => {
                let what = format!("`env_file: {}`", path.value);
                let hint = Some("write the file, or say `required: false`");
                reading.refuse_with_hint(place, "env_file", what, format_args!("it cannot be read: {error}"), hint);
                continue;
            }
        };
        let lookup = |name: &str| reading.variable(name);
        let parsed = if raw { dotenv::parse_raw(&text, &lookup) } else { dotenv::parse(&text, &lookup) };
        match parsed {
            Ok(variables) => {
                found.extend(variables.into_iter().map(|(name, value)| (name, Located::at(place, value))));
            }
            Err(error) => reading.problem(place, format!("`env_file`: {}, {error}", path.value)),
        }
    }
    found
}

fn file(reading: &Reading, item: Node) -> Option<(Located<String>, bool, bool)> {
    if !matches!(item.value, Value::Map(_)) {
        return section::text(reading, item, "env_file").map(|path| (path, true, false));
    }
    let place = item.place;
    let mut keys = Section::open(reading, item, "an entry of `env_file`", crate::rules::ENV_FILE_KEYS)?;
    let path = keys.text("path");
    let required = keys.truth("required").unwrap_or(true);
    let raw = keys.parsed("format", |text| if text == "raw" { Ok(true) } else { Err("must be raw") });
    keys.finish();
    if path.is_none() {
        reading.problem(place, "an entry of `env_file` has no `path`");
    }
    Some((path?, required, raw.is_some()))
}
