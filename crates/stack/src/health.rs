//! A service's health: a command that is run now and then.
//!
//! Until the first success it is run more often than the interval says, so that nobody waits longer than needed; failures
//! count no faster for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox::{Outcome, Overflow, Sandbox};

use crate::service::Health;
use crate::tail::end_of;
use crate::tend::{Seen, Vitals};
use crate::told::What;

/// How soon a service that was never healthy is looked at again.
const SOON: Duration = Duration::from_millis(250);
/// The shortest time between two looks, whatever is asked for.
const LEAST: Duration = Duration::from_millis(50);
/// What is kept of what a test says.
const SAID: usize = 4 << 10;

/// Failures in a row, counted as an interval would count them.
#[derive(Debug)]
struct Count {
    failures: u32,
    last: Instant,
}

impl Count {
    /// Whether this failure is the one too many.
    fn fails(&mut self, health: &Health, began: Instant, now: Instant) -> bool {
        let counts =
            now.duration_since(began) >= health.start_period && now.duration_since(self.last) >= health.interval;
        if counts {
            self.failures += 1;
            self.last = now;
        }
        self.failures >= health.retries.max(1)
    }

    fn succeeds(&mut self, now: Instant) {
        (self.failures, self.last) = (0, now);
    }
}

/// Looks after a service until it is stopped.
pub(crate) async fn watch(seen: Arc<Seen>, sandbox: Sandbox, health: Health) {
    let began = Instant::now();
    let mut count = Count { failures: 0, last: began };
    loop {
        let complaint = test(&sandbox, &health).await;
        let before = seen.state.borrow().health;
        let now = Instant::now();
        let after = match &complaint {
            None => {
                count.succeeds(now);
                Vitals::Healthy
            }
            Some(_) if count.fails(&health, began, now) => Vitals::Unhealthy,
            Some(_) => before,
        };
        seen.state.send_modify(|state| {
            state.health = after;
            state.complaint.clone_from(&complaint);
        });
        match (after, complaint) {
            (Vitals::Healthy, _) if before != after => seen.tell(What::Healthy),
            (Vitals::Unhealthy, Some(output)) if before != after => seen.tell(What::Unhealthy { output }),
            _ => {}
        }
        let pause = if after == Vitals::Unknown { health.interval.min(SOON) } else { health.interval };
        tokio::time::sleep(pause.max(LEAST)).await;
    }
}

/// What is wrong; `None`: nothing.
async fn test(sandbox: &Sandbox, health: &Health) -> Option<String> {
    let mut exec = health.test.exec();
    exec.timeout_ms = Some(u64::try_from(health.timeout.as_millis()).unwrap_or(u64::MAX).max(1));
    match sandbox.exec(exec, b"", SAID, Overflow::KeepTail).await {
        Ok(completed) if completed.outcome == Outcome::Exited(0) => None,
        Ok(completed) => {
            let said = end_of(&[completed.stdout, completed.stderr].concat());
            let how = match completed.outcome {
                Outcome::Exited(code) => format!("exit code {code}"),
                Outcome::TimedOut => format!("no end within {} s", health.timeout.as_secs_f32()),
                other => format!("{other:?}"),
            };
            Some(format!("its check: {how}: {}", said.trim()))
        }
        Err(error) => Some(format!("its check could not be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Process;

    fn health() -> Health {
        let test = Process {
            argv: vec!["true".into()],
            env: Vec::new(),
            directory: None,
            user: None,
            terminal: false,
            input_open: false,
        };
        let second = Duration::from_secs(1);
        Health { test, interval: second * 10, timeout: second, retries: 3, start_period: second * 25 }
    }

    #[test]
    fn failures_count_no_faster_than_the_interval_and_not_in_the_start_period() {
        let (health, began) = (health(), Instant::now());
        let mut count = Count { failures: 0, last: began };
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let failing: Vec<u64> = (0..100).filter(|second| count.fails(&health, began, at(*second))).collect();
        assert_eq!(failing.first(), Some(&45), "at 25, 35 and 45");
        count.succeeds(at(100));
        assert!(!count.fails(&health, began, at(101)));
        assert!(!count.fails(&health, began, at(110)));
        assert!(!count.fails(&health, began, at(120)));
        assert!(count.fails(&health, began, at(130)));
    }
}
