//! Why a log cannot be written.

use std::io;
use std::path::{Path, PathBuf};

use crate::ReadError;

/// Why a log cannot be written. Whatever was recorded before still opens.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system says no: no space, no permission.
    #[error("cannot {action} of the log `{}`", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Two evaluations would have the same log.
    #[error("the log `{}` exists already", .0.display())]
    Exists(PathBuf),
    /// A sample's id cannot name a part of a log.
    #[error("a sample's id cannot hold a zero byte or be longer than {max} bytes", max = crate::name::MAX_ID)]
    SampleName,
    /// Samples of an earlier log cannot be copied.
    #[error("cannot keep the finished samples of an earlier log")]
    Keep(#[from] ReadError),
    /// Something came after the end.
    #[error("the log `{}` is finished", .0.display())]
    Finished(PathBuf),
}

impl LogError {
    /// Says of an error what was being done.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}
