//! When to ask again: exponential backoff with full jitter, and whatever the server says.

use std::time::{Duration, SystemTime};

use crate::error::ModelError;
use crate::settings::Backoff;

/// How long to wait before the next attempt, or nothing when there is none. `attempts` were made so far, `left` is the
/// time that remains, `random` any number.
pub(crate) fn next(
    error: &ModelError,
    attempts: u32,
    left: Duration,
    backoff: &Backoff,
    random: u64,
) -> Option<Duration> {
    if !error.is_retried() || attempts > backoff.retries {
        return None;
    }
    let doubled = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    let ceiling = backoff.first.saturating_mul(doubled).min(backoff.most);
    // Full jitter: clients that failed together do not come back together.
    let jittered = share(ceiling, random);
    let wait = match error.retry_after() {
        Some(after) => after.saturating_add(share(backoff.first, random)),
        None => jittered,
    };
    (wait < left).then_some(wait)
}

/// A random share of a time.
fn share(of: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    let scaled = (u128::from(nanos) * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(scaled).unwrap_or(nanos))
}

/// A number that nobody foresees.
pub(crate) fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1 << 8 | uuid::Uuid::new_v4().as_u64_pair().0 & 0xff
}

/// What `Retry-After` says: seconds, or a date (RFC 9110, section 10.2.3).
pub(crate) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?;
    let until =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(date.timestamp().as_second()).ok()?))?;
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Shown;

    const BACKOFF: Backoff = Backoff { first: Duration::from_secs(2), most: Duration::from_mins(1), retries: 8 };

    fn broken(retry_after: Option<Duration>) -> ModelError {
        ModelError::Broken { server: Shown::new("s"), status: 500, said: Shown::default(), retry_after }
    }

    #[test]
    fn what_does_not_change_is_not_asked_again() {
        let refused = ModelError::Refused { server: Shown::new("s"), status: 400, said: Shown::default() };
        assert_eq!(next(&refused, 1, Duration::MAX, &BACKOFF, 0), None);
        assert_eq!(next(&broken(None), 9, Duration::MAX, &BACKOFF, 0), None);
        assert!(next(&broken(None), 8, Duration::MAX, &BACKOFF, 0).is_some());
    }

    #[test]
    fn patience_doubles_up_to_a_minute() {
        let longest = |attempts| next(&broken(None), attempts, Duration::MAX, &BACKOFF, u64::MAX).unwrap_or_default();
        let seconds: Vec<u64> = (1..=8).map(|attempts| longest(attempts).as_secs() + 1).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn servers_say_when_to_come_back() {
        let wait = next(&broken(Some(Duration::from_secs(30))), 1, Duration::from_mins(1), &BACKOFF, 0);
        assert_eq!(wait, Some(Duration::from_secs(30)));
        // Who would wait longer than there is time gives up now.
        assert_eq!(next(&broken(Some(Duration::from_secs(90))), 1, Duration::from_mins(1), &BACKOFF, 0), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(" 0.5 ", now), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:40:00 GMT", now), Some(Duration::ZERO));
        for odd in ["", "soon", "-1", "NaN", "inf", "1e300"] {
            assert_eq!(retry_after(odd, now), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_its_ceiling(attempts in 1_u32..200, random in any::<u64>()) {
            let backoff = Backoff { retries: u32::MAX, ..BACKOFF };
            let wait = next(&broken(None), attempts, Duration::MAX, &backoff, random);
            prop_assert!(wait.is_some_and(|wait| wait <= BACKOFF.most));
        }

        #[test]
        fn any_header_is_read_without_harm(value in any::<String>()) {
            let _ = retry_after(&value, SystemTime::now());
        }
    }
}
