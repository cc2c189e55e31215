//! Files of one sandbox carried to another one of the same image, where the provider cannot keep them itself.
//!
//! The guests do it (`guest/src/attempt/send_tree.rs`, `take_tree.rs`); the host moves bytes and counts them. Contents are the
//! agent's: a failure of either side that is not the death of a sandbox is caused by them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

use thiserror::Error;
use wire::{Attempt, FailureKind, Host, MAX_CHUNK, Part, User};

use crate::sandbox::Sandbox;
use crate::session::SessionError;
use crate::transfer::{Reading, Writing};

/// Why files could not be carried.
#[derive(Debug, Error)]
pub enum CarryError {
    /// What the sandbox holds cannot be carried: too much, too deep, or not to be read or made again.
    #[error("the sandbox's files cannot be carried to the next phase: {0}")]
    Contents(String),
    /// A sandbox failed.
    #[error(transparent)]
    Session(SessionError),
    /// This host could not keep them.
    #[error("cannot keep files of the sandbox for the score phase")]
    Keep(#[source] io::Error),
}

impl From<SessionError> for CarryError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Failed { message, .. } => Self::Contents(message),
            error => Self::Session(error),
        }
    }
}

/// Programs, settings and names in `/` that a sandbox changed, kept on this host in a file without a name.
#[derive(Debug)]
pub struct SystemChanges(File);

impl Sandbox {
    /// Keeps what changed of programs, settings and names in `/` since the sandbox started, of at most `limit` bytes. `shared` are
    /// paths of mounts that other sandboxes have too.
    pub async fn keep_system(&self, shared: &[String], limit: u64) -> Result<SystemChanges, CarryError> {
        let mut reading = self.send_tree(Part::System, shared, true, limit)?;
        let mut kept = tempfile::tempfile().map_err(CarryError::Keep)?;
        while let Some(bytes) = reading.next().await? {
            kept.write_all(&bytes).map_err(CarryError::Keep)?;
        }
        kept.rewind().map_err(CarryError::Keep)?;
        Ok(SystemChanges(kept))
    }

    /// Makes what was kept of another sandbox. Nothing may run in this one.
    pub async fn take_system(&self, changes: &mut SystemChanges) -> Result<(), CarryError> {
        changes.0.rewind().map_err(CarryError::Keep)?;
        let mut writing = self.take_tree(Part::System, &[], &[])?;
        let mut buffer = vec![0; MAX_CHUNK];
        loop {
            match changes.0.read(&mut buffer).map_err(CarryError::Keep)? {
                0 => break,
                count => writing.write(&buffer[..count]).await?,
            }
        }
        writing.finish().await?;
        Ok(())
    }

    /// Makes this sandbox's directories in `/`, but for programs and settings, as those of `from`, of at most `limit` bytes. Of
    /// directories that are not here already only `declared` ones are made. Nothing may run in either sandbox.
    pub async fn take_data(
        &self,
        from: &Self,
        declared: &[String],
        shared: &[String],
        limit: u64,
    ) -> Result<(), CarryError> {
        match self.copy_data(from, declared, shared, true, limit).await {
            // An entry that did not change there is another one here: all are sent then.
            Err(SessionError::Failed { kind: FailureKind::Conflict, .. }) => {
                Ok(self.copy_data(from, declared, shared, false, limit).await?)
            }
            copied => Ok(copied?),
        }
    }

    async fn copy_data(
        &self,
        from: &Self,
        declared: &[String],
        shared: &[String],
        changes_only: bool,
        limit: u64,
    ) -> Result<(), SessionError> {
        let mut reading = from.send_tree(Part::Data, shared, changes_only, limit)?;
        let mut writing = self.take_tree(Part::Data, declared, shared)?;
        while let Some(bytes) = reading.next().await? {
            writing.write(&bytes).await?;
        }
        writing.finish().await?;
        Ok(())
    }

    fn send_tree(
        &self,
        part: Part,
        shared: &[String],
        changes_only: bool,
        limit: u64,
    ) -> Result<Reading, SessionError> {
        let attempt = Attempt::SendTree { part, shared: shared.to_vec(), changes_only };
        let running =
            self.session().begin(|id| Host::Attempt { id, attempt, user: User::Default, timeout_ms: u64::MAX })?;
        Ok(Reading::limited(running, limit))
    }

    fn take_tree(&self, part: Part, declared: &[String], shared: &[String]) -> Result<Writing, SessionError> {
        let attempt = Attempt::TakeTree { part, declared: declared.to_vec(), shared: shared.to_vec() };
        let running =
            self.session().begin(|id| Host::Attempt { id, attempt, user: User::Default, timeout_ms: u64::MAX })?;
        Ok(Writing::of(running))
    }
}
