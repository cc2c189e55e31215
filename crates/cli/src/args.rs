//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use docker::Pull;
use profile::{
    AllowRule, Approval, Audience, Bytes, HostPattern, Internet, Millis, Mount, Overrides, Priority, Profile, Provider,
    Tools,
};
use receipt::KeyId;

use crate::eval_args::{EvalArguments, RetryArguments, SetArguments};
use crate::grant_args::GrantArguments;
use crate::serve_args::ServeArguments;
use crate::trust_args::TrustArguments;

/// Run AI-agent evaluations in sandbox profiles Tx.Hx.Nx that are enforced, proven and recorded.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Print JSON for machines on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Choose, check and understand a profile
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Print exactly what a document would enforce on this host
    Plan {
        #[command(flatten)]
        document: DocumentArguments,
    },
    /// Run an evaluation in its profile, and leave a log that Inspect opens
    Eval(Box<EvalArguments>),
    /// Run again what failed, was cancelled or is missing in a log, into a new log that keeps what is finished
    EvalRetry(Box<RetryArguments>),
    /// Run many tasks with many models; run it again, and it goes on where it was
    EvalSet(Box<SetArguments>),
    /// Judge what a log holds again, into a new log
    Score(ScoreArguments),
    /// Look at what evaluations left behind
    #[command(subcommand)]
    Log(LogCommand),
    /// Make or show the key that signs receipts
    #[command(subcommand)]
    Key(KeyCommand),
    /// Run one command in a sandbox
    Run(Box<RunArguments>),
    /// Prove a profile on this host: probes from inside, and the profile that they show
    Verify(Box<ProveArguments>),
    /// Serve sandboxes to other programs of this user, over HTTP
    Serve(Box<ServeArguments>),
    /// Look after the sandboxes that run
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Look after the images in the store
    #[command(subcommand)]
    Image(ImageCommand),
    /// Show what this host can enforce, and how to get the rest
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// List the sandboxes of this user
    List {
        /// Those of a provider: docker lists the containers of a daemon that are ours
        #[arg(long)]
        provider: Option<Provider>,
    },
    /// Run a command in a sandbox that runs
    Exec {
        /// Its name, from the list
        name: String,
        /// Give the command a terminal
        #[arg(long)]
        pty: bool,
        /// Who runs it inside: a name, uid or uid:gid
        #[arg(long)]
        user: Option<String>,
        /// The command
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Keep what a sandbox has become as an image: its files, not its processes, which stand still meanwhile
    Snapshot {
        /// Its name, from the list
        name: String,
        /// What the image is called
        image: String,
    },
    /// Run a command in a new sandbox that begins with the files of one that runs; options as of `run`
    Fork {
        /// Its name, from the list
        name: String,
        #[command(flatten)]
        run: Box<RunArguments>,
    },
    /// End a sandbox
    Stop {
        /// Its name, from the list
        name: String,
    },
    /// Remove what runners that were killed left behind
    Cleanup {
        /// Where: docker removes containers of ours that nobody needs any more, and never anybody else's
        #[arg(long)]
        provider: Option<Provider>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List the images in the store
    List,
    /// Bring an image into the store, from oci:PATH, archive:FILE or docker:NAME
    Import {
        /// Where it comes from
        #[arg(value_parser = parse_text)]
        source: String,
    },
    /// Pull an image from a registry into the store
    Pull {
        /// Its name, such as debian:12 or registry.example.org/team/tools@sha256:…
        #[arg(value_parser = parse_text)]
        name: String,
    },
    /// Show what the store knows of an image
    Inspect {
        /// Its name or digest
        name: String,
    },
    /// Forget a name
    Remove {
        /// The name
        name: String,
    },
    /// Remove what no name needs and nobody uses
    Gc,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List the logs of a directory
    List {
        /// The directory
        #[arg(default_value = "logs")]
        directory: PathBuf,
    },
    /// Show what a log says: profile, affordances, samples, scores
    Show {
        /// The log
        log: PathBuf,
    },
    /// Print a whole log as JSON
    Dump {
        /// The log
        log: PathBuf,
    },
    /// Check a log, its audit chain, its receipt and the signature, and say what is asserted and by which key
    Verify(VerifyArguments),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The log
    pub(crate) log: PathBuf,
    /// The public key that must have signed the receipt
    #[arg(long, value_name = "FILE", conflicts_with = "keyid")]
    pub(crate) key: Option<PathBuf>,
    /// The id of the key that must have signed the receipt
    #[arg(long, value_name = "ID")]
    pub(crate) keyid: Option<KeyId>,
    /// Fail without a receipt, whatever the log says; --key and --keyid mean that too
    #[arg(long)]
    pub(crate) require_receipt: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key; one that is there is never written over
    New {
        /// Its file; `RINGFENCE_SIGNING_KEY`, or signing.key in the user's configuration unless it is said
        #[arg(long, visible_alias = "file", value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Show the public half of a key, and its id
    Show {
        /// Its file; `RINGFENCE_SIGNING_KEY`, or signing.key in the user's configuration unless it is said
        #[arg(long, visible_alias = "file", value_name = "FILE")]
        key: Option<PathBuf>,
        /// Write the public half into a new file, for those who check receipts
        #[arg(long, value_name = "FILE")]
        public: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    /// The log, ours or one of Inspect's
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// By what: a kind such as f1, {kind: match, numeric: true}, or a file of scorers; may be repeated
    #[arg(long, value_name = "KIND|FILE", required = true, value_parser = parse_text)]
    pub(crate) scorer: Vec<String>,
    /// What the scores come to: a word such as std, or {grouped: {by: level}}; may be repeated
    #[arg(long, value_name = "METRIC", value_parser = parse_text)]
    pub(crate) metric: Vec<String>,
    /// What is made of epochs, such as median or `pass_at_5`; may be repeated. Otherwise as the log says
    #[arg(long, value_name = "REDUCER", value_parser = parse_text)]
    pub(crate) epochs_reducer: Vec<String>,
    /// What becomes of scores that the log has
    #[arg(long, value_name = "ACTION", default_value = "append")]
    pub(crate) action: ScoreAction,
    /// The new log, ending in .eval or .json; otherwise beside the old one. Nothing is ever replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Who answers in a role, such as grader=openai/gpt-5; may be repeated, also for several in one role
    #[arg(long, value_name = "ROLE=MODEL", value_parser = parse_role)]
    pub(crate) model_role: Vec<(String, String)>,
    /// The key that signs the receipt; `RINGFENCE_SIGNING_KEY`, or signing.key in the user's configuration unless it is said
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Samples at the same time, where models judge
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) max_samples: usize,
}

/// How the gateway gets what programs in a container send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CaptureBy {
    /// It has the listeners.
    Passed,
    /// The guest has them and relays, as where nobody outside can hold them.
    Relayed,
}

/// What becomes of scores that a log has.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ScoreAction {
    /// They stay, beside the new ones
    Append,
    /// The new ones take their place, and keep what was before as their history
    Overwrite,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A profile, or a document's path
    #[arg(long, value_name = "PROFILE|FILE", default_value = "T0.H1.N2", value_parser = parse_text)]
    pub(crate) profile: String,
    /// Who runs it: container, or docker
    #[arg(long)]
    pub(crate) provider: Option<Provider>,
    /// The image: host, dir:PATH, oci:PATH, archive:FILE, docker:NAME, or a name in the store or a registry; with docker a
    /// name that the daemon knows, or build:DIR
    #[arg(long, value_parser = parse_text)]
    pub(crate) image: Option<String>,
    /// Run the command in the default service of a Compose file, with all its services beside it; means docker
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    pub(crate) compose: Option<PathBuf>,
    /// When docker fetches the image: missing, never or always
    #[arg(long, value_name = "WHEN", default_value = "missing")]
    pub(crate) pull: Pull,
    /// When the command has ended, keep what the sandbox has become as an image of this name
    #[arg(long, value_name = "NAME", value_parser = parse_text)]
    pub(crate) save_as: Option<String>,
    /// Run the command itself, without the image's entry point before it
    #[arg(long, requires = "command")]
    pub(crate) no_entrypoint: bool,
    /// Show a host directory inside, SOURCE:TARGET or SOURCE:TARGET:rw; read-only unless :rw; may be repeated
    #[arg(long, value_name = "MOUNT")]
    pub(crate) mount: Vec<Mount>,
    /// Let mounts hold credentials: whole homes, .ssh, .aws and the like, private keys
    #[arg(long)]
    pub(crate) dangerously_mount_secrets: bool,
    /// Set an environment entry, NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_entry)]
    pub(crate) env: Vec<(String, String)>,
    /// Set the entries of a file, NAME=VALUE in each line; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Memory of the sandbox, such as 512MiB
    #[arg(long)]
    pub(crate) memory: Option<Bytes>,
    /// End the command after this long, such as 30 (seconds) or 5m
    #[arg(long)]
    pub(crate) timeout: Option<Millis>,
    /// Who runs it inside: a name, uid or uid:gid
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// The working directory inside
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// Give the command a terminal
    #[arg(long)]
    pub(crate) pty: bool,
    /// Let a name be reached at N1: NAME or *.NAME for its web ports, or `tcp://NAME:PORT`; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<AllowRule>,
    /// Never let a name be reached: NAME or *.NAME; beats --allow; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) deny: Vec<HostPattern>,
    /// Write every query, connection and refusal to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub(crate) network_log: Option<PathBuf>,
    /// Whom the gateway asks for names, instead of this host's resolver
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) dns_upstream: Option<SocketAddr>,
    /// How the gateway gets what programs send: the same rules hold either way
    #[arg(long, value_name = "HOW", default_value = "passed", hide = true)]
    pub(crate) capture: CaptureBy,
    /// Why a safeguard is off
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    pub(crate) justification: Option<String>,
    #[command(flatten)]
    pub(crate) grants: GrantArguments,
    /// The command; without one, what the image says
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ProveArguments {
    /// A profile, or the path of a document or a task
    #[arg(value_name = "PROFILE|FILE", value_parser = parse_text)]
    pub(crate) profile: String,
    /// Who runs it: container, or docker
    #[arg(long)]
    pub(crate) provider: Option<Provider>,
    /// The image: host, dir:PATH, oci:PATH, archive:FILE, docker:NAME, or a name in the store or a registry; with docker a
    /// name that the daemon knows, or build:DIR
    #[arg(long, value_parser = parse_text)]
    pub(crate) image: Option<String>,
    /// Prove it for every service of a Compose file; means docker
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    pub(crate) compose: Option<PathBuf>,
    /// When docker fetches the image: missing, never or always
    #[arg(long, value_name = "WHEN", default_value = "missing")]
    pub(crate) pull: Pull,
    /// Only the part that evaluations begin with
    #[arg(long)]
    pub(crate) fast: bool,
    /// Let mounts hold credentials: whole homes, .ssh, .aws and the like, private keys
    #[arg(long)]
    pub(crate) dangerously_mount_secrets: bool,
    /// Why a safeguard is off
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    pub(crate) justification: Option<String>,
    #[command(flatten)]
    pub(crate) grants: GrantArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the levels and the typical profiles
    List,
    /// Explain what a profile would enforce, grant and leave, on this host
    Explain {
        /// The profile, such as T0.H1.N1
        #[arg(value_parser = parse_profile)]
        profile: Profile,
        /// Assume a host that can do everything, instead of asking this one
        #[arg(long)]
        any_host: bool,
        #[command(flatten)]
        overrides: OverrideArguments,
        /// Print every setting with where it came from
        #[arg(long)]
        explain_config: bool,
    },
    /// Check a document, whatever the host
    Check {
        #[command(flatten)]
        document: DocumentArguments,
    },
    /// Choose a profile by a few questions
    Choose(ChooseArguments),
}

