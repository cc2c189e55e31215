//! A moment as text. The one thing of calendars that a log needs.

use std::time::{SystemTime, UNIX_EPOCH};

/// RFC 3339 in UTC, to the microsecond: `2026-10-04T12:30:00.250000+00:00`.
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}+00:00", since.subsec_micros())
}

/// Counts years, then months: at most some hundred steps, and no constants to explain.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(5));
        assert_eq!(at(0), "1970-01-01T00:00:00.000005+00:00");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000005+00:00");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000005+00:00");
        assert_eq!(at(1_791_117_045), "2026-10-04T12:30:45.000005+00:00");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000005+00:00");
    }
}
