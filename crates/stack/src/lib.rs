//! The services of a sample: sandboxes that start in order, reach each other by name, and end together.
//!
//! Which engine makes them is not known here: a [`Service`] is a [`sandbox::Kind`] with a process to start in it, what it
//! may reach, how its health is found out and what it waits for. [`Stack::start`] starts all of them for one sample, or
//! says which one failed, how, and with what last words; whatever fails, nothing is left behind.

mod error;
mod gateway;
mod health;
mod running;
mod service;
mod start;
mod tail;
mod tend;
mod told;

pub use error::StackError;
pub use gateway::Gateway;
pub use running::Running;
pub use service::{Blueprint, Condition, Health, Need, Process, Restart, Service};
pub use start::{Stack, Start};
pub use told::{End, Event, Told, What};
