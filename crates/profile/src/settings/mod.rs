//! Settings in layers: default < file < environment < command line, each with its provenance.
//!
//! The environment may only narrow the file: what would widen it becomes an obstacle that names variable and file. The
//! command line belongs to the operator and may do both.

mod environment;
mod layers;
mod raise;
mod resolve;
mod switches;

pub use environment::{Environment, Switch, VARIABLES};
pub use layers::{Provenance, Source};
pub use resolve::{FileToolsInForce, Overrides, Request};
