//! Files, in memory or in the sandbox.

use log::message::ToolErrorKind;
use sandbox::Sandbox;

use super::schema::Arguments;
use super::{Called, Hands, Tool};

/// The files of one sample.
#[derive(Default)]
pub(crate) struct Files;

pub(super) async fn call(
    _tool: Tool,
    _arguments: &Arguments,
    _sandbox: Option<&Sandbox>,
    _hands: &Hands<'_>,
) -> Called {
    Called::error(ToolErrorKind::Unknown, "not built yet")
}
