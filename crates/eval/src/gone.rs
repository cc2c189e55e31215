//! Why a sandbox is gone, and whether what runs inside can have caused that.

use profile::Plan;
use sandbox::{Sandbox, SessionError};
use thiserror::Error;

use crate::solve::Stop;

/// Why a sandbox cannot be used any more. All but the last count as the agent's doing: an error would take the sample out of the
/// denominator.
#[derive(Debug, Error)]
pub(crate) enum Gone {
    /// Its guest is there and does not respond: what runs inside can starve it.
    #[error("{0}")]
    Unresponsive(String),
    /// Its guest was killed because the sandbox's memory was full of what outlives processes: files, shared memory.
    #[error("the sandbox ran out of memory, and its guest was killed")]
    OutOfMemory,
    /// Any other reason: the provider's fault.
    #[error("{0}")]
    Failed(String),
}

impl Gone {
    /// Finds out why an operation in a sandbox failed with `error`.
    pub(crate) async fn why(sandbox: &Sandbox, error: SessionError) -> Self {
        match error {
            SessionError::Unresponsive(_) => Self::Unresponsive(error.to_string()),
            SessionError::Died(_) if sandbox.ran_out_of_memory().await => Self::OutOfMemory,
            error => Self::Failed(error.to_string()),
        }
    }

    /// Finds out why a sandbox's network is not served any more. A guest that relays it takes it along when it dies.
    pub(crate) async fn network(sandbox: &Sandbox, lost: &str) -> Self {
        let capture_lost = Self::Failed(format!("capture_lost: {lost}"));
        match sandbox.session().end() {
            None => capture_lost,
            Some(error) => match Self::why(sandbox, error).await {
                Self::Failed(_) => capture_lost,
                of_agent => of_agent,
            },
        }
    }

    /// The end of the agent's phase: a limit if the agent can have caused it, so that what it left is judged.
    pub(crate) fn stop(self, plan: &Plan) -> Stop {
        let message = self.to_string();
        match self {
            Self::Unresponsive(_) => {
                let limit = std::time::Duration::from_millis(plan.limits.tool_timeout.amount.0).as_secs_f64();
                Stop::Limit { kind: "time", limit, message }
            }
            Self::OutOfMemory => {
                #[expect(clippy::cast_precision_loss, reason = "an amount of memory for the log")]
                let limit = plan.limits.memory.amount.0 as f64;
                Stop::Limit { kind: "custom", limit, message }
            }
            Self::Failed(why) => Stop::Failed(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sandbox::{Autopsy, Backing, Session, StartError};

    use super::*;

    /// A sandbox whose guest ends with `memory` full, or not.
    struct Ended {
        memory_was_full: bool,
    }

    impl Backing for Ended {
        fn stop(&mut self) -> Result<(), StartError> {
            Ok(())
        }

        fn autopsy(&self) -> Option<Autopsy> {
            let full = self.memory_was_full;
            Some(Arc::new(move || full))
        }
    }

    /// A lost network of a guest that was killed for memory is the agent's; one that is lost while the guest lives, or of a guest
    /// that died otherwise, is not.
    #[tokio::test]
    async fn a_network_that_ends_with_a_guest_that_had_no_memory_is_the_agents() {
        for (memory_was_full, dies, expected) in [
            (true, true, "the sandbox ran out of memory, and its guest was killed"),
            (false, true, "capture_lost: the listener is gone"),
            (true, false, "capture_lost: the listener is gone"),
        ] {
            let (ours, guest) = tokio::net::UnixStream::pair().unwrap();
            let sandbox = Sandbox::new(Session::open_at_once(ours), Box::new(Ended { memory_was_full }));
            let kept = (!dies).then_some(guest);
            if dies {
                sandbox.session().gone().await;
            }
            let gone = Gone::network(&sandbox, "the listener is gone").await;
            assert_eq!(gone.to_string(), expected);
            drop(kept);
        }
    }
}
