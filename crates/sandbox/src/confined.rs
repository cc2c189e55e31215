//! Files under one directory of a sandbox: no path, link or swap leads out of it. The guest walks (`guest/src/within.rs`).

use wire::{Entry, Host, Look, MAX_FRAME, Stat, User, Within};

use crate::operation::{Event, Running};
use crate::sandbox::{Sandbox, contents, entries, found, write_out};
use crate::session::SessionError;

/// What is to be done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only reading.
    Read,
    /// Reading and writing.
    Write,
}

/// A directory of a sandbox, and whose rights count in it. Paths are relative to it; `..`, links in any part, files with
/// more than one name, pipes and devices are refused.
#[derive(Debug, Clone)]
pub struct Confined<'a> {
    sandbox: &'a Sandbox,
    root: String,
    user: User,
}

impl Sandbox {
    /// Works under `root`, an absolute path without links.
    pub fn confined(&self, root: impl Into<String>, user: User) -> Confined<'_> {
        Confined { sandbox: self, root: root.into(), user }
    }
}

impl Confined<'_> {
    fn begin(&self, path: &str, first: impl FnOnce(u32, Within) -> Host) -> Result<Running, SessionError> {
        if path.len() + self.root.len() > MAX_FRAME / 2 {
            let message = format!("a path of {} bytes is too long", path.len());
            return Err(SessionError::Failed { kind: wire::FailureKind::Invalid, message });
        }
        let within = Within { root: self.root.clone(), path: path.to_owned(), user: self.user.clone() };
        self.sandbox.session().begin(|id| first(id, within))
    }

    fn look(&self, path: &str, look: Look) -> Result<Running, SessionError> {
        self.begin(path, |id, within| Host::LookWithin { id, within, look })
    }

    /// Reads a regular file of at most `limit` bytes.
    pub async fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SessionError> {
        contents(self.begin(path, |id, within| Host::ReadWithin { id, within, limit })?, limit).await
    }

    /// Writes a file, making its parents. Whoever reads sees the old file or the new one; a file that was there keeps its
    /// permissions.
    pub async fn write(&self, path: &str, contents: &[u8], permissions: u32) -> Result<(), SessionError> {
        write_out(self.begin(path, |id, within| Host::WriteWithin { id, within, permissions })?, contents).await
    }

    /// What is at a path; a link itself.
    pub async fn stat(&self, path: &str) -> Result<Option<Stat>, SessionError> {
        found(self.look(path, Look::Stat)?).await
    }

    /// What is in a directory.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, SessionError> {
        entries(self.look(path, Look::List)?).await
    }

    /// Whether the root can be worked in; for writing it is made if it is not there.
    pub async fn ready(&self, access: Access) -> Result<(), SessionError> {
        let look = match access {
            Access::Read => Look::Readable,
            Access::Write => Look::Writable,
        };
        match self.look("", look)?.next().await {
            Event::Done(_) => Ok(()),
            Event::Gone(error) => Err(error),
            _ => Err(SessionError::Died("its guest answered a question with something else".into())),
        }
    }
}
