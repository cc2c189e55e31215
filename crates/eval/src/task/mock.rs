//! What a scripted model says: `{text: …}`, `{tool_calls: [{name, arguments}]}`, or both.

use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, text};

use super::MockReply;
use super::amounts::object;

/// Reads a list of replies.
pub(super) fn read(node: Node, complaints: &Complaints) -> Vec<MockReply> {
    let Value::List(items) = node.value else {
        complaints.add(
            Problem::at(node.place, format!("`mock` must be a list of replies, found {}", node.value.kind()))
                .hint("write mock: [{text: The answer is 4}]"),
        );
        return Vec::new();
    };
    items.into_iter().filter_map(|item| read_reply(item, complaints)).collect()
}

fn read_reply(node: Node, complaints: &Complaints) -> Option<MockReply> {
    if let Value::Text(text) = node.value {
        return Some(MockReply { text, tool_calls: Vec::new() });
    }
    let mut fields = Fields::open(node, "a reply", &["text", "tool_calls"], complaints)?;
    let place = fields.place();
    let says = fields.has("text") || fields.has("tool_calls");
    let text = fields.text("text").map(|text| text.value).unwrap_or_default();
    let calls = fields.list("tool_calls").into_iter().filter_map(|call| read_call(call, complaints)).collect();
    fields.close();
    if !says {
        complaints.add(Problem::at(place, "a reply needs a `text` or `tool_calls`"));
        return None;
    }
    Some(MockReply { text, tool_calls: calls })
}

fn read_call(node: Node, complaints: &Complaints) -> Option<(String, serde_json::Value)> {
    let mut fields = Fields::open(node, "a tool call", &["name", "arguments"], complaints)?;
    let place = fields.place();
    if !fields.has("name") {
        complaints
            .add(Problem::at(place, "a tool call needs a `name`").hint("write {name: bash, arguments: {command: ls}}"));
    }
    let name = fields.text("name");
    let arguments = match fields.take("arguments") {
        None => Some(serde_json::Value::Object(serde_json::Map::new())),
        // What a careless model writes: not a mapping, and not to be mended here.
        Some(node) if matches!(node.value, Value::Text(_)) => {
            text(node, "arguments", complaints).map(|text| text.value.into())
        }
        Some(node) => object(node, "arguments", complaints).map(Into::into),
    };
    fields.close();
    Some((name?.value, arguments?))
}
