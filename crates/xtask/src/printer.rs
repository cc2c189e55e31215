//! The one place that prints: lines to standard output, whole, also from several threads.

use std::io::Write as _;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Printer {
    begun: Instant,
}

impl Printer {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now() }
    }

    /// Prints a text and a line end.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn line(&self, text: &str) {
        // Without a reader the run goes on: its exit code still tells.
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }

    /// A heading, with the time since the start.
    pub(crate) fn heading(&self, text: &str) {
        self.line(&format!("\n== {text} ({})", clock(self.begun.elapsed().as_secs_f64())));
    }
}

/// Minutes and seconds.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = std::time::Duration::from_secs_f64(seconds.max(0.0)).as_secs();
    format!("{}:{:02}", whole / 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!([clock(0.0), clock(61.9), clock(3600.0)], ["0:00", "1:01", "60:00"]);
    }
}
