//! Evaluations: a task file becomes samples, each solved in a sandbox of its own, scored, and written into a log.
//!
//! [`Task`](task::Task) → [`check`] → [`Job`] → [`evaluate`]. Start reading at `sample.rs`: one sample's life.

mod approval;
mod audit;
mod budget;
mod check;
mod display;
mod header;
mod journal;
mod model;
mod network;
mod phases;
mod place;
mod provider_tools;
mod run;
mod sample;
mod score;
mod solve;
pub mod task;
mod tools;

pub use approval::{About, Choice, Heard, Mark, Named, Person, Policy, PolicyError, Question, Reply, Replying, View};
pub use check::check;
pub use display::{Display, Progress};
pub use model::{Chosen, DEFAULT_MODEL, ModelError, Models};
pub use place::PlaceError;
pub use provider_tools::check_models;
pub use run::{EvalFailure, Evaluation, FailOn, Job, Settings, Surroundings, evaluate};
pub use tools::{Keys, MissingKey};
