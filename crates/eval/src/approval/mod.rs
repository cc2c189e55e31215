//! Who says yes to a call, a result or a name: a chain of approvers, each of whom decides or passes on.
//!
//! [`Policy`] is what a preset or a file says (`policy.rs`, `parse.rs`), [`Gate`] asks by it in one sample (`gate.rs`), and
//! what was approved is a [`Permit`], without which nothing is called (`permit.rs`).

mod answer;
mod approver;
mod bound;
mod clock;
mod command;
mod gate;
mod parse;
mod permit;
mod person;
mod policy;
mod predicate;
#[cfg(test)]
mod tests;
mod unaskable;
mod view;
mod words;

pub(crate) use gate::{Context, Gate, Review, Ruling};
pub(crate) use permit::{Key, Permit};
pub use person::{About, Choice, Heard, Person, Question, Reply, Replying};
pub use policy::{Named, Policy, PolicyError};
pub use view::{Mark, View};

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
