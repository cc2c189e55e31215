//! Limits of an evaluation, on the command line.

use clap::Args;
use eval::task::{Dollars, Limits, RunLimits};
use profile::{Count, Millis};

/// What one sample, and all together, may use up.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
#[expect(clippy::struct_field_names, reason = "they are the names of options")]
pub(crate) struct LimitArguments {
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

impl LimitArguments {
    pub(crate) fn of_sample(&self) -> Limits {
        Limits {
            working: self.working_limit.map(|limit| limit.0),
            messages: self.message_limit,
            tokens: self.token_limit.map(|limit| limit.0),
            cost: self.cost_limit,
        }
    }

    pub(crate) fn of_run(&self) -> RunLimits {
        let sums = Limits {
            working: self.run_working_limit.map(|limit| limit.0),
            messages: self.run_message_limit,
            tokens: self.run_token_limit.map(|limit| limit.0),
            cost: self.run_cost_limit,
        };
        RunLimits { time: self.run_time_limit.map(|limit| limit.0), sums }
    }
}
