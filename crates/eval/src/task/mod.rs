//! The task: what is asked, of whom, in which profile, and how the answer is judged.
//!
//! [`Task::load`] reads a task's file, [`Task::parse`] its text, [`Task::apply`] puts the command line on top. The types
//! are here; how they are read is in one file per part of the task file.

mod amounts;
mod base;
mod check;
mod columns;
mod content;
mod dataset;
mod dollars;
mod epochs;
mod files;
mod generate;
mod graded;
mod host_file;
mod json;
mod judging;
mod kinds;
mod limits;
mod metrics;
mod mock;
mod overrides;
mod own;
mod parameters;
mod parse;
mod records;
mod roles;
mod sample;
mod scorer;
mod scoring;
mod shuffle;
mod solver;
mod sources;
#[cfg(test)]
mod tests;
mod when;

use std::collections::BTreeMap;
use std::path::PathBuf;

use log::message::ChatMessage;
use model::GenerateConfig;
use profile::Document;
use serde_json::{Map, Value};

pub(crate) use check::why_not;
pub use dollars::{Dollars, ParseDollarsError};
pub use files::{Beside, Files, MAX_DATASET_BYTES, MAX_INCLUDED_BYTES};
pub use host_file::HostFile;
pub use judging::{AllGroups, Epochs, Graded, Graders, Location, Metric, Reducer, Rubric, Scorer, Vote};
pub use overrides::{ParseSliceError, Slice, TaskOverrides};
pub use sample::of_service;
pub(crate) use scorer::PATTERN_SIZE;
pub use scoring::Scoring;
pub use sources::Sources;
pub(crate) use sources::sha256;

/// A task, as its file and the command line say.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Its file, for messages and the log.
    pub origin: String,
    /// Profile, sandbox, image, network, tools, limits, phases, approval: everything that is enforced.
    pub document: Document,
    /// What is asked.
    pub dataset: Dataset,
    /// How it is answered, one after the other; never empty.
    pub solvers: Vec<Solver>,
    /// How the answer is judged; may be empty.
    pub scorers: Vec<Scorer>,
    /// What the scores of all samples come to; never empty.
    pub metrics: Vec<Metric>,
    /// How often each sample is asked.
    pub epochs: Epochs,
    /// Limits beside those of the document.
    pub limits: Limits,
    /// Limits of all samples together.
    pub run_limits: RunLimits,
    /// Which model answers, such as `mock/scripted`; the command line may name another.
    pub model: Option<String>,
    /// How it is to answer.
    pub generate: GenerateConfig,
    /// Who answers beside the agent, such as graders.
    pub model_roles: BTreeMap<String, Role>,
    /// What `mock/scripted` says in every sample that has no words of its own.
    pub mock: Vec<MockReply>,
    /// What it says in each role.
    pub mock_roles: BTreeMap<String, Vec<MockReply>>,
    /// For whoever sorts logs.
    pub tags: Vec<String>,
    /// For whoever reads logs.
    pub metadata: Map<String, Value>,
    /// The parameters in force, by name.
    pub parameters: BTreeMap<String, Value>,
    /// What it was read from.
    pub sources: Sources,
    /// The files that it was read from on the host, the task file among them; empty for a task that is only a text.
    pub included: Vec<PathBuf>,
}

/// The samples of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Its name: the file's, or the task's.
    pub name: String,
    /// Where it was read from, if not from the task itself.
    pub location: Option<String>,
    /// The samples, in the order in which they are asked.
    pub samples: Vec<Sample>,
    /// Whether that is another order than the file's.
    pub shuffled: bool,
}

/// A sample's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampleId {
    /// Counted from 1 where nobody says otherwise.
    Number(i64),
    /// As the data set says.
    Text(String),
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Unique in its data set.
    pub id: SampleId,
    /// What is asked.
    pub input: Input,
    /// What is right: one, or any of several.
    pub target: Vec<String>,
    /// What may be chosen from.
    pub choices: Vec<String>,
    /// Files that the sandbox begins with, by their absolute path inside.
    pub files: BTreeMap<String, FileContent>,
    /// A script that prepares the sandbox, run by `sh` in the setup phase.
    pub setup: Option<String>,
    /// For whoever reads logs, and for templates.
    pub metadata: Map<String, Value>,
    /// What `mock/scripted` says here.
    pub mock: Option<Vec<MockReply>>,
    /// What holds here alone.
    pub own: Own,
}

/// What holds for one sample alone; absent means as in all others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Own {
    /// Which model answers.
    pub model: Option<String>,
    /// How it is to answer, on top of what the task says.
    pub generate: GenerateConfig,
    /// Who answers in a role.
    pub model_roles: BTreeMap<String, Role>,
    /// What `mock/scripted` says in a role.
    pub mock_roles: BTreeMap<String, Vec<MockReply>>,
    /// Limits, each in the place of the task's.
    pub limits: Limits,
}

/// Who answers in a role.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Role {
    /// One model, or several that are all asked; never empty.
    pub models: Vec<String>,
    /// How they are to answer.
    pub generate: GenerateConfig,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// In words.
    Text(String),
    /// As a conversation.
    Messages(Vec<ChatMessage>),
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// These words.
    Text(String),
    /// What this file of the host holds.
    Host(HostFile),
}

/// One step towards an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Solver {
    /// Ask the model once.
    Generate,
    /// Put instructions first. `{name}` is filled from the sample's metadata.
    SystemMessage(String),
    /// Put the question into other words: `{prompt}` and names of the metadata.
    PromptTemplate(String),
    /// Show the choices as letters, ask once, and read the letter.
    MultipleChoice,
    /// Let the model work with tools until it submits.
    Agent(Agent),
    /// Let the model work in small steps until its steps or its time are used up.
    Iterative(Iterative),
}

/// A model that works with tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Which of the granted tools it is offered; absent means all that the document names.
    pub tools: Option<Vec<String>>,
    /// How often it is asked at most.
    pub max_steps: u32,
    /// How often it may submit, as long as the answer is wrong.
    pub attempts: u32,
    /// What it is told when it calls no tool.
    pub continue_message: Option<String>,
    /// What it is told first, beside what it can do.
    pub instructions: Option<String>,
}

/// A model that works in small steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iterative {
    /// Which of the granted tools it is offered; absent means all that the document names.
    pub tools: Option<Vec<String>>,
    /// How many steps it has.
    pub max_steps: u32,
    /// Milliseconds that it has; absent means as long as the sample.
    pub time: Option<u64>,
    /// How many of the last messages the model is sent.
    pub keep_messages: usize,
    /// How many bytes of a message the model is sent.
    pub max_message: usize,
    /// What it is told before every step but the first.
    pub continue_message: Option<String>,
    /// What it is told first.
    pub instructions: Option<String>,
}

/// What one sample may use up, beside the document's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Milliseconds of work, without waiting for others.
    pub working: Option<u64>,
    /// Messages of the conversation.
    pub messages: Option<u32>,
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// What the answers may cost.
    pub cost: Option<Dollars>,
}

/// What all samples together may use up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Milliseconds from the first sample to the last.
    pub time: Option<u64>,
    /// The rest, summed up over all samples.
    pub sums: Limits,
}

/// What a scripted model says next.
#[derive(Debug, Clone, PartialEq)]
pub struct MockReply {
    /// In words.
    pub text: String,
    /// The calls that it wants: name and arguments. Arguments that are a text are what a careless model writes.
    pub tool_calls: Vec<(String, Value)>,
}
