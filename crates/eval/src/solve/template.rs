//! Templates: `{name}` is filled, everything else is left as it is.

use log::message::ChatMessage;
use serde_json::{Map, Value};

use super::State;

/// Fills every `{name}` that `value` knows, in one pass: nothing that is filled in is filled itself. A name that nobody knows
/// stays as it is written.
pub(crate) fn fill_with(template: &str, value: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest[1..].find('}').map(|end| &rest[1..=end]);
        if let (Some(name), Some(value)) = (name, name.and_then(value)) {
            filled.push_str(&value);
            rest = &rest[name.len() + 2..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled + rest
}

/// Fills `{prompt}` and names of the metadata.
pub(super) fn fill(template: &str, prompt: Option<&str>, metadata: &Map<String, Value>) -> String {
    fill_with(template, &|name| match (name, prompt) {
        ("prompt", Some(prompt)) => Some(prompt.to_owned()),
        _ => metadata.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
    })
}

/// Puts the last question into other words.
pub(super) fn rephrase(template: &str, metadata: &Map<String, Value>, state: &mut State) {
    let last = state.messages.iter_mut().rev().find_map(|message| match message {
        ChatMessage::User(said) => Some(said),
        _ => None,
    });
    if let Some(said) = last {
        said.content.map_text(|text| fill(template, Some(text), metadata));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_filled_and_others_stay() {
        let metadata: Map<String, Value> =
            [("who".to_owned(), Value::from("you")), ("n".to_owned(), Value::from(3))].into_iter().collect();
        assert_eq!(fill("{who} {n} {prompt} {else} {", Some("ask {who}"), &metadata), "you 3 ask {who} {else} {");
    }
}
