//! The contenders beside each other.

use std::fmt;

use super::TURNS;
use super::contender::Outcome;

/// What was found, round by round.
pub(crate) struct Comparison {
    samples: u64,
    absent: Option<String>,
    pub(super) limit: Vec<Outcome>,
    pub(super) ours: Vec<Outcome>,
    pub(super) theirs: Vec<Outcome>,
}

impl Comparison {
    pub(super) fn new(samples: u64, absent: Option<String>) -> Self {
        Self { samples, absent, limit: Vec::new(), ours: Vec::new(), theirs: Vec::new() }
    }
}

/// Ratios of rates, of the same round each.
fn ratios(above: &[Outcome], below: &[Outcome]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above.rate() / below.rate()).collect()
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, outcome: &Outcome) -> fmt::Result {
    let figures = &outcome.figures;
    let memory: Vec<String> = outcome.memory.iter().map(|mebibytes| format!("{mebibytes:.0}")).collect();
    writeln!(
        f,
        "{name:<14} {:>9.0} {:>8.2} {:>9.1} {:>18} {:>8.3} {:>7.2} {:>9.1} {:>10.1} {:>6} {:>6}",
        outcome.rate(),
        outcome.cost.time.as_secs_f64(),
        outcome.cost.mebibytes(),
        memory.join(" "),
        figures.fairness,
        figures.slowest,
        figures.pause * 1e3,
        figures.longest_pause * 1e3,
        figures.connections,
        figures.repeated,
    )
}

fn bar(f: &mut fmt::Formatter<'_>, what: &str, mut values: Vec<f64>, bar: &str) -> fmt::Result {
    if values.is_empty() {
        return Ok(());
    }
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let all: Vec<String> = values.iter().map(|value| format!("{value:.2}")).collect();
    writeln!(f, "{what:<46} {median:>7.2}  ({})  {bar}", all.join(", "))
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} samples of {TURNS} turns; every row is one run", self.samples)?;
        writeln!(
            f,
            "{:<14} {:>9} {:>8} {:>9} {:>18} {:>8} {:>7} {:>9} {:>10} {:>6} {:>6}",
            "who",
            "turns/s",
            "whole s",
            "peak MiB",
            "MiB at ¼ ½ ¾ 1",
            "fairness",
            "slowest",
            "pause ms",
            "longest ms",
            "conns",
            "again"
        )?;
        for round in 0..self.limit.len() {
            let of = [("server's limit", &self.limit), ("ours", &self.ours), ("Inspect", &self.theirs)];
            for (name, outcomes) in of {
                if let Some(outcome) = outcomes.get(round) {
                    row(f, name, outcome)?;
                }
            }
        }
        bar(f, "ours ÷ the server's limit", ratios(&self.ours, &self.limit), "floor ≥ 0.8")?;
        bar(f, "ours ÷ Inspect", ratios(&self.ours, &self.theirs), "floor ≥ 5")?;
        let growth = |outcome: &Outcome| Some(outcome.memory.last()? / outcome.memory.first()?);
        bar(f, "our memory at the end ÷ at a quarter", self.ours.iter().filter_map(growth).collect(), "flat: about 1")?;
        bar(
            f,
            "fairness (Jain's index of conversations' times)",
            self.ours.iter().map(|outcome| outcome.figures.fairness).collect(),
            "1 is equal",
        )?;
        match &self.absent {
            Some(why) => writeln!(f, "not measured: Inspect: {why}"),
            None => Ok(()),
        }
    }
}
