//! Answers in several parts: a provider whose own tools take long pauses, and goes on when it is sent what it said so far.

use log::message::{ChatMessage, Content, Part};
use serde_json::Value;

use crate::request::Answer;

/// How often an answer may pause.
pub(crate) const MOST: usize = 8;

fn parts(content: Content) -> Vec<Part> {
    match content {
        Content::Text(text) if text.is_empty() => Vec::new(),
        Content::Text(text) => vec![Part::said(text)],
        Content::Parts(parts) => parts,
    }
}

/// Adds a part. What a tool of the provider gave belongs to its use, which may have been told before a pause.
fn add(mut parts: Vec<Part>, part: Part) -> Vec<Part> {
    let Part::ToolUse(then) = part else {
        parts.push(part);
        return parts;
    };
    let before = parts.iter_mut().find_map(|part| match part {
        Part::ToolUse(used) if used.id == then.id => Some(used),
        _ => None,
    });
    let Some(used) = before else {
        parts.push(Part::ToolUse(then));
        return parts;
    };
    (used.result, used.error) = (then.result, then.error);
    if let (Some(Value::Array(kept)), Some(Value::Array(more))) = (&mut used.internal, then.internal) {
        kept.extend(more);
    }
    parts
}

/// Both as one answer: what was said, called and used is there in its order; the end is that of the second.
pub(crate) fn join(first: Answer, mut second: Answer) -> Answer {
    second.waited += first.waited;
    // More than once only where something failed in between.
    second.attempts = (first.attempts + second.attempts).saturating_sub(1).max(1);
    if let (Some(mut usage), Some(more)) = (first.output.usage, second.output.usage) {
        usage.add(&more);
        second.output.usage = Some(usage);
    } else {
        second.output.usage = first.output.usage.or(second.output.usage);
    }
    let said = first.output.choices.into_iter().next().map(|choice| choice.message);
    let then = second.output.choices.first_mut().map(|choice| &mut choice.message);
    if let (Some(ChatMessage::Assistant(said)), Some(ChatMessage::Assistant(then))) = (said, then) {
        let more = std::mem::replace(&mut then.content, Content::Text(String::new()));
        then.content = Content::Parts(parts(more).into_iter().fold(parts(said.content), add));
        let calls: Vec<_> = said.tool_calls.into_iter().chain(then.tool_calls.take()).flatten().collect();
        then.tool_calls = (!calls.is_empty()).then_some(calls);
        second.output.completion = then.content.text().into_owned();
    }
    second
}
