//! What an evaluation leaves behind: a log that Inspect's own tools open, and an audit chain of our own.
//!
//! [`message`] and [`event`] are the vocabulary, in the shapes that Inspect reads (its log schema, version 2).
//! [`Recorder`] writes a log, sample by sample; [`Reader`] opens one.
//! [`audit`] keeps a chain of decisions beside it, and [`redact`] takes secrets out of both.

use std::fmt::Write as _;

pub mod audit;
mod canonical;
mod content;
mod error;
pub mod event;
mod expectation;
mod hashed;
mod lenient;
pub mod message;
mod name;
mod place;
mod plain;
pub mod raw;
mod reader;
mod recorder;
pub mod redact;
mod sample;
mod squeeze;
mod summary;
mod time;
mod written;
mod zip;
mod zipped;

pub use canonical::canonical;
pub use error::LogError;
pub use expectation::Expectation;
pub use name::{Format, SampleName};
pub use reader::{Glance, ReadError, Reader, Samples};
pub use recorder::{End, Finished, Recorder, Start, Status, digest};
pub use redact::Redactor;
pub use sample::{SampleEnd, SampleRecorder};
pub use time::rfc3339;
pub use written::{Conversation, Repeated, Written};

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
