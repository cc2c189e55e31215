//! What an evaluation leaves behind: a log that Inspect's own tools open, and an audit chain of our own.
//!
//! [`message`] and [`event`] are the vocabulary, in the shapes that Inspect reads (its log schema, version 2).

pub mod event;
pub mod message;
