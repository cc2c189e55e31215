//! How the command ends; the numbers are documented in the README and never change.

use std::process::ExitCode;

/// One documented exit code per way to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed: what was asked for could not be written.
    Failed = 1,
    /// Usage or bad input.
    Input = 2,
    /// Refused by profile or policy.
    Refused = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
