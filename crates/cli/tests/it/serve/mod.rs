//! The HTTP API with the real program and real sandboxes, over a socket and over TCP.
#![expect(clippy::unwrap_used, clippy::panic, clippy::format_push_string, reason = "a test may stop at its own set-up")]

pub(crate) mod client;
mod commands;
mod files;
mod hostile;
mod lives;
mod network;
mod owners;
mod receipts;
mod sandboxes;
