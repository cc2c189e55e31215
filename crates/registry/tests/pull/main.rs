//! The client against a strict registry: what it asks, whom it tells what, and what it does not believe.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

mod documents;
mod downloads;
mod helpers;
mod image;
mod logins;
mod redirects;
mod secrets;
mod secure;
mod server;
mod silence;
