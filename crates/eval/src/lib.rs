//! Evaluations: a task file becomes samples, each solved in a sandbox of its own, scored, and written into a log.
//!
//! [`Task`](task::Task) → [`check`] → [`Job`] → [`evaluate`]. Start reading at `sample.rs`: one sample's life.

mod approval;
mod audit;
mod budget;
mod check;
mod display;
mod earlier;
mod fail_on;
mod gone;
mod header;
mod invocation;
mod journal;
mod model;
mod network;
mod offered;
mod phases;
mod place;
mod provider_tools;
mod queue;
mod rescore;
mod run;
mod sample;
mod score;
mod solve;
pub mod task;
mod told;
mod tools;
mod vouched;
mod writable;

pub use approval::{About, Choice, Heard, Mark, Named, Person, Policy, PolicyError, Question, Reply, Replying, View};
pub use audit::Checkpoint;
pub use check::check;
pub use display::{Display, Progress};
pub use earlier::{Dropped, Earlier, EarlierError, Finished};
pub use fail_on::{FailOn, ParseFailOnError};
pub use invocation::Invocation;
pub use model::{Chosen, DEFAULT_MODEL, ModelError, Models};
pub use offered::offered;
pub use place::PlaceError;
pub use provider_tools::check_models;
pub use rescore::{Action, Prepared, Rescore, RescoreFailure, Rescored, rescore};
pub use run::{EvalFailure, Evaluation, Job, Settings, Surroundings, evaluate, unique_name};
pub use tools::{Keys, MissingKey};
pub use vouched::Vouched;
pub use writable::{ImageDirectory, Inputs, check_inputs};
