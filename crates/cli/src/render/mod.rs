//! Records as pages for people, or JSON for machines.

mod obstacles;
mod plan;
mod settings;

pub(crate) use obstacles::{problems, refusal};
pub(crate) use plan::{checked, explanation, plan};
pub(crate) use settings::config;
