//! Files of the sandbox, by its guest, which lets no path leave the root.

use log::event::What;
use log::message::{ToolError, ToolErrorKind};
use sandbox::{Confined, FailureKind, FileKind, SessionError};
use serde_json::json;

use super::disk::{Entry, Failed, Sort};
use super::guard::{self, Spot};
use super::names;
use crate::journal::now;

/// The permission bits of a new file.
const PERMISSIONS: u32 = 0o644;
/// The most characters of a path that an event repeats.
const SHOWN: usize = 200;

/// A root in a sandbox, and who is told what is done there.
pub(super) struct Sandboxed<'a> {
    pub(super) place: Confined<'a>,
    pub(super) tell: &'a (dyn Fn(What) + Sync),
}

impl Sandboxed<'_> {
    pub(super) async fn read(&self, spot: &Spot, limit: u64) -> Result<Vec<u8>, Failed> {
        let read = self.place.read(&spot.path, limit).await.map_err(|error| failed(&error, spot, limit));
        self.record("read_file", spot, read.as_ref().map(Vec::len));
        read
    }

    pub(super) async fn write(&self, spot: &Spot, bytes: &[u8]) -> Result<(), Failed> {
        let written = self.place.write(&spot.path, bytes, PERMISSIONS).await;
        let written = written.map_err(|error| failed(&error, spot, u64::MAX));
        self.record("write_file", spot, written.as_ref().map(|()| bytes.len()));
        written
    }

    pub(super) async fn list(&self, spot: &Spot) -> Result<Vec<Entry>, Failed> {
        let entries = self.place.list(&spot.path).await.map_err(|error| failed(&error, spot, u64::MAX))?;
        let sort = |kind| match kind {
            FileKind::File => Sort::File,
            FileKind::Directory => Sort::Directory,
            FileKind::Link => Sort::Link,
            FileKind::Other => Sort::Other,
        };
        Ok(entries.into_iter().map(|entry| Entry { name: entry.name, sort: sort(entry.stat.kind) }).collect())
    }

    /// Lengths, never contents.
    fn record(&self, action: &str, spot: &Spot, done: Result<usize, &Failed>) {
        let length = done.ok().map(|length| format!("({length} bytes)"));
        let (input, output) = if action == "write_file" { (length, None) } else { (None, length) };
        let options = done.err().map(|failed| [("error".to_owned(), json!(failed.error.kind))].into_iter().collect());
        (self.tell)(What::Sandbox {
            action: action.into(),
            cmd: None,
            options,
            file: Some(spot.shown.chars().take(SHOWN).collect()),
            input,
            result: None,
            output,
            completed: Some(now()),
        });
    }
}

fn failed(error: &SessionError, spot: &Spot, limit: u64) -> Failed {
    let refused = |why: &str| ToolError {
        kind: ToolErrorKind::Permission,
        message: format!("Access denied: '{}' {why}", spot.shown),
    };
    let SessionError::Failed { kind, message } = error else {
        let unavailable = ToolError { kind: ToolErrorKind::SandboxUnavailable, message: error.to_string() };
        return Failed { error: unavailable, gone: Some(error.clone()) };
    };
    let other = |kind| ToolError { kind, message: names::shown(message) };
    Failed::from(match kind {
        FailureKind::NotFound => guard::not_found(spot),
        FailureKind::IsADirectory => guard::is_a_directory(spot),
        FailureKind::NotADirectory => guard::not_a_directory(spot),
        FailureKind::TooLarge if limit < u64::MAX => guard::too_large(None, limit),
        FailureKind::Link => refused("is a symbolic link, or lies behind one: links are not followed"),
        FailureKind::HardLink => refused("has more than one name (a hard link), and one may lie outside the root"),
        FailureKind::NotRegular => refused("is not a regular file"),
        FailureKind::PermissionDenied => refused("may not be used by this user"),
        FailureKind::Invalid => other(ToolErrorKind::Parsing),
        FailureKind::TooLarge | FailureKind::Exhausted | FailureKind::ProcessLimit => other(ToolErrorKind::Limit),
        FailureKind::UnknownUser | FailureKind::UnmappedUser | FailureKind::Conflict | FailureKind::Other => {
            other(ToolErrorKind::Unknown)
        }
    })
}
