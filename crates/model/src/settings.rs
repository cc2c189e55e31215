//! What a caller may choose beside the request.

use std::time::Duration;

use crate::{CacheSettings, GenerateConfig, Price};

/// How a provider is asked. The default is right but for tests and odd networks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long anything may take.
    pub timing: Timing,
    /// How patience grows.
    pub backoff: Backoff,
    /// Requests at the same time, at most.
    pub max_connections: usize,
    /// The longest reply, in bytes.
    pub max_reply: u64,
    /// Where answers are kept; absent means nowhere.
    pub cache: Option<CacheSettings>,
    /// What answers cost; absent means that nobody knows.
    pub price: Option<Price>,
}

/// How long anything may take.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Until a connection stands, with TLS.
    pub connect: Duration,
    /// Until the head of the reply is there, which is nearly all of the time a model takes; then until the next byte.
    pub read: Duration,
    /// For one attempt.
    pub attempt: Duration,
    /// For an answer, with all repetitions.
    pub total: Duration,
}

/// How patience grows.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The longest wait before the first repetition; twice that before the second, and so on.
    pub first: Duration,
    /// The longest wait of all.
    pub most: Duration,
    /// How often a request is repeated.
    pub retries: u32,
}

impl Settings {
    /// With what a task says of them.
    #[must_use]
    pub fn with(mut self, config: &GenerateConfig) -> Self {
        if let Some(retries) = config.max_retries {
            self.backoff.retries = retries;
        }
        if let Some(seconds) = config.timeout {
            self.timing.total = Duration::from_secs(seconds.into());
        }
        if let Some(seconds) = config.attempt_timeout {
            self.timing.attempt = Duration::from_secs(seconds.into());
            self.timing.read = self.timing.attempt;
        }
        if let Some(most) = config.max_connections {
            self.max_connections = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        }
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            backoff: Backoff::default(),
            max_connections: 10,
            max_reply: 16 << 20,
            cache: None,
            price: None,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_mins(10),
            attempt: Duration::from_mins(15),
            total: Duration::from_hours(1),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(2), most: Duration::from_mins(1), retries: 8 }
    }
}
