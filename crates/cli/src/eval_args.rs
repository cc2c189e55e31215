//! Evaluations, on the command line: `eval`, `eval-retry` and `eval-set` share most options.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use docker::Pull;
use eval::FailOn;
use eval::task::Slice;
use profile::{Approval, Profile};

use crate::args::{parse_approval, parse_entry, parse_profile, parse_role, parse_text};
use crate::grant_args::GrantArguments;
use crate::limit_args::{RunLimitArguments, SampleLimitArguments};
use crate::trust_args::TrustArguments;

#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    /// The task file
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) models: ModelArguments,
    #[command(flatten)]
    pub(crate) wish: Wish,
    #[command(flatten)]
    pub(crate) running: Running,
    /// Models at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) max_tasks: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Who answers: openai/…, openai-responses/…, anthropic/…, google/…, mock/scripted or mock/echo; may be repeated: each
    /// of them answers all, and has a log of its own
    #[arg(long, value_parser = parse_text)]
    pub(crate) model: Vec<String>,
}

impl ModelArguments {
    /// Each once; nobody means whom the task names.
    pub(crate) fn each(&self) -> Vec<Option<String>> {
        let mut all: Vec<Option<String>> = Vec::new();
        for model in self.model.iter().cloned().map(Some) {
            if !all.contains(&model) {
                all.push(model);
            }
        }
        if all.is_empty() { vec![None] } else { all }
    }
}

/// What is to be run.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Wish {
    /// Fill a parameter of the task, NAME=VALUE; may be repeated
    #[arg(short = 'T', value_name = "NAME=VALUE", value_parser = parse_entry)]
    pub(crate) parameter: Vec<(String, String)>,
    /// Another profile than the task's
    #[arg(long, value_parser = parse_profile)]
    pub(crate) profile: Option<Profile>,
    /// Who answers in a role, such as grader=openai/gpt-5; may be repeated, also for several in one role
    #[arg(long, value_name = "ROLE=MODEL", value_parser = parse_role)]
    pub(crate) model_role: Vec<(String, String)>,
    /// The approval policy: ci, dev, prod or a file
    #[arg(long, value_parser = parse_approval)]
    pub(crate) approval: Option<Approval>,
    #[command(flatten)]
    pub(crate) entries: Entries,
    /// Only the first N samples, or those from N to M
    #[arg(long, value_name = "N|N-M")]
    pub(crate) limit: Option<Slice>,
    /// Only this sample; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) sample_id: Vec<String>,
    /// Ask each sample so often
    #[arg(long, value_name = "N")]
    pub(crate) epochs: Option<u32>,
    /// Why a safeguard is off
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    pub(crate) justification: Option<String>,
    #[command(flatten)]
    pub(crate) grants: GrantArguments,
    #[command(flatten)]
    pub(crate) limits: SampleLimitArguments,
}

/// Environment entries for the agent.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Entries {
    /// Grant the agent an environment entry, NAME=VALUE; may be repeated. Its value is taken out of the log
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_entry)]
    pub(crate) env: Vec<(String, String)>,
    /// Grant the entries of a file, NAME=VALUE in each line; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
}

/// How it is run. What is absent is as usual, or as it was.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Running {
    /// Let mounts hold credentials: whole homes, .ssh, .aws and the like, private keys
    #[arg(long)]
    pub(crate) dangerously_mount_secrets: bool,
    /// Samples at the same time; 10 unless it is said
    #[arg(long, value_name = "N")]
    pub(crate) max_samples: Option<usize>,
    /// Sandboxes that samples have at the same time (up to 4 more are prepared); as many as samples unless it is said
    #[arg(long, value_name = "N")]
    pub(crate) max_sandboxes: Option<usize>,
    /// Where logs go; the directory `logs`, or the earlier log's, unless it is said
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// The format of the log; eval, or the earlier log's, unless it is said
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Fail when samples fail: true (the first), false (never), a count, or a share such as 0.1
    #[arg(long, value_name = "WHEN")]
    pub(crate) fail_on_error: Option<FailOn>,
    /// Try a sample that fails again, so often at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) retry_on_error: Option<u32>,
    /// Whom the gateway asks for names, instead of this host's resolver
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) dns_upstream: Option<SocketAddr>,
    /// How much of the profile is proven before the first sample; fast unless it is said
    #[arg(long, value_name = "HOW")]
    pub(crate) verify: Option<Verify>,
    /// The key that signs the receipt; `RINGFENCE_SIGNING_KEY`, or signing.key in the user's configuration unless it is said
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// When docker fetches the image: missing, never or always; missing unless it is said
    #[arg(long, value_name = "WHEN")]
    pub(crate) pull: Option<Pull>,
    #[command(flatten)]
    pub(crate) limits: RunLimitArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArguments {
    /// The log
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// The task file, instead of confirming on a terminal the one that the log names
    #[arg(long, value_name = "FILE")]
    pub(crate) task: Option<String>,
    /// Keep finished samples although the task has changed; needs --task, and is written into the log
    #[arg(long, requires = "task")]
    pub(crate) changed_task: bool,
    /// Say a parameter of the log again, NAME=VALUE; may be repeated. Needed for values that were taken out of the log, and
    /// for all parameters where they cannot be confirmed on a terminal
    #[arg(short = 'T', value_name = "NAME=VALUE", value_parser = parse_entry)]
    pub(crate) parameter: Vec<(String, String)>,
    /// Say the profile again: a log alone cannot choose one that is wider than the task's
    #[arg(long, value_parser = parse_profile)]
    pub(crate) profile: Option<Profile>,
    /// Say the approval policy again: a log alone cannot choose a file, or one that is less strict than the task's
    #[arg(long, value_parser = parse_approval)]
    pub(crate) approval: Option<Approval>,
    /// Say again why a safeguard is off
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    pub(crate) justification: Option<String>,
    #[command(flatten)]
    pub(crate) grants: GrantArguments,
    #[command(flatten)]
    pub(crate) entries: Entries,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) running: Running,
}

#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// Task files, and directories of task files
    #[arg(value_name = "TASK|DIR", required = true)]
    pub(crate) tasks: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) models: ModelArguments,
    #[command(flatten)]
    pub(crate) wish: Wish,
    #[command(flatten)]
    pub(crate) running: Running,
    /// Tasks at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) max_tasks: usize,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Begin tasks anew that have changed since the set was begun, instead of refusing them
    #[arg(long)]
    pub(crate) anew: bool,
}

/// How much is proven before an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Verify {
    /// Every probe
    Full,
    /// The part that takes a moment
    Fast,
    /// Nothing; needs a justification, and is written into the log
    Off,
}

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Inspect's own: compressed, readable while it is written
    Eval,
    /// One JSON document, complete at the end
    Json,
}

impl From<LogFormat> for log::Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Eval => Self::Eval,
            LogFormat::Json => Self::Json,
        }
    }
}
