//! What went wrong, in the words of the protocol.

use std::io;

use rustix::io::Errno;
use wire::FailureKind;

/// The longest message that is sent.
const MAX_MESSAGE: usize = 400;

/// Why something could not be done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            let end = (0..=MAX_MESSAGE).rev().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
            message.truncate(end);
        }
        Self { kind, message }
    }

    /// From an error of the kernel; `what` is what was touched.
    pub(crate) fn from_errno(errno: Errno, what: &str) -> Self {
        let kind = match errno {
            Errno::NOENT => FailureKind::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => FailureKind::PermissionDenied,
            Errno::ISDIR => FailureKind::IsADirectory,
            Errno::NOTDIR => FailureKind::NotADirectory,
            Errno::FBIG | Errno::TOOBIG => FailureKind::TooLarge,
            Errno::AGAIN => FailureKind::ProcessLimit,
            Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC | Errno::DQUOT => FailureKind::Exhausted,
            Errno::INVAL | Errno::NAMETOOLONG | Errno::LOOP => FailureKind::Invalid,
            _ => FailureKind::Other,
        };
        Self::new(kind, format!("{what}: {}", io::Error::from(errno)))
    }

    pub(crate) fn from_io(error: &io::Error, what: &str) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(errno) => Self::from_errno(errno, what),
            None => Self::new(FailureKind::Other, format!("{what}: {error}")),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, message)
    }
}
