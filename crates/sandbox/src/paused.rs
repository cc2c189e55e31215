//! A sandbox whose processes stand still: frozen by the kernel where a control group can, else stopped by the guest, which
//! then tells at the end whether one of them ran all the same.

use tokio::task::{JoinHandle, spawn_blocking};

use crate::sandbox::StartError;
use crate::session::{Session, SessionError, Suspended};
use crate::snapshot::Changes;

/// Processes that stand still. Dropping it lets them go on too, but does not tell whether they stood still.
pub(crate) struct Paused {
    by: Option<By>,
}

enum By {
    /// The kernel holds them, the guest too; nothing inside can change that.
    Freezer {
        changes: Changes,
        session: Suspended,
        /// The freezing itself, while it is under way: they must not be thawed before they are frozen.
        freezing: Option<JoinHandle<Result<(), StartError>>>,
    },
    /// SIGSTOP by the guest, for hosts without a control group for us. A SIGCONT undoes it, so the guest compares what
    /// every thread had run before and after.
    Signals(Session),
}

impl Paused {
    /// Has them stand still. One caller at a time.
    pub(crate) async fn begin(session: &Session, changes: &Changes) -> Result<Self, SessionError> {
        // Held before anything is frozen: if this is dropped halfway, they go on.
        let (suspended, changes, frozen) = (session.suspend(), changes.clone(), changes.clone());
        let freezing = Some(spawn_blocking(move || frozen.freeze()));
        let mut paused = Self { by: Some(By::Freezer { changes, session: suspended, freezing }) };
        if let Some(By::Freezer { freezing, .. }) = &mut paused.by
            && settle(freezing).await
        {
            return Ok(paused);
        }
        paused.by = Some(By::Signals(session.clone()));
        session.pause().await?;
        Ok(paused)
    }

    /// Lets them go on; an error where one of them did not stand still.
    pub(crate) async fn end(mut self) -> Result<(), SessionError> {
        match self.by.take() {
            Some(by) => by.end().await,
            None => Ok(()),
        }
    }
}

/// Waits for the freezing, if it is under way; whether it succeeded.
async fn settle(freezing: &mut Option<JoinHandle<Result<(), StartError>>>) -> bool {
    let Some(handle) = freezing else { return false };
    let frozen = handle.await;
    *freezing = None;
    matches!(frozen, Ok(Ok(())))
}

impl By {
    async fn end(self) -> Result<(), SessionError> {
        match self {
            Self::Freezer { changes, session, mut freezing } => {
                settle(&mut freezing).await;
                let thawed = spawn_blocking(move || changes.thaw()).await;
                drop(session);
                match thawed {
                    Ok(Ok(())) => Ok(()),
                    _ => Err(SessionError::Died("it was frozen and does not go on".into())),
                }
            }
            Self::Signals(session) => session.resume().await,
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let Some(by) = self.by.take() {
            tokio::spawn(by.end());
        }
    }
}
