//! Why something that a lane needs is not there.

use crate::process::RunError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// This machine lacks it: a lane is skipped for that, and fails in CI.
    #[error("{0}")]
    Missing(String),
    /// It should be there, but making it failed.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

impl SetupError {
    /// A command that failed, with the end of what it printed.
    pub(crate) fn command(what: &str, log: &std::path::Path) -> Self {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let end = &lines[lines.len().saturating_sub(20)..];
        Self::Failed(format!("{what} failed:\n{}", end.join("\n")))
    }
}

impl From<RunError> for SetupError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Interrupted => Self::Interrupted,
            RunError::Start { ref source, .. } => Self::Failed(format!("{error}: {source}")),
            RunError::Wait(_) | RunError::TooLong(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<std::io::Error> for SetupError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
