//! What a model may call. Start at `catalogue.rs` for what there is, at `call.rs` for how a call is made.
//!
//! Whether a tool is granted, the plan has said; whether a call is approved, somebody else says. Whatever goes wrong in a
//! tool is an answer to the model, of one of the kinds that Inspect's users know.

mod call;
mod catalogue;
mod files;
mod notes;
mod run;
mod schema;
mod session;
mod web;

use std::time::Duration;

use log::message::{ToolError, ToolErrorKind};
use profile::{FileMode, Plan};
use sandbox::{Sandbox, SessionError};

use crate::Surroundings;
use crate::approval::{Key, Permit};
use crate::journal::Journal;
use crate::model::ToolInfo;

pub(crate) use call::{call, sound};
pub(crate) use files::{Files, Looks};
pub(crate) use web::Search;
pub use web::{Keys, MissingKey};

pub(crate) use schema::{Arguments, Kind};

/// The tool by which an agent says that it has finished.
pub(crate) const SUBMIT: &str = "submit";

/// A tool of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Bash,
    Python,
    BashSession,
    ReadFile,
    WriteFile,
    EditFile,
    Ls,
    DeleteFile,
    TextEditor,
    Think,
    TodoWrite,
    WebSearch,
    WebFetch,
    Submit,
}

impl Tool {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Whether it needs a sandbox to run in.
    pub(crate) fn needs_sandbox(self, files: FileMode) -> bool {
        match self {
            Self::Bash | Self::Python | Self::BashSession | Self::WebFetch => true,
            Self::ReadFile | Self::WriteFile | Self::EditFile | Self::Ls | Self::DeleteFile | Self::TextEditor => {
                files == FileMode::Sandbox
            }
            Self::Think | Self::TodoWrite | Self::WebSearch | Self::Submit => false,
        }
    }

    /// Whether it is one of the file tools.
    pub(crate) fn is_of_files(self) -> bool {
        self.needs_sandbox(FileMode::Sandbox) && !self.needs_sandbox(FileMode::Store)
    }

    pub(crate) fn info(self) -> ToolInfo {
        let parameters = schema::schema(self.parameters());
        ToolInfo { name: self.name().into(), description: self.description().into(), parameters }
    }
}

/// How calls are made.
#[derive(Clone, Copy)]
pub(crate) struct Manner<'a> {
    pub(crate) timeout: Duration,
    /// Bytes that the model is shown.
    pub(crate) output: usize,
    pub(crate) surroundings: &'a Surroundings,
}

/// What one sample's tools remember from call to call.
#[derive(Default)]
pub(crate) struct Kit {
    pub(crate) files: Files,
    pub(crate) shell: session::Shell,
    pub(crate) notes: notes::Notes,
    pub(crate) search: Search,
}

/// Everything that a call has at hand.
#[derive(Clone, Copy)]
pub(crate) struct Hands<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) manner: Manner<'a>,
    pub(crate) journal: &'a Journal,
    pub(crate) kit: &'a Kit,
    /// What was approved.
    pub(crate) permit: &'a Permit,
    pub(crate) key: &'a Key,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    pub(crate) content: String,
    /// Bytes before and after cutting.
    pub(crate) truncated: Option<(u64, u64)>,
    pub(crate) error: Option<ToolError>,
    /// The answer, where that was submitted.
    pub(crate) submitted: Option<String>,
    /// Why nothing more can be done in the sandbox.
    pub(crate) gone: Option<SessionError>,
    /// Why the sample cannot go on.
    pub(crate) ends: Option<String>,
}

impl Called {
    /// What it gave is these words.
    pub(crate) fn said(content: impl Into<String>) -> Self {
        Self { content: content.into(), truncated: None, error: None, submitted: None, gone: None, ends: None }
    }

    pub(crate) fn failed(error: ToolError) -> Self {
        Self { content: error.message.clone(), error: Some(error), ..Self::said("") }
    }

    /// It failed in this way.
    pub(crate) fn error(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self::failed(ToolError { kind, message: message.into() })
    }
}
