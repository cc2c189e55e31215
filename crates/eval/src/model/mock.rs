//! Models that need nobody: one says what its script says, one repeats what it hears.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use log::message::{ChatMessage, Choice, ModelOutput, Reply, StopReason, ToolCall, Usage};
use serde_json::{Map, Value};

use super::{Answer, ModelError};
use crate::task::MockReply;

/// Says one line of its script after the other.
pub(crate) struct Scripted<'a> {
    replies: &'a [MockReply],
    next: AtomicUsize,
}

impl<'a> Scripted<'a> {
    pub(crate) fn new(replies: &'a [MockReply]) -> Self {
        Self { replies, next: AtomicUsize::new(0) }
    }
}

/// A count that depends on nothing but the words, as tokens of a real model roughly do.
fn tokens(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(4)).unwrap_or(u64::MAX)
}

fn output(name: &str, messages: &[ChatMessage], text: String, calls: Vec<ToolCall>) -> ModelOutput {
    let input_tokens = messages.iter().map(|message| tokens(&message.text())).sum();
    let said: u64 = calls.iter().map(|call| tokens(&Value::Object(call.arguments.clone()).to_string())).sum();
    let output_tokens = tokens(&text) + said;
    let usage = Usage { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, ..Usage::default() };
    let stop_reason = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
    let message = ChatMessage::Assistant(Reply {
        id: Some(crate::journal::unique()),
        content: text.clone().into(),
        source: Some("generate".into()),
        tool_calls: (!calls.is_empty()).then_some(calls),
        model: Some(name.to_owned()),
    });
    ModelOutput {
        model: name.to_owned(),
        choices: vec![Choice { message, stop_reason }],
        completion: text,
        usage: Some(usage),
        time: None,
        error: None,
    }
}

/// Arguments as a model writes them: a mapping, or a text that should have been one.
fn call(number: usize, index: usize, (name, arguments): &(String, Value)) -> ToolCall {
    let (arguments, parse_error) = match arguments {
        Value::Object(map) => (map.clone(), None),
        Value::Null => (Map::new(), None),
        other => (Map::new(), Some(format!("the arguments are not a JSON object: {other}"))),
    };
    let id = format!("call_{}_{}", number + 1, index + 1);
    ToolCall { id, function: name.clone(), arguments, parse_error, written: None }
}

impl Scripted<'_> {
    /// The next line.
    pub(super) fn next(&self, name: &str, messages: &[ChatMessage]) -> Result<Answer, ModelError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let reply = self.replies.get(number).ok_or(ModelError::Exhausted { asked: number + 1 })?;
        let calls = reply.tool_calls.iter().enumerate().map(|(index, wanted)| call(number, index, wanted)).collect();
        Ok(at_once(output(name, messages, reply.text.clone(), calls)))
    }
}

/// Repeats the last words that it hears.
pub(super) fn echo(name: &str, messages: &[ChatMessage]) -> Answer {
    let heard = messages.last().map_or_else(String::new, |message| message.text().into_owned());
    at_once(output(name, messages, heard, Vec::new()))
}

fn at_once(output: ModelOutput) -> Answer {
    Answer { output, waited: Duration::ZERO, attempts: 1 }
}
