//! What model and agent say to each other, as Inspect writes it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::content::{Content, Detail, Part, Reasoning, ToolUse, ToolUseKind};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum ChatMessage {
    /// Instructions.
    System(Said),
    /// The task.
    User(Said),
    /// The model.
    Assistant(Reply),
    /// What a tool gave back.
    Tool(ToolResult),
}

/// Plain words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Unique in its sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The words.
    pub content: Content,
    /// `input` for what the data set says, `generate` for what a model says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What a model said, and what it wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Unique in its sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The words.
    pub content: Content,
    /// `generate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// Which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A call that a model wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in its sample.
    pub id: String,
    /// The tool.
    pub function: String,
    /// Its arguments, by name.
    pub arguments: Map<String, Value>,
    /// What is wrong with the arguments as the model wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parse_error: Option<String>,
    /// The arguments as the model wrote them, where they are no JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Unique in its sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The words.
    pub content: Content,
    /// Which call.
    pub tool_call_id: String,
    /// Which tool.
    pub function: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolError {
    /// Which kind, in Inspect's words.
    #[serde(rename = "type")]
    pub kind: ToolErrorKind,
    /// In words.
    pub message: String,
}

/// The kinds of failure that Inspect knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorKind {
    /// The arguments are not what the tool takes.
    Parsing,
    /// Its time was up.
    Timeout,
    /// Its output is not text.
    UnicodeDecode,
    /// It may not.
    Permission,
    /// There is no such file.
    FileNotFound,
    /// A directory, where a file was meant.
    IsADirectory,
    /// A limit was hit.
    Limit,
    /// Whoever was asked said no.
    Approval,
    /// The sample ended.
    Cancelled,
    /// The sandbox is gone.
    SandboxUnavailable,
    /// Anything else.
    Unknown,
}

/// How many tokens were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Of the input, without what a provider's cache took or gave.
    pub input_tokens: u64,
    /// Of the output, with those of thoughts.
    pub output_tokens: u64,
    /// Of everything.
    pub total_tokens: u64,
    /// Of the input, written into the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens_cache_write: Option<u64>,
    /// Of the input, found in the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens_cache_read: Option<u64>,
    /// Of the output, for thoughts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// In dollars; absent where no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost: Option<f64>,
}

impl Usage {
    /// Adds what was used beside this. What nobody counted stays uncounted.
    pub fn add(&mut self, other: &Self) {
        let both = |one: Option<u64>, two: Option<u64>| match (one, two) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
        };
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.input_tokens_cache_write = both(self.input_tokens_cache_write, other.input_tokens_cache_write);
        self.input_tokens_cache_read = both(self.input_tokens_cache_read, other.input_tokens_cache_read);
        self.reasoning_tokens = both(self.reasoning_tokens, other.reasoning_tokens);
        self.total_cost = match (self.total_cost, other.total_cost) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all.
    Stop,
    /// It wants tools called.
    ToolCalls,
    /// Its output was cut off.
    MaxTokens,
    /// Its context is full.
    ModelLength,
    /// The provider refused.
    ContentFilter,
    /// Nobody knows.
    Unknown,
}

/// What a model gave back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelOutput {
    /// Which model.
    pub model: String,
    /// What it said: one, or none if it failed.
    pub choices: Vec<Choice>,
    /// The words of the first.
    pub completion: String,
    /// What it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// Why there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One answer of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The answer; a [`ChatMessage::Assistant`].
    pub message: ChatMessage,
    /// Why it ends there.
    pub stop_reason: StopReason,
}

impl ChatMessage {
    /// What is said in words.
    pub fn text(&self) -> Cow<'_, str> {
        self.content().text()
    }

    /// What it holds.
    pub fn content(&self) -> &Content {
        match self {
            Self::System(said) | Self::User(said) => &said.content,
            Self::Assistant(reply) => &reply.content,
            Self::Tool(result) => &result.content,
        }
    }

    /// The same, to change it.
    pub fn content_mut(&mut self) -> &mut Content {
        match self {
            Self::System(said) | Self::User(said) => &mut said.content,
            Self::Assistant(reply) => &mut reply.content,
            Self::Tool(result) => &mut result.content,
        }
    }

    /// Instructions.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::System(Said { id: None, content: content.into(), source: None })
    }

    /// Words of the task.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::User(Said { id: None, content: content.into(), source: None })
    }
}
