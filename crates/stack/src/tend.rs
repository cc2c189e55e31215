//! A service's process: started, listened to, started again where that is wanted.

use std::sync::Arc;
use std::time::Duration;

use sandbox::{Event as Heard, Sandbox, SessionError};
use tokio::sync::watch;

use crate::service::{Process, Restart};
use crate::tail::Tail;
use crate::told::{End, Event, Told, What};

/// How long is waited before a process is started again: at first, and at most.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a service has come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) life: Life,
    /// What its last health check said; `None`: it succeeded, or there was none yet.
    pub(crate) complaint: Option<String>,
    pub(crate) health: Vitals,
}

/// Whether a service's process runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Life {
    /// Not yet.
    #[default]
    Waits,
    /// It does, or there is none to run and its sandbox is there.
    Runs,
    /// It has ended, and is not started again.
    Ended(End),
}

/// What is known of a service's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Vitals {
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

impl State {
    /// In a few words.
    pub(crate) fn summary(&self) -> String {
        match (&self.life, self.health) {
            (Life::Waits, _) => "it was not started".into(),
            (Life::Ended(end), _) => format!("it {end}"),
            (Life::Runs, Vitals::Healthy) => "it runs and is healthy".into(),
            (Life::Runs, Vitals::Unhealthy) => "it runs and is not healthy".into(),
            (Life::Runs, Vitals::Unknown) => "it runs, and was never healthy".into(),
        }
    }
}

/// One service as everybody in its sample sees it.
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) state: watch::Sender<State>,
    pub(crate) tail: Tail,
    pub(crate) told: Told,
}

impl Seen {
    pub(crate) fn new(name: &str, told: Told) -> Arc<Self> {
        let (state, _) = watch::channel(State::default());
        Arc::new(Self { name: name.to_owned(), state, tail: Tail::default(), told })
    }

    pub(crate) fn tell(&self, what: What) {
        (self.told)(&Event { service: self.name.clone(), what });
    }

    pub(crate) fn live(&self, life: Life) {
        self.state.send_modify(|state| state.life = life);
    }
}

impl Restart {
    /// Whether a process that ended is started again, having been so `times` before.
    fn applies(self, end: &End, times: u32) -> bool {
        match (self, end) {
            // Where it cannot start, it will not the next time; where the sandbox is gone there is no next time.
            (_, End::Died(_) | End::NotStarted(_)) | (Self::Never, _) => false,
            (Self::Always, _) => true,
            (Self::OnFailure(most), end) => !end.is_success() && most.is_none_or(|most| times < most),
        }
    }
}

/// Runs a service's process for as long as it is to run.
pub(crate) async fn tend(seen: Arc<Seen>, sandbox: Sandbox, process: Process, restart: Restart) {
    let mut pause = PAUSE;
    for restarts in 0..u32::MAX {
        seen.live(Life::Runs);
        seen.tell(What::Started { restarts });
        let end = once(&seen, &sandbox, &process).await;
        let again = restart.applies(&end, restarts);
        if !again {
            seen.live(Life::Ended(end.clone()));
        }
        seen.tell(What::Ended { end, output: seen.tail.shown() });
        if !again {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// From its start to its end.
async fn once(seen: &Seen, sandbox: &Sandbox, process: &Process) -> End {
    let mut running = match sandbox.start(process.exec()) {
        Ok(running) => running,
        Err(error) => return failed(error),
    };
    if !process.input_open {
        running.input().end().await;
    }
    loop {
        match running.next().await {
            Heard::Output(_, bytes) => seen.tail.push(&bytes),
            Heard::Ended(outcome) => return End::of(outcome),
            Heard::Gone(error) => return failed(error),
            _ => return End::Died("its guest answered a command with something else".into()),
        }
    }
}

fn failed(error: SessionError) -> End {
    match error {
        SessionError::Failed { message, .. } => End::NotStarted(message),
        SessionError::Died(why) | SessionError::Unresponsive(why) => End::Died(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_again() {
        let (good, bad, gone) = (End::Exited(0), End::Signalled(11), End::Died("x".into()));
        for (restart, end, times, expected) in [
            (Restart::Never, &bad, 0, false),
            (Restart::Always, &good, 1000, true),
            (Restart::Always, &gone, 0, false),
            (Restart::OnFailure(None), &good, 0, false),
            (Restart::OnFailure(None), &bad, 1000, true),
            (Restart::OnFailure(Some(2)), &bad, 1, true),
            (Restart::OnFailure(Some(2)), &bad, 2, false),
        ] {
            assert_eq!(restart.applies(end, times), expected, "{restart:?} {end:?} {times}");
        }
    }
}
