//! Searching the web, and the text of its pages.

use log::message::ToolErrorKind;
use sandbox::Sandbox;

use super::{Called, Hands};

/// Who is asked.
#[derive(Default)]
pub(crate) struct Search;

pub(super) async fn fetch(_url: &str, _sandbox: &Sandbox, _hands: &Hands<'_>) -> Called {
    Called::error(ToolErrorKind::Unknown, "not built yet")
}

pub(super) async fn search(_query: &str, _hands: &Hands<'_>) -> Called {
    Called::error(ToolErrorKind::Unknown, "not built yet")
}
