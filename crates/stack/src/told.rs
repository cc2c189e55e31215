//! What happens with services, told to whoever writes it down.

use std::fmt;
use std::sync::Arc;

use sandbox::Outcome;
use serde::Serialize;

/// Who is told of everything that happens with a sample's services.
pub type Told = Arc<dyn Fn(&Event) + Send + Sync>;

/// Something that happened with a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Which.
    pub service: String,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened with a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum What {
    /// Its sandbox is there and its network is served.
    Ready,
    /// Its process was started.
    Started {
        /// How often it was started before.
        restarts: u32,
    },
    /// Its process ended.
    Ended {
        /// How.
        end: End,
        /// The end of what it said: untrusted text.
        output: String,
    },
    /// Its health check succeeds.
    Healthy,
    /// Its health check fails.
    Unhealthy {
        /// What the check said: untrusted text.
        output: String,
    },
    /// A service that it does not require is not what it waits for; it starts all the same.
    WaitedInVain {
        /// Whom it waited for.
        needs: String,
        /// Why that was in vain: untrusted text.
        why: String,
    },
    /// Its sandbox was ended.
    Stopped,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It could not be started: in the guest's words.
    NotStarted(String),
    /// Its sandbox died: in our words.
    Died(String),
}

impl End {
    pub(crate) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Exited(code) => Self::Exited(code),
            Outcome::Signalled(signal) => Self::Signalled(signal),
            // Nobody set a time or a limit for it, so somebody asked for its end.
            Outcome::TimedOut | Outcome::OutputLimit(_) | Outcome::Killed => Self::Signalled(9),
        }
    }

    /// Whether it did what it was there for.
    pub fn is_success(&self) -> bool {
        *self == Self::Exited(0)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Signalled(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted(why) => write!(f, "could not be started: {}", plain(why)),
            Self::Died(why) => write!(f, "is gone: {}", plain(why)),
        }
    }
}

/// Words from inside, fit to be shown: control characters are gone, but for the ends of lines.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() && sign != '\n' { ' ' } else { sign }).collect()
}
