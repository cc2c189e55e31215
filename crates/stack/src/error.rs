//! Why the services of a sample are not there: which one, how, and its last words.

use std::time::Duration;

use egress::GatewayError;
use sandbox::StartError;

use crate::told::End;

/// Why a sample's services could not be started. Whose fault: the task's, unless a sandbox or the gateway says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// No sandbox could be had.
    #[error("the service `{service}` has no sandbox")]
    Make {
        /// Which.
        service: String,
        /// Why not.
        #[source]
        source: StartError,
    },
    /// Nobody serves its network.
    #[error("the service `{service}` has no network")]
    Network {
        /// Which.
        service: String,
        /// Why not.
        #[source]
        source: GatewayError,
    },
    /// Its process ended too early.
    #[error("the service `{service}` {end}{}", last(output))]
    Ended {
        /// Which.
        service: String,
        /// How it ended.
        end: End,
        /// The end of what it said: untrusted text.
        output: String,
    },
    /// Its health check fails.
    #[error("the service `{service}` is not healthy{}", last(output))]
    Unhealthy {
        /// Which.
        service: String,
        /// What its last check said, or the service itself: untrusted text.
        output: String,
    },
    /// It is waited for, and can never be what is waited for.
    #[error("the service `{by}` waits for `{service}`, which {why}")]
    Never {
        /// Who is waited for.
        service: String,
        /// Who waits.
        by: String,
        /// Why that is in vain.
        why: &'static str,
    },
    /// It took too long.
    #[error("the service `{service}` was not ready within {} s: {state}{}", deadline.as_secs_f32(), last(output))]
    TooSlow {
        /// Which.
        service: String,
        /// How long was waited.
        deadline: Duration,
        /// What it had come to.
        state: String,
        /// The end of what it said: untrusted text.
        output: String,
    },
    /// Another one failed first.
    #[error("the service `{service}` was not started, because another one failed")]
    Abandoned {
        /// Which.
        service: String,
    },
    /// There is no such service.
    #[error("there is no service `{service}`")]
    Unknown {
        /// Which.
        service: String,
    },
}

/// What is shown of last words, if there are any.
fn last(output: &str) -> String {
    let text = output.trim();
    if text.is_empty() { "; it said nothing".to_owned() } else { format!("; its last words: {text}") }
}
