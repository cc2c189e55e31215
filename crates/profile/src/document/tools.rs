//! The `tools:` and `environment:` of a document.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use secrecy::SecretString;

use super::search::{self, SearchProvider};
use crate::affordance::{Affordance, Kind, Reach, Runs, Sensitivity};
use crate::catalogue::{WEB_SEARCH, standard_tool, standard_tools};
use crate::level::Tooling;
use crate::pattern::HostPattern;
use crate::problem::{Located, Place, Problem, nearest_word};
use crate::reader::{Complaints, Fields, parsed, text};
use crate::yaml::{Node, Value};

const TOOL_KEYS: &[&str] = &["name", "runs", "reach", "sensitive", "needs", "provider", "endpoint", "results", "key"];

/// Reads one entry of `tools:`: a standard tool's name, or a mapping that declares or refines one.
pub(super) fn read_tool(
    node: Node,
    search: &mut Option<SearchProvider>,
    complaints: &Complaints,
) -> Option<Located<Affordance>> {
    let place = node.place;
    let affordance = if let Value::Map(_) = node.value {
        declared(node, search, complaints)?
    } else {
        let name = text(node, "tools", complaints)?.value;
        let Some(tool) = standard_tool(&name) else {
            complaints.add(unknown_tool(place, &name));
            return None;
        };
        tool
    };
    if affordance.name == WEB_SEARCH && affordance.reach == Reach::Nothing {
        complaints.add(
            Problem::at(place, "`web_search` needs a search `provider`")
                .hint("write {name: web_search, provider: tavily}, or google, brave or json"),
        );
        return None;
    }
    Some(Located::at(place, affordance))
}

fn unknown_tool(place: Place, name: &str) -> Problem {
    let known: Vec<String> = standard_tools().map(|tool| tool.name).collect();
    let problem = Problem::at(place, format!("`{name}` is not a standard tool"));
    match nearest_word(name, known.iter().map(String::as_str)) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint("declare your own as {name, runs: sandbox|host|provider, reach: [names], needs: T0|T1}"),
    }
}

fn declared(node: Node, search: &mut Option<SearchProvider>, complaints: &Complaints) -> Option<Affordance> {
    let mut fields = Fields::open(node, "a tool", TOOL_KEYS, complaints)?;
    let place = fields.place();
    let name = fields.text("name");
    let runs = fields.parsed::<Runs>("runs").map(|runs| runs.value);
    let reach = fields.take("reach").and_then(|node| read_reach(node, complaints));
    let sensitive = fields.truth("sensitive");
    let needs = fields.parsed::<Tooling>("needs");
    let speaks_of_provider = search::KEYS.iter().any(|key| fields.has(key));
    let provider = search::read(&mut fields);
    fields.close();
    if speaks_of_provider && name.as_ref().is_some_and(|name| name.value != WEB_SEARCH) {
        complaints.add(Problem::at(place, format!("only `{WEB_SEARCH}` has a search provider")));
    }
    if speaks_of_provider && provider.is_none() {
        return None;
    }
    let Some(name) = name else {
        complaints.add(Problem::at(place, "a tool needs a `name`"));
        return None;
    };
    if !is_identifier(&name.value) {
        complaints.add(
            Problem::at(place, format!("`{}` cannot be a tool's name", name.value))
                .hint("use letters, digits, _ and -"),
        );
        return None;
    }
    if let Some(needs) = needs.as_ref().filter(|needs| needs.value == Tooling::T2) {
        complaints.add(
            Problem { place: needs.place, message: "T2 has no tools, so none can need it".into(), hint: None }
                .hint("write needs: T0 or T1"),
        );
        return None;
    }
    // `Bash` beside `bash` would read like the one and be judged like the other.
    if let Some(standard) =
        standard_tools().find(|tool| tool.name != name.value && tool.name.eq_ignore_ascii_case(&name.value))
    {
        complaints.add(
            Problem::at(place, format!("`{}` looks like the standard tool `{}`", name.value, standard.name))
                .hint("give your own tool another name"),
        );
        return None;
    }
    if let Some(tool) = standard_tool(&name.value) {
        // What a standard tool is, is ours to say; a document may only state its reach or make it sensitive.
        if runs.is_some() || needs.is_some() || sensitive == Some(false) {
            complaints.add(
                Problem::at(
                    place,
                    format!("`{}` is a standard tool: only `reach` and `sensitive: true` may be stated", tool.name),
                )
                .hint("give your own tool another name"),
            );
            return None;
        }
        let sensitivity = if sensitive == Some(true) { Sensitivity::Sensitive } else { tool.sensitivity };
        let reach = reach_of(&tool, reach, provider.as_ref());
        let reach = reach.map_err(|message| complaints.add(Problem::at(place, message))).ok()?;
        *search = provider.or(search.take());
        return Some(Affordance { reach, sensitivity, ..tool });
    }
    let Some(runs) = runs else {
        complaints.add(
            Problem::at(place, format!("the tool `{}` must say where it runs", name.value))
                .hint("add runs: sandbox, host or provider"),
        );
        return None;
    };
    if runs != Runs::Sandbox && matches!(reach, Some(Reach::Sandbox | Reach::Web)) {
        // The sandbox's rules bind only what runs in the sandbox.
        complaints.add(
            Problem::at(
                place,
                format!("the tool `{}` runs outside the sandbox, so its reach must be named", name.value),
            )
            .hint("list the names that it reaches, or `*`"),
        );
        return None;
    }
    Some(Affordance {
        name: name.value,
        kind: Kind::Tool,
        runs,
        // Unstated is not harmless: what is not said counts as the widest.
        reach: reach.unwrap_or(if runs == Runs::Sandbox { Reach::Sandbox } else { Reach::Anything }),
        sensitivity: if sensitive == Some(false) { Sensitivity::Plain } else { Sensitivity::Sensitive },
        needs: needs.map_or(Tooling::T0, |needs| needs.value),
    })
}

