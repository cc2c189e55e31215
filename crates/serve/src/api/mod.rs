//! What is said over HTTP: bodies, handlers, problems, and the document that describes them.

mod approvals;
mod exec;
pub(crate) mod extract;
mod files;
mod health;
pub(crate) mod metrics;
mod openapi;
pub(crate) mod problem;
mod proof;
mod receipts;
mod records;
mod routes;
mod rules;
mod sandboxes;
mod sessions;
mod stream;
mod wish;

pub use openapi::openapi_text;
pub use wish::{ComposeWish, SandboxWish, VerifyWish};

pub(crate) use extract::{Caller, short};
pub(crate) use routes::router;
