//! What a model is asked, and how it answers.

use std::pin::Pin;
use std::time::Duration;

use log::message::ChatMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GenerateConfig, ModelError, Output, ProviderTool};

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The conversation.
    pub messages: &'a [ChatMessage],
    /// What it may call. Empty: nothing.
    pub tools: &'a [ToolInfo],
    /// Tools of its provider that are switched on. Empty: none.
    pub provider_tools: &'a [ProviderTool],
    /// Whether it must call something. Without tools this means nothing.
    pub tool_choice: &'a ToolChoice,
    /// How it is to answer.
    pub config: &'a GenerateConfig,
    /// Answers are kept apart by this, in a cache: such as the epoch, so that asking twice is asking twice.
    pub scope: &'a str,
}

/// A tool, as a model is told about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does, in a sentence.
    pub description: String,
    /// The schema of its arguments (JSON Schema of an object).
    pub parameters: Value,
}

/// Whether a model must call something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It may not.
    None,
    /// Any of them.
    Any,
    /// This one.
    Tool(String),
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What it said.
    pub output: Output,
    /// How long nobody was working on it: failed attempts, patience, and the queue for a connection.
    pub waited: Duration,
    /// How often it was asked; 0 for an answer from the cache.
    pub attempts: u32,
}

/// An answer under way.
pub type Generating<'a> = Pin<Box<dyn Future<Output = Result<Answer, ModelError>> + Send + 'a>>;

/// Somebody who answers. An implementor owes: an error that says whose fault it is, an end within its own time limits,
/// nothing left behind when the future is dropped, and no key in anything that it returns.
pub trait Model: Send + Sync {
    /// Its full name, such as `openai/gpt-5`.
    fn name(&self) -> &str;
    /// Tools of its provider that can be switched on.
    fn provider_tools(&self) -> &'static [ProviderTool] {
        &[]
    }
    /// Answers a conversation.
    fn generate<'a>(&'a self, request: Request<'a>) -> Generating<'a>;
}