/// The reach of a standard tool, as a document may state it: only that of a search, which is its provider's.
fn reach_of(tool: &Affordance, stated: Option<Reach>, provider: Option<&SearchProvider>) -> Result<Reach, String> {
    let own = provider.map(SearchProvider::reach);
    match (stated, own) {
        (None, None) => Ok(tool.reach.clone()),
        (None, Some(own)) => Ok(own),
        (Some(_), _) if tool.name != WEB_SEARCH => {
            Err(format!("the reach of `{}` is fixed: {}", tool.name, tool.reach))
        }
        (Some(stated), Some(own)) if stated == own => Ok(own),
        (Some(_), Some(own)) => Err(format!("the reach of `{}` is its provider's: {own}", tool.name)),
        (Some(stated @ Reach::Names(_)), None) => Ok(stated),
        (Some(_), None) => Err("the reach of `web_search` must be the names of its search provider".into()),
    }
}

fn read_reach(node: Node, complaints: &Complaints) -> Option<Reach> {
    let place = node.place;
    match node.value {
        Value::Text(word) if word == "*" => Some(Reach::Anything),
        Value::Text(word) if word == "sandbox" => Some(Reach::Sandbox),
        Value::Text(word) if word == "web" => Some(Reach::Web),
        Value::List(items) if items.is_empty() => Some(Reach::Nothing),
        Value::List(items) => {
            let hint = |error: &crate::hostname::HostNameError| Some(error.hint().to_owned());
            let names: BTreeSet<HostPattern> = items
                .into_iter()
                .filter_map(|item| parsed(item, "reach", complaints, hint).map(|name| name.value))
                .collect();
            Some(Reach::Names(names))
        }
        _ => {
            complaints.add(Problem::at(place, "`reach` must be a list of names, `sandbox`, `web` or `*`"));
            None
        }
    }
}

/// Reads `environment:`. Values may be secrets: they are kept apart and never shown.
pub(super) fn read_environment(node: Node, complaints: &Complaints) -> BTreeMap<String, SecretString> {
    let mut entries = BTreeMap::new();
    let Value::Map(pairs) = node.value else {
        complaints
            .add(Problem::at(node.place, format!("`environment` must be a mapping, found {}", node.value.kind())));
        return entries;
    };
    for (key, value) in pairs {
        let name = key.name;
        let valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !valid_start || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            // Not shown: people write `NAME=secret` here by mistake.
            complaints.add(
                Problem::at(key.place, "this cannot be the name of an environment entry")
                    .hint("letters, digits and _, not beginning with a digit; write NAME: value"),
            );
            continue;
        }
        let written = match value.value {
            Value::Text(text) if !text.contains('\0') => text,
            Value::Integer(number) => number.to_string(),
            other => {
                complaints.add(
                    Problem::at(
                        value.place,
                        format!("the value of `{name}` must be a text without NUL, found {}", other.kind()),
                    )
                    .hint("put it in quotes"),
                );
                continue;
            }
        };
        entries.insert(name, SecretString::from(written));
    }
    entries
}

/// Letters, digits, `_` and `-`, not empty, at most 64.
pub(super) fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl FromStr for Runs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sandbox" => Ok(Self::Sandbox),
            "host" => Ok(Self::Host),
            "provider" => Ok(Self::Provider),
            _ => Err(format!("`{text}` is not a place to run: use sandbox, host or provider")),
        }
    }
}
