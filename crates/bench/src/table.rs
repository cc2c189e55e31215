//! Times to a table of percentiles and ratios.

use std::fmt;
use std::time::Duration;

/// The times of one contender.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) times: Vec<Duration>,
}

impl Series {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, times: Vec::new() }
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// A table, with ratios to the first row.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Series>,
    pub(crate) absent: Vec<String>,
    /// Ratios to be read: what, value, floor and target in words.
    pub(crate) ratios: Vec<(String, f64, &'static str)>,
}

impl Report {
    /// The p50 of one row divided by that of another, by name.
    pub(crate) fn ratio(&self, above: &str, below: &str) -> Option<f64> {
        let p50 =
            |name: &str| self.rows.iter().find(|row| row.name == name).map(|row| row.percentile(50).as_secs_f64());
        Some(p50(above)? / p50(below)?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let first = self.rows.first().map_or(1.0, |row| row.percentile(50).as_secs_f64());
        writeln!(f, "{:<38} {:>9} {:>9} {:>6} {:>8}", "what", "p50 ms", "p99 ms", "n", "÷ spawn")?;
        for row in &self.rows {
            let p50 = row.percentile(50);
            let (fifty, ninety_nine) = (millis(p50), millis(row.percentile(99)));
            writeln!(
                f,
                "{:<38} {fifty:>9.3} {ninety_nine:>9.3} {:>6} {:>8.2}",
                row.name,
                row.times.len(),
                p50.as_secs_f64() / first
            )?;
        }
        for absent in &self.absent {
            writeln!(f, "not measured: {absent}")?;
        }
        writeln!(f)?;
        for (what, value, bar) in &self.ratios {
            writeln!(f, "{what:<48} {value:>7.2}   {bar}")?;
        }
        Ok(())
    }
}