#[derive(Debug, Args)]
pub(crate) struct DocumentArguments {
    /// The document; - reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) path: String,
    /// Another profile than the document's
    #[arg(long, value_parser = parse_profile)]
    pub(crate) profile: Option<Profile>,
    #[command(flatten)]
    pub(crate) overrides: OverrideArguments,
    /// Print every setting with where it came from
    #[arg(long)]
    pub(crate) explain_config: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OverrideArguments {
    /// Who runs it: local, container, docker, k8s, proxmox, qemu
    #[arg(long)]
    sandbox: Option<Provider>,
    /// The image
    #[arg(long, value_parser = parse_text)]
    image: Option<String>,
    /// Allow a name, everything below one (*.name) or raw TCP (tcp://name:port); may be repeated
    #[arg(long, value_name = "RULE", value_parser = parse_rule)]
    allow: Vec<AllowRule>,
    /// The approval policy: ci, dev, prod or a file
    #[arg(long, value_parser = parse_approval)]
    approval: Option<Approval>,
    /// Why a safeguard is off
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    justification: Option<String>,
}

impl OverrideArguments {
    pub(crate) fn into_overrides(self, profile: Option<Profile>) -> Overrides {
        let Self { sandbox, image, allow, approval, justification } = self;
        Overrides { profile, sandbox, image, allow, approval, justification, ..Overrides::default() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ChooseArguments {
    /// What the agent does: none (text only), web (no code of its own) or code
    #[arg(long)]
    pub(crate) tools: Option<Tools>,
    /// What matters most about where it runs: simplicity, scale or hostile (agents)
    #[arg(long)]
    pub(crate) priority: Option<Priority>,
    /// Which internet access the task needs: none, listed (known names) or full
    #[arg(long)]
    pub(crate) internet: Option<Internet>,
    /// Whether the machine is shared or this is a demonstration: private or shared
    #[arg(long)]
    pub(crate) audience: Option<Audience>,
}

pub(crate) fn parse_profile(text: &str) -> Result<Profile, String> {
    text.parse::<Profile>().map_err(|error| format!("{error}\n  hint: {}", error.hint()))
}

fn parse_rule(text: &str) -> Result<AllowRule, String> {
    text.parse::<AllowRule>().map_err(|error| format!("{error}\n  hint: {}", error.hint()))
}

pub(crate) fn parse_approval(text: &str) -> Result<Approval, String> {
    text.parse::<Approval>().map_err(|error| format!("{error}\n  hint: {}", error.hint()))
}

/// A text that says something.
pub(crate) fn parse_text(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("it is empty") } else { Ok(text.to_owned()) }
}

pub(crate) fn parse_role(text: &str) -> Result<(String, String), &'static str> {
    let (role, model) = text.split_once('=').ok_or("write ROLE=MODEL, such as grader=openai/gpt-5")?;
    if role.trim().is_empty() || model.trim().is_empty() {
        return Err("write ROLE=MODEL, such as grader=openai/gpt-5");
    }
    Ok((role.trim().to_owned(), model.trim().to_owned()))
}

pub(crate) fn parse_entry(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let valid =
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || !valid {
        Err("a name is made of letters, digits and _")
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}
