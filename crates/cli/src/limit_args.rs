//! Limits of an evaluation, on the command line.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use eval::task::{Dollars, Limits, RunLimits};
use profile::{Count, Millis};

/// What one sample may use up.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
#[expect(clippy::struct_field_names, reason = "they are the names of options")]
pub(crate) struct SampleLimitArguments {
    /// End a sample after this long, such as 90 (seconds) or 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) time_limit: Option<Millis>,
    /// End a sample that has worked for this long, without waiting for others
    #[arg(long, value_name = "TIME")]
    pub(crate) working_limit: Option<Millis>,
    /// End a sample with so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) message_limit: Option<u32>,
    /// End a sample that has used so many tokens, in and out
    #[arg(long, value_name = "N")]
    pub(crate) token_limit: Option<Count>,
    /// End a sample whose answers have cost so many dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) cost_limit: Option<Dollars>,
}

/// What all samples together may use up.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
#[expect(clippy::struct_field_names, reason = "they are the names of options")]
pub(crate) struct RunLimitArguments {
    /// End the whole run after this long
    #[arg(long, value_name = "TIME")]
    pub(crate) run_time_limit: Option<Millis>,
    /// End the run when its samples have worked for this long, added up
    #[arg(long, value_name = "TIME")]
    pub(crate) run_working_limit: Option<Millis>,
    /// End the run when its samples have so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) run_message_limit: Option<u32>,
    /// End the run when it has used so many tokens, in and out
    #[arg(long, value_name = "N")]
    pub(crate) run_token_limit: Option<Count>,
    /// End the run when its answers have cost so many dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) run_cost_limit: Option<Dollars>,
}

/// A limit that a log states is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit `{0}` is not one that this version knows")]
pub(crate) struct UnknownLimit(String);

type Record = BTreeMap<String, String>;

fn put(record: &mut Record, name: &str, limit: Option<impl ToString>) {
    if let Some(limit) = limit {
        record.insert(name.to_owned(), limit.to_string());
    }
}

/// Takes a limit out of a record.
fn take<T: FromStr>(record: &mut Record, name: &str) -> Result<Option<T>, UnknownLimit> {
    let Some(text) = record.remove(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| UnknownLimit(format!("{name}: {text}")))
}

impl SampleLimitArguments {
    pub(crate) fn of_sample(&self) -> Limits {
        Limits {
            working: self.working_limit.map(|limit| limit.0),
            messages: self.message_limit,
            tokens: self.token_limit.map(|limit| limit.0),
            cost: self.cost_limit,
        }
    }

    /// Writes them down for the log.
    pub(crate) fn record(&self, record: &mut Record) {
        put(record, "time", self.time_limit);
        put(record, "working", self.working_limit);
        put(record, "message", self.message_limit);
        put(record, "token", self.token_limit);
        put(record, "cost", self.cost_limit);
    }
}

impl RunLimitArguments {
    pub(crate) fn of_run(&self) -> RunLimits {
        let sums = Limits {
            working: self.run_working_limit.map(|limit| limit.0),
            messages: self.run_message_limit,
            tokens: self.run_token_limit.map(|limit| limit.0),
            cost: self.run_cost_limit,
        };
        RunLimits { time: self.run_time_limit.map(|limit| limit.0), sums }
    }

    /// These, and where they say nothing the others.
    pub(crate) fn or(&self, others: &Self) -> Self {
        Self {
            run_time_limit: self.run_time_limit.or(others.run_time_limit),
            run_working_limit: self.run_working_limit.or(others.run_working_limit),
            run_message_limit: self.run_message_limit.or(others.run_message_limit),
            run_token_limit: self.run_token_limit.or(others.run_token_limit),
            run_cost_limit: self.run_cost_limit.or(others.run_cost_limit),
        }
    }

    /// Writes them down for the log.
    pub(crate) fn record(&self, record: &mut Record) {
        put(record, "run-time", self.run_time_limit);
        put(record, "run-working", self.run_working_limit);
        put(record, "run-message", self.run_message_limit);
        put(record, "run-token", self.run_token_limit);
        put(record, "run-cost", self.run_cost_limit);
    }
}

/// Reads back what was written down; what nobody knows is an error.
pub(crate) fn read(record: &Record) -> Result<(SampleLimitArguments, RunLimitArguments), UnknownLimit> {
    let mut left = record.clone();
    let sample = SampleLimitArguments {
        time_limit: take(&mut left, "time")?,
        working_limit: take(&mut left, "working")?,
        message_limit: take(&mut left, "message")?,
        token_limit: take(&mut left, "token")?,
        cost_limit: take(&mut left, "cost")?,
    };
    let run = RunLimitArguments {
        run_time_limit: take(&mut left, "run-time")?,
        run_working_limit: take(&mut left, "run-working")?,
        run_message_limit: take(&mut left, "run-message")?,
        run_token_limit: take(&mut left, "run-token")?,
        run_cost_limit: take(&mut left, "run-cost")?,
    };
    match left.into_keys().next() {
        Some(name) => Err(UnknownLimit(name)),
        None => Ok((sample, run)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_back_from_a_log() {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let record: Record = [
            text("cost", "$0.25"),
            text("message", "7"),
            text("run-cost", "$1000"),
            text("run-message", "70"),
            text("run-time", "1500ms"),
            text("run-token", "12"),
            text("run-working", "3600s"),
            text("time", "90s"),
            text("token", "5"),
            text("working", "1s"),
        ]
        .into();
        let (sample, run) = read(&record).unwrap();
        let mut again = Record::new();
        sample.record(&mut again);
        run.record(&mut again);
        assert_eq!(record, again);
        assert!(read(&[text("time", "soon")].into()).is_err());
        assert!(read(&[text("lives", "9")].into()).is_err());
    }
}
