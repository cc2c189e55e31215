//! What providers' replies have in common, on their way to an [`Output`].

use std::collections::HashSet;

use bounded::Budget;
use log::message::{ChatMessage, Choice, Content, Part, Reply, StopReason, ToolCall, Usage};
use serde_json::{Map, Value, json};
use strangers::Shown;

use crate::Output;
use crate::openai::Server;

/// Memory for the arguments of all calls of a reply that are JSON in a text: their texts, and 6 MiB for what is in them.
const ARGUMENTS: u64 = (16 << 20) + (6 << 20);

/// What was understood of a reply.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// What is left for arguments.
    pub(crate) memory: ArgumentMemory,
    pub(crate) parts: Vec<Part>,
    pub(crate) calls: Vec<ToolCall>,
    /// Names of calls that are taken.
    pub(crate) ids: HashSet<String>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Option<Usage>,
    /// The provider has more to say, once it is asked to go on.
    pub(crate) paused: bool,
    /// The model that really answered, where the provider says.
    pub(crate) model: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ArgumentMemory(Budget);

impl Default for ArgumentMemory {
    fn default() -> Self {
        Self(Budget::new(ARGUMENTS))
    }
}

/// Why a reply is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is not what the API says.
    Malformed(Shown),
    /// A tool of the provider was used that was not granted.
    Uninvited(Shown),
    /// The provider does not let the model see the question.
    Filtered(Shown),
}

impl Unreadable {
    pub(crate) fn because(why: &str) -> Self {
        Self::Malformed(Shown::new(why))
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self::because(&error.to_string())
    }
}

impl Reading {
    /// Arguments from the text that a model wrote. Nothing at all means no arguments.
    pub(crate) fn arguments(&self, text: &str) -> Arguments {
        if text.trim().is_empty() {
            return Arguments::Sound(Map::new());
        }
        match bounded::value(text.as_bytes(), &self.memory.0) {
            Ok(Value::Object(map)) => Arguments::Sound(map),
            Ok(_) => Arguments::odd("", text),
            Err(error) => Arguments::odd(&format!(" ({error})"), text),
        }
    }

    /// Adds words; empty ones are none.
    pub(crate) fn say(&mut self, text: Option<String>) {
        self.parts.extend(text.filter(|text| !text.is_empty()).map(Part::said));
    }

    /// Adds words to those before them: some providers cut a sentence where a source is cited.
    pub(crate) fn say_on(&mut self, text: Option<String>) {
        match (self.parts.last_mut(), text) {
            (Some(Part::Text { text: said, refusal: None }), Some(more)) => said.push_str(&more),
            (_, text) => self.say(text),
        }
    }

    /// Adds a call. Calls that have no name of their own, or one that was given before, get one.
    pub(crate) fn call(&mut self, id: Option<String>, function: String, arguments: Arguments) {
        let id = id.filter(|id| !id.is_empty() && self.ids.insert(id.clone()));
        let id = id.unwrap_or_else(|| format!("call_{}", uuid::Uuid::new_v4().simple()));
        let (arguments, parse_error, written) = match arguments {
            Arguments::Sound(map) => (map, None, None),
            Arguments::Odd { why, written } => (Map::new(), Some(why), Some(written)),
        };
        self.calls.push(ToolCall { id, function, arguments, parse_error, written });
    }

    /// All of it, as logs have it. `name` is the model's full name.
    pub(crate) fn into_output(self, name: &str) -> Output {
        let content = match <[Part; 1]>::try_from(self.parts) {
            Ok([Part::Text { text, refusal: None }]) => Content::Text(text),
            Ok([other]) => Content::Parts(vec![other]),
            Err(parts) if parts.is_empty() => Content::Text(String::new()),
            Err(parts) => Content::Parts(parts),
        };
        let completion = content.text().into_owned();
        let stop_reason = match self.stop {
            // Some servers say `stop` although they want a tool called.
            Some(StopReason::Stop) | None if !self.calls.is_empty() => StopReason::ToolCalls,
            Some(stop) => stop,
            None => StopReason::Unknown,
        };
        let message = ChatMessage::Assistant(Reply {
            id: Some(uuid::Uuid::new_v4().simple().to_string()),
            content,
            source: Some("generate".into()),
            tool_calls: (!self.calls.is_empty()).then_some(self.calls),
            model: Some(name.to_owned()),
        });
        Output {
            model: self.model.unwrap_or_else(|| name.to_owned()),
            choices: vec![Choice { message, stop_reason }],
            completion,
            usage: self.usage,
            time: None,
            error: None,
        }
    }
}

/// The most that is kept of arguments that are no JSON object, in bytes: they go back with every further question.
const MOST_WRITTEN: usize = 16 << 10;

/// At most so many bytes of a text, and how many there were.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    match text.get(..end) {
        Some(kept) if kept.len() < text.len() => format!("{kept}… ({} bytes in all)", text.len()),
        _ => text.to_owned(),
    }
}

/// The arguments of a call, where the API wants a text: what was no JSON goes back as it was written, so that the model
/// sees its mistake. Other servers than `OpenAI`'s own read them and fail at such a text, so there it stands in an object.
pub(crate) fn arguments_text(call: &ToolCall, server: Server) -> String {
    match (&call.written, server) {
        (Some(written), Server::OpenAi) => written.clone(),
        (Some(written), Server::Compatible) => json!({"not_a_json_object": written}).to_string(),
        (None, _) => Value::Object(call.arguments.clone()).to_string(),
    }
}

/// The arguments of a call.
#[derive(Debug)]
pub(crate) enum Arguments {
    Sound(Map<String, Value>),
    /// What the model wrote is no JSON object.
    Odd {
        why: String,
        written: String,
    },
}

impl Arguments {
    pub(crate) fn from_json(value: Value) -> Self {
        match value {
            Value::Object(map) => Self::Sound(map),
            Value::Null => Self::Sound(Map::new()),
            other => Self::odd("", &other.to_string()),
        }
    }

    fn odd(why: &str, written: &str) -> Self {
        let why = format!("the arguments are not a JSON object{why}: {}", Shown::new(written));
        Self::Odd { why, written: cut(written, MOST_WRITTEN) }
    }
}

/// Adds a setting to a body, if there is one.
pub(crate) fn put(body: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), value.into());
    }
}
