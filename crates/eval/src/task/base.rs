//! `profile: FILE`: a task that takes its settings from a profile document beside it.

use profile::source::{Complaints, Key, Node, Value};
use profile::{Document, MAX_DOCUMENT_BYTES, Place, Problem, Profile};

use super::files::{Files, included_text};

/// What is read on with when the document cannot be had, so that all problems show at once.
const ANY_PROFILE: &str = "T2.H1.N2";

/// Puts the document's entries beside the task's. They stand where the task names the document.
pub(super) fn include(entries: &mut Vec<(Key, Node)>, complaints: &Complaints, files: &dyn Files) {
    let Some(named) = entries.iter_mut().find(|(key, _)| key.name == "profile") else { return };
    let place = named.1.place;
    let Value::Text(name) = &named.1.value else { return };
    if name.parse::<Profile>().is_ok() || !is_file(name) {
        return;
    }
    let name = name.clone();
    named.1.value = Value::Text(ANY_PROFILE.to_owned());
    let Some(stated) = document(&name, place, complaints, files) else { return };
    for (key, mut node) in stated {
        move_to(place, &mut node);
        merge(entries, Key { place, name: key.name }, node, &name, complaints);
    }
}

fn is_file(name: &str) -> bool {
    let extension = std::path::Path::new(name).extension();
    extension.is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

fn document(name: &str, place: Place, complaints: &Complaints, files: &dyn Files) -> Option<Vec<(Key, Node)>> {
    let most = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX);
    let text = included_text(name, place, most, complaints, files)?;
    // Read for itself first: then its problems have places in its own file.
    if let Err(problems) = Document::parse(name, &text) {
        for problem in problems.problems {
            let at = problem.place.map(|place| format!(":{place}")).unwrap_or_default();
            complaints.add(Problem {
                place: Some(place),
                message: format!("in {name}{at}: {}", problem.message),
                hint: problem.hint,
            });
        }
        return None;
    }
    match profile::source::parse(&text).map(|node| node.value) {
        Ok(Value::Map(entries)) => Some(entries),
        Ok(_) | Err(_) => None,
    }
}

fn merge(entries: &mut Vec<(Key, Node)>, key: Key, node: Node, file: &str, complaints: &Complaints) {
    let Some((stated, own)) = entries.iter_mut().find(|(stated, _)| stated.name == key.name) else {
        entries.push((key, node));
        return;
    };
    match (&mut own.value, node.value) {
        // The one place where it is named; it never states a profile beside the document's.
        (own, value) if key.name == "profile" => *own = value,
        // A task's own limits stand in the same mapping.
        (Value::Map(own), Value::Map(more)) if key.name == "limits" => {
            for (key, node) in more {
                match own.iter().find(|(stated, _)| stated.name == key.name) {
                    Some((stated, _)) => complaints.add(twice(&stated.name, stated.place, file)),
                    None => own.push((key, node)),
                }
            }
        }
        _ => complaints.add(twice(&stated.name, stated.place, file)),
    }
}

fn twice(key: &str, place: Place, file: &str) -> Problem {
    Problem::at(place, format!("`{key}` is stated in `{file}` too")).hint("state it in one of them")
}

fn move_to(place: Place, node: &mut Node) {
    node.place = place;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| move_to(place, item)),
        Value::Map(entries) => {
            for (key, node) in entries {
                key.place = place;
                move_to(place, node);
            }
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) => {}
    }
}
