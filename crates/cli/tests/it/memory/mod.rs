//! Small inputs that would take gigabytes of memory: every reader of the command ends within four times its input or 64 MiB,
//! whichever is more, with an error that says where.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod documents;
mod images;
mod limited;
mod logs;
mod replies;
mod requests;
mod zips;
