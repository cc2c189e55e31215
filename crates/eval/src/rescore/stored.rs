//! A sample as a log holds it: what is needed to judge it again. Anybody may have written the log.

use std::collections::BTreeMap;

use bounded::Budget;
use log::event::Score;
use log::message::{ChatMessage, Content, Reply, Said, ToolCall, ToolResult};
use log::raw;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::solve::{State, chosen};
use crate::task::{Input, Own, Sample, SampleId};
use crate::tools::SUBMIT;

/// The parts of a sample that count, and the bytes of all.
pub(super) struct Stored<'a> {
    pub(super) sample: Sample,
    pub(super) epoch: u32,
    /// Whether it failed: then nobody judges it.
    pub(super) failed: bool,
    /// What it was scored before, as it is written.
    pub(super) scores: Vec<(String, &'a [u8])>,
    /// All fields, as they are written.
    pub(super) fields: Vec<(String, &'a [u8])>,
    /// What counts as the answer.
    answer: String,
}

/// Reads a part of a sample within its memory budget.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8], budget: &Budget) -> Option<T> {
    bounded::read(&raw::lenient(bytes), budget).ok()
}

fn texts(value: Option<Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().map(crate::score::group_name).collect(),
        None | Some(Value::Null) => Vec::new(),
        Some(one) => vec![crate::score::group_name(&one)],
    }
}

impl<'a> Stored<'a> {
    /// Reads a sample; nothing if it is none. `ours` says whether we wrote the log.
    pub(super) fn read(bytes: &'a [u8], ours: bool) -> Option<Self> {
        let fields = raw::members(bytes)?;
        let budget = Budget::for_text(bytes);
        let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, bytes)| *bytes);
        let value = |key: &str| field(key).and_then(|bytes| read::<Value>(bytes, &budget));
        let id = match value("id")? {
            Value::String(text) => SampleId::Text(text),
            number => SampleId::Number(number.as_i64()?),
        };
        let epoch = u32::try_from(value("epoch")?.as_u64()?).ok()?;
        let input = match value("input")? {
            Value::String(text) => Input::Text(text),
            Value::Array(messages) => Input::Messages(messages.iter().map(message).collect()),
            _ => return None,
        };
        let output = value("output").unwrap_or_default();
        let metadata: Map<String, Value> = field("metadata").and_then(|bytes| read(bytes, &budget)).unwrap_or_default();
        let sample = Sample {
            id,
            input,
            target: texts(value("target")).into_iter().collect(),
            choices: texts(value("choices")),
            files: BTreeMap::new(),
            setup: None,
            metadata,
            mock: None,
            own: Own::default(),
        };
        let failed = value("error").is_some_and(|error| !error.is_null());
        let scores = field("scores").and_then(raw::members).unwrap_or_default();
        Some(Self { answer: answer(&output, ours), sample, epoch, failed, scores, fields })
    }

    /// What a solver would have come to.
    pub(super) fn state(&self, with_messages: bool) -> State {
        let mut state = State::new(&self.sample);
        state.answer = Some(self.answer.clone());
        state.chosen = Some(chosen(&self.answer, self.sample.choices.len()).into_iter().collect());
        if with_messages {
            let messages = self.fields.iter().find(|(name, _)| name == "messages").map_or(&[][..], |(_, bytes)| bytes);
            let budget = Budget::for_text(messages);
            let items = raw::items(messages).unwrap_or_default();
            let read = items.into_iter().filter_map(|item| read::<Value>(item, &budget));
            state.messages = read.map(|value| message(&value)).collect();
        }
        state
    }

    /// What it was scored before, where that is one value.
    pub(super) fn plain_scores(&self) -> BTreeMap<String, Score> {
        let budget = Budget::for_text(&[]);
        let read = self.scores.iter().filter_map(|(name, bytes)| {
            let mut value: Value = read(bytes, &budget)?;
            let is_plain = !matches!(value["value"], Value::Array(_) | Value::Object(_));
            let reason = value["reason"].as_str().map(str::to_owned);
            let score = Score { value: value["value"].take(), answer: None, explanation: None, reason, metadata: None };
            is_plain.then(|| (name.clone(), score))
        });
        read.collect()
    }
}

/// What was submitted, or the model's last words.
fn answer(output: &Value, ours: bool) -> String {
    let message = &output["choices"][0]["message"];
    let submitted = || {
        let calls = message["tool_calls"].as_array()?;
        let call = calls.iter().rev().find(|call| call["function"] == SUBMIT)?;
        call["arguments"]["answer"].as_str()
    };
    let said = submitted().filter(|_| ours).or_else(|| output["completion"].as_str().filter(|said| !said.is_empty()));
    said.map_or_else(|| text(&message["content"]), str::to_owned)
}

/// The words of a message's content, of whatever kinds its parts are.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// A message; of one with parts that we do not know, the words.
fn message(value: &Value) -> ChatMessage {
    if let Ok(message) = serde_json::from_value(value.clone()) {
        return message;
    }
    let content = Content::Text(text(&value["content"]));
    let said = |content| Said { id: None, content, source: None };
    match value["role"].as_str() {
        Some("system") => ChatMessage::System(said(content)),
        Some("assistant") => {
            let calls = value["tool_calls"].as_array().map(|calls| calls.iter().map(call).collect());
            ChatMessage::Assistant(Reply { id: None, content, source: None, tool_calls: calls, model: None })
        }
        Some("tool") => ChatMessage::Tool(ToolResult {
            id: None,
            content,
            tool_call_id: String::new(),
            function: value["function"].as_str().unwrap_or_default().to_owned(),
            error: None,
        }),
        _ => ChatMessage::User(said(content)),
    }
}

fn call(value: &Value) -> ToolCall {
    ToolCall {
        id: String::new(),
        function: value["function"].as_str().unwrap_or_default().to_owned(),
        arguments: value["arguments"].as_object().cloned().unwrap_or_default(),
        parse_error: None,
        written: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_are_found_where_logs_keep_them() {
        let log = br#"{"id": "a", "epoch": 1, "input": [{"role": "user", "content": [{"type": "audio", "audio": "x"}, {"type": "text", "text": "q"}]}],
            "target": "t", "choices": ["x", "y"], "scores": {"old": {"value": NaN}, "d": {"value": {"a": 1}}},
            "output": {"completion": "ANSWER: B", "choices": [{"message": {"role": "assistant", "content": "",
            "tool_calls": [{"id": "1", "function": "submit", "arguments": {"answer": "done"}}]}}]}}"#;
        let stored = Stored::read(log, false).unwrap();
        assert_eq!(stored.state(false).completion(), "ANSWER: B");
        assert_eq!(stored.state(false).chosen, Some(vec![1]));
        assert!(matches!(&stored.sample.input, Input::Messages(all) if all[0].text() == "q"));
        assert_eq!(stored.plain_scores().keys().collect::<Vec<_>>(), ["old"], "one value for each");
        assert!(crate::score::is_unscored(&stored.plain_scores()["old"]));
        assert_eq!(Stored::read(log, true).unwrap().state(false).completion(), "done");
        assert!(Stored::read(b"{\"id\": 1.5, \"epoch\": 1, \"input\": \"\"}", true).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_sample_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..100), output in "[-\\[\\]{}\",:a1N ]{0,60}") {
            let _ = Stored::read(&bytes, true);
            let text = format!("{{\"id\":1,\"epoch\":1,\"input\":\"q\",\"output\":{output},\"messages\":{output},\"scores\":{output}}}");
            if let Some(stored) = Stored::read(text.as_bytes(), true) {
                let _ = (stored.state(true), stored.plain_scores());
            }
        }
    }
}
