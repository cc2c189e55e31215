//! Attempts of probes: run like commands, answered by the guest's own code.

use std::time::Duration;

use wire::{Attempt, Attempted, Host, MAX_ATTEMPTED, Outcome, Stream, User};

use crate::operation::Event;
use crate::sandbox::Sandbox;
use crate::session::SessionError;

/// How much longer than its time an attempt may take before the sandbox is taken for dead.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that an answer may be: what was read, and a little around it.
const MAX_ANSWER: usize = 4 * MAX_ATTEMPTED;

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// It came to its end.
    Answered(Attempted),
    /// It did not: killed, or its time was up.
    Ended(Outcome),
}

impl Sandbox {
    /// Tries something inside, as a command of `user` would.
    pub async fn attempt(&self, attempt: Attempt, user: User, timeout: Duration) -> Result<Tried, SessionError> {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let mut running = self.session().begin(|id| Host::Attempt { id, attempt, user, timeout_ms })?;
        let collect = async {
            let mut answer = Vec::new();
            loop {
                match running.next().await {
                    Event::Output(Stream::Out, bytes) if answer.len() + bytes.len() <= MAX_ANSWER => {
                        answer.extend(bytes);
                    }
                    Event::Output(Stream::Out, _) => {
                        return Err(SessionError::Died("its guest answered an attempt without end".into()));
                    }
                    Event::Output(Stream::Err, _) => {}
                    Event::Ended(Outcome::Exited(0)) => {
                        let decoded = Attempted::decode(&answer);
                        let wrong = || SessionError::Died("its guest answered an attempt with something else".into());
                        return decoded.map(Tried::Answered).ok_or_else(wrong);
                    }
                    Event::Ended(outcome) => return Ok(Tried::Ended(outcome)),
                    Event::Gone(error) => return Err(error),
                    _ => return Err(SessionError::Died("its guest answered an attempt with something else".into())),
                }
            }
        };
        match tokio::time::timeout(timeout.saturating_add(PATIENCE), collect).await {
            Ok(tried) => tried,
            Err(_) => Err(SessionError::Died("its guest did not end an attempt whose time was up".into())),
        }
    }
}
