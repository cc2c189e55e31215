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

/// How times are shown. Of a rate, p99 is the rate of the slowest hundredth: the lower one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Millis,
    Micros,
    /// Each time is of one such thing.
    PerSecond,
    /// Each time is of this many bytes.
    GigabytesPerSecond(u32),
}

impl Unit {
    fn of(self, time: Duration) -> f64 {
        let seconds = time.as_secs_f64();
        match self {
            Self::Millis => seconds * 1e3,
            Self::Micros => seconds * 1e6,
            Self::PerSecond => 1.0 / seconds,
            Self::GigabytesPerSecond(bytes) => f64::from(bytes) / 1e9 / seconds,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Micros => "µs",
            Self::PerSecond => "1/s",
            Self::GigabytesPerSecond(_) => "GB/s",
        }
    }

    fn decimals(self) -> usize {
        match self {
            Self::Millis | Self::GigabytesPerSecond(_) => 3,
            Self::Micros => 1,
            Self::PerSecond => 0,
        }
    }
}

/// A table, with ratios to the first row.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<Series>,
    pub(crate) absent: Vec<String>,
    /// Ratios to be read: what, value, floor and target in words.
    pub(crate) ratios: Vec<(String, f64, &'static str)>,
}

impl Report {
    pub(crate) fn new(title: &'static str, unit: Unit, rows: Vec<Series>) -> Self {
        Self { title, unit, rows, absent: Vec::new(), ratios: Vec::new() }
    }

    /// Adds the p50 of one row divided by that of another, by name and as shown; nothing where one was not measured.
    pub(crate) fn compare(&mut self, above: &str, below: &str, bar: &'static str) {
        let p50 = |name: &str| {
            let row = self.rows.iter().find(|row| row.name == name)?;
            Some(self.unit.of(row.percentile(50)))
        };
        if let (Some(one), Some(other)) = (p50(above), p50(below)) {
            self.ratios.push((format!("{above} ÷ {below}"), one / other, bar));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, decimals) = (self.unit.name(), self.unit.decimals());
        let first = self.rows.first().map_or(1.0, |row| self.unit.of(row.percentile(50)));
        let (fifty, ninety_nine) = (format!("p50 {unit}"), format!("p99 {unit}"));
        let to_first = format!("÷ {}", self.rows.first().map_or("first", |row| row.name));
        writeln!(f, "{:<38} {fifty:>9} {ninety_nine:>9} {:>6} {to_first:>8}", self.title, "n")?;
        for row in &self.rows {
            let [fifty, ninety_nine] = [50, 99].map(|percent| self.unit.of(row.percentile(percent)));
            writeln!(
                f,
                "{:<38} {fifty:>9.decimals$} {ninety_nine:>9.decimals$} {:>6} {:>8.2}",
                row.name,
                row.times.len(),
                fifty / first
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
