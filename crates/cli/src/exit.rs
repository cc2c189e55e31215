//! How the command ends; the numbers are documented in the README and never change.

use std::process::ExitCode;

/// One documented exit code per way to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Failed: what was asked for could not be written.
    Failed,
    /// Usage or bad input.
    Input,
    /// Refused by profile or policy.
    Refused,
    /// The provider failed.
    Provider,
    /// What should be proven is not so.
    Unverified,
    /// Interrupted.
    Interrupted,
    /// `run`: the command's own code.
    Command(u8),
}

impl Exit {
    /// Of two endings the one that says more: what was interrupted, then what failed, then what never began.
    pub(crate) fn worse(self, other: Self) -> Self {
        let weight = |exit: Self| match exit {
            Self::Done => 0,
            Self::Input => 1,
            Self::Refused => 2,
            Self::Unverified => 3,
            Self::Provider => 4,
            Self::Failed | Self::Command(_) => 5,
            Self::Interrupted => 6,
        };
        if weight(other) > weight(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Input => 2,
            Exit::Refused => 3,
            Exit::Provider => 4,
            Exit::Unverified => 5,
            Exit::Interrupted => 130,
            Exit::Command(code) => code,
        })
    }
}
