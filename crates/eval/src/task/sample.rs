//! One sample.

use std::collections::BTreeMap;

use log::message::{ChatMessage, Reply, Said};
use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, text};

use super::amounts::{file_name, object, text_or_file};
use super::columns::refuse_sandbox;
use super::files::{Files, MAX_INCLUDED_BYTES, included};
use super::{FileContent, Input, Sample, SampleId, content, mock, own};

/// Its keys.
pub(super) const KEYS: &[&str] =
    &["id", "input", "target", "choices", "files", "setup", "metadata", "mock", "overrides"];
/// The longest name of a sample: it becomes a file's name in the log.
const MAX_ID_CHARACTERS: usize = 200;

/// Reads a sample; `number` names it if nothing else does.
pub(super) fn read(node: Node, number: i64, complaints: &Complaints, files: &dyn Files) -> Option<Sample> {
    let mut fields = Fields::open(node, "a sample", KEYS, complaints)?;
    refuse_sandbox(&mut fields);
    let place = fields.place();
    let stated = fields.has("input");
    let input = fields.take("input").and_then(|node| read_input(node, complaints, files));
    if !stated {
        complaints.add(Problem::at(place, "a sample needs an `input`").hint("write {input: What is 2+2?, target: 4}"));
    }
    let id = match fields.take("id") {
        Some(node) => read_id(node, complaints),
        None => Some(SampleId::Number(number)),
    };
    let target = fields.take("target").map(|node| texts(node, "target", complaints)).unwrap_or_default();
    let choices: Vec<String> =
        fields.list("choices").into_iter().filter_map(|node| plain(node, "choices", complaints)).collect();
    let within = fields.take("files").map(|node| read_files(node, complaints, files)).unwrap_or_default();
    let setup = fields.take("setup").and_then(|node| text_or_file(node, "setup", complaints, files));
    let metadata = fields.take("metadata").and_then(|node| object(node, "metadata", complaints)).unwrap_or_default();
    let mock = fields.take("mock").map(|node| mock::read(node, complaints));
    let own = fields.take("overrides").map(|node| own::read(node, complaints)).unwrap_or_default();
    fields.close();
    Some(Sample { id: id?, input: input?, target, choices, files: within, setup, metadata, mock, own })
}

fn read_id(node: Node, complaints: &Complaints) -> Option<SampleId> {
    let said = match node.value {
        Value::Integer(number) => return Some(SampleId::Number(number)),
        Value::Text(text) => {
            let fits = !text.trim().is_empty() && text.chars().count() <= MAX_ID_CHARACTERS;
            if fits && !text.chars().any(char::is_control) {
                return Some(SampleId::Text(text));
            }
            format!("`id` must be 1 to {MAX_ID_CHARACTERS} characters on one line")
        }
        other => format!("`id` must be a text or a whole number, found {}", other.kind()),
    };
    complaints.add(Problem::at(node.place, said));
    None
}

fn read_input(node: Node, complaints: &Complaints, files: &dyn Files) -> Option<Input> {
    let place = node.place;
    match node.value {
        Value::List(items) if items.is_empty() => {
            complaints.add(Problem::at(place, "`input` has no messages"));
            None
        }
        Value::List(items) => {
            let messages: Vec<ChatMessage> =
                items.into_iter().filter_map(|item| read_message(item, complaints, files)).collect();
            Some(Input::Messages(messages))
        }
        value => {
            let text = text(Node { place, value }, "input", complaints)?;
            if text.value.trim().is_empty() {
                complaints.add(Problem::at(place, "`input` is empty"));
                return None;
            }
            Some(Input::Text(text.value))
        }
    }
}

fn read_message(node: Node, complaints: &Complaints, files: &dyn Files) -> Option<ChatMessage> {
    let mut fields = Fields::open(node, "a message", &["role", "content"], complaints)?;
    let place = fields.place();
    for key in ["role", "content"].into_iter().filter(|key| !fields.has(key)) {
        complaints.add(
            Problem::at(place, format!("a message needs a `{key}`")).hint("write {role: user, content: What is 2+2?}"),
        );
    }
    let role = fields.text("role");
    let content = fields.take("content").and_then(|node| content::read(node, complaints, files));
    fields.close();
    let (role, content) = (role?, content?);
    let source = Some("input".to_owned());
    match role.value.as_str() {
        "system" => Some(ChatMessage::System(Said { id: None, content, source })),
        "user" => Some(ChatMessage::User(Said { id: None, content, source })),
        "assistant" => Some(ChatMessage::Assistant(Reply { id: None, content, source, tool_calls: None, model: None })),
        other => {
            complaints.add(Problem {
                place: role.place,
                message: format!("`{other}` is not a role that an input may have"),
                hint: Some("roles are system, user, assistant".into()),
            });
            None
        }
    }
}

/// One text or number, or a list of them.
fn texts(node: Node, key: &str, complaints: &Complaints) -> Vec<String> {
    match node.value {
        Value::List(items) => items.into_iter().filter_map(|item| plain(item, key, complaints)).collect(),
        value => plain(Node { place: node.place, value }, key, complaints).into_iter().collect(),
    }
}

/// A text or a number as text.
fn plain(node: Node, key: &str, complaints: &Complaints) -> Option<String> {
    match node.value {
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => text(node, key, complaints).map(|text| text.value),
    }
}

fn read_files(node: Node, complaints: &Complaints, files: &dyn Files) -> BTreeMap<String, FileContent> {
    let mut read = BTreeMap::new();
    let Value::Map(entries) = node.value else {
        complaints.add(
            Problem::at(node.place, format!("`files` must be a mapping, found {}", node.value.kind()))
                .hint("write {/srv/note.txt: words, /srv/data.bin: {file: data.bin}}"),
        );
        return read;
    };
    for (key, node) in entries {
        let (_, path) = of_service(&key.name);
        if !is_plain_path(path) {
            complaints.add(
                Problem::at(key.place, format!("`{}` is not a file's absolute path inside", key.name))
                    .hint("write it from the root, such as /srv/note.txt, without . and .."),
            );
            continue;
        }
        let content = match node.value {
            Value::Map(_) => file_name(node, complaints).and_then(|(name, place)| {
                included(&name, place, complaints, |path| files.locate(path, MAX_INCLUDED_BYTES)).map(FileContent::Host)
            }),
            _ => text(node, &key.name, complaints).map(|text| FileContent::Text(text.value)),
        };
        read.extend(content.map(|content| (key.name, content)));
    }
    read
}

/// A file's service, where its name says one before a colon as Inspect has it, and its path there.
pub fn of_service(name: &str) -> (Option<&str>, &str) {
    let plain = |service: &str| {
        !service.is_empty()
            && service.chars().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.'))
    };
    match name.split_once(':') {
        Some((service, path)) if plain(service) => (Some(service), path),
        _ => (None, name),
    }
}

fn is_plain_path(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("")
        && parts.all(|part| !matches!(part, "" | "." | ".."))
        && path.len() > 1
        && !path.contains('\0')
}
