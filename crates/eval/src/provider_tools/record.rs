//! What a provider tells of its own tools' calls, on its way into the log.

use std::collections::BTreeMap;

use ::model::ProviderTool;
use log::message::{Content, ModelOutput, Part, ToolUse};
use serde_json::{Value, json};

use super::name;
use crate::journal::Journal;

/// The most bytes that one event repeats; the message holds more.
const MOST: usize = 4 << 10;
/// The most calls of one answer that have an event of their own; all are counted.
const EVENTS: usize = 100;

fn cut(text: &str) -> &str {
    let end = (0..=MOST.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// Whether an answer was given now or is one that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    Now,
    Before,
}

fn uses(output: &ModelOutput) -> impl Iterator<Item = &ToolUse> {
    let parts = output.choices.iter().filter_map(|choice| match choice.message.content() {
        Content::Parts(parts) => Some(parts),
        Content::Text(_) => None,
    });
    parts.flatten().filter_map(|part| match part {
        Part::ToolUse(used) => Some(used),
        _ => None,
    })
}

/// Writes down what the provider's own tools did for an answer, and counts it; says how many calls there were.
pub(crate) fn note(
    journal: &Journal,
    model: &str,
    output: &ModelOutput,
    given: Given,
    counts: &mut BTreeMap<&'static str, u64>,
) -> u64 {
    let mut calls = 0;
    for (index, used) in uses(output).enumerate() {
        let tool = name(ProviderTool::of(used.tool_type));
        if given == Given::Now {
            *counts.entry(tool).or_default() += 1;
            calls += 1;
        }
        if index >= EVENTS {
            continue;
        }
        journal.info(json!({
            "kind": "provider_tool", "tool": tool, "runs": "provider", "model": model, "name": cut(&used.name),
            "id": cut(&used.id), "number": counts.get(tool), "arguments": cut(&used.arguments),
            "arguments_bytes": used.arguments.len(), "result": cut(&used.result), "result_bytes": used.result.len(),
            "error": used.error, "kept_answer": given == Given::Before,
        }));
    }
    calls
}

/// How often each tool of the provider was used in a sample, as far as the provider told: none is a figure too.
pub(crate) fn totals(granted: &[ProviderTool], counts: &BTreeMap<&'static str, u64>) -> Value {
    let of = |tool: &ProviderTool| (name(*tool).to_owned(), json!(counts.get(name(*tool)).copied().unwrap_or(0)));
    json!({"kind": "provider_tool_totals", "calls": granted.iter().map(of).collect::<serde_json::Map<_, _>>()})
}
