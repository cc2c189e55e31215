//! Who answers. Every model is asked in the same way.

mod mock;

use std::pin::Pin;

use log::message::{ChatMessage, ModelOutput};
use serde_json::Value;
use thiserror::Error;

use crate::task::{Sample, Task};

pub(crate) use mock::{Echo, Scripted};

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ModelError {
    /// No model has this name.
    #[error("no model is called `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A scripted model has said everything.
    #[error("the scripted model has no more replies: it was asked {asked} times")]
    Exhausted {
        /// How often.
        asked: usize,
    },
}

impl ModelError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "models of this version are mock/scripted and mock/echo",
            Self::Exhausted { .. } => "add replies under `mock:` of the task or the sample",
        }
    }
}

/// A tool, as a model is told about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolInfo {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does, in a sentence.
    pub(crate) description: &'static str,
    /// The schema of its arguments (JSON Schema).
    pub(crate) parameters: Value,
}

/// An answer under way.
pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<ModelOutput, ModelError>> + Send + 'a>>;

/// Somebody who answers in one sample.
pub(crate) trait Model: Send + Sync {
    /// Its full name.
    fn name(&self) -> &str;
    /// Answers a conversation, with these tools to call.
    fn generate<'a>(&'a self, messages: &'a [ChatMessage], tools: &'a [ToolInfo]) -> Answer<'a>;
}

/// Which model a task uses, unless the command line says otherwise.
pub const DEFAULT_MODEL: &str = "mock/scripted";

/// Checks a name before anything starts.
pub fn check_model(name: &str) -> Result<(), ModelError> {
    match name {
        "mock/scripted" | "mock/echo" => Ok(()),
        _ => Err(ModelError::Unknown { name: name.to_owned() }),
    }
}

/// The model of one sample.
pub(crate) fn open<'a>(name: &str, task: &'a Task, sample: &'a Sample) -> Result<Box<dyn Model + 'a>, ModelError> {
    match name {
        "mock/scripted" => Ok(Box::new(Scripted::new(sample.mock.as_deref().unwrap_or(&task.mock)))),
        "mock/echo" => Ok(Box::new(Echo)),
        _ => Err(ModelError::Unknown { name: name.to_owned() }),
    }
}
