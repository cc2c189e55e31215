//! `model_roles:`: who answers beside the agent, such as graders.

use std::collections::BTreeMap;

use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, text};

use super::kinds::one_or_many;
use super::{MockReply, Role, generate, mock};

/// The most models that may share a role.
const MOST_MODELS: usize = 16;
/// The most roles, and the longest name of one.
const MOST_ROLES: usize = 16;
const MOST_CHARACTERS: usize = 32;
/// The role that `model:` is for.
pub(super) const AGENT: &str = "agent";

/// Whether a role can have this name: it is a key in logs.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    (1..=MOST_CHARACTERS).contains(&name.len()) && name.chars().all(plain) && name.starts_with(char::is_alphabetic)
}

/// Reads the mapping: a model, several, or `{model, generate}` for each role.
pub(super) fn read(node: Node, complaints: &Complaints) -> BTreeMap<String, Role> {
    let mut roles = BTreeMap::new();
    for (name, node) in entries(node, "model_roles", "model_roles: {grader: openai/gpt-5}", complaints) {
        roles.extend(read_one(node, &name, complaints).map(|role| (name, role)));
    }
    roles
}

/// Reads `mock_roles:`: what `mock/scripted` says in each role.
pub(super) fn read_mocks(node: Node, complaints: &Complaints) -> BTreeMap<String, Vec<MockReply>> {
    let entries = entries(node, "mock_roles", "mock_roles: {grader: [{text: \"GRADE: C\"}]}", complaints);
    entries.into_iter().map(|(name, node)| (name, mock::read(node, complaints))).collect()
}

fn entries(node: Node, key: &str, example: &str, complaints: &Complaints) -> Vec<(String, Node)> {
    let Value::Map(entries) = node.value else {
        let message = format!("`{key}` must be a mapping, found {}", node.value.kind());
        complaints.add(Problem::at(node.place, message).hint(format!("write {example}")));
        return Vec::new();
    };
    if entries.len() > MOST_ROLES {
        complaints.add(Problem::at(node.place, format!("`{key}` has more than {MOST_ROLES} roles")));
        return Vec::new();
    }
    let mut read = Vec::new();
    for (role, node) in entries {
        let hint = if role.name == AGENT {
            "the agent's model is `model`, its replies are `mock`"
        } else {
            "a role is a word of small letters, such as grader"
        };
        if role.name == AGENT || !is_name(&role.name) {
            complaints.add(Problem::at(role.place, format!("`{key}` cannot have the role `{}`", role.name)).hint(hint));
        } else {
            read.push((role.name, node));
        }
    }
    read
}

fn read_one(node: Node, name: &str, complaints: &Complaints) -> Option<Role> {
    let place = node.place;
    let Value::Map(_) = node.value else {
        return Some(Role { models: models(node, name, complaints)?, ..Role::default() });
    };
    let mut fields = Fields::open(node, "a role", &["model", "generate"], complaints)?;
    if !fields.has("model") {
        complaints.add(Problem::at(place, format!("the role `{name}` needs a `model`")));
    }
    let models = fields.take("model").and_then(|node| models(node, name, complaints));
    let generate = fields.take("generate").map(|node| generate::read(node, complaints)).unwrap_or_default();
    fields.close();
    Some(Role { models: models?, generate })
}

fn models(node: Node, name: &str, complaints: &Complaints) -> Option<Vec<String>> {
    let place = node.place;
    let names: Vec<String> = one_or_many(node)
        .into_iter()
        .filter_map(|node| text(node, "model", complaints))
        .map(|model| model.value.trim().to_owned())
        .filter(|model| !model.is_empty())
        .collect();
    if (1..=MOST_MODELS).contains(&names.len()) {
        return Some(names);
    }
    complaints.add(
        Problem::at(place, format!("the role `{name}` needs 1 to {MOST_MODELS} models, found {}", names.len()))
            .hint("write a model's name, or a list of names"),
    );
    None
}
