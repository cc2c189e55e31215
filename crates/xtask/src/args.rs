//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Ringfence's test lanes: what they need, how they run, what they came to
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run test lanes (`./test.sh` is this command)
    ///
    /// Without a lane: those that prove the embedded product. `all`: also those with other people's systems. A lane whose system
    /// is missing is skipped with the reason; in CI (`CI` or `RINGFENCE_CI` is set) it fails.
    Test(TestArgs),
    /// End the daemon that a run started in DIRECTORY, and start it again
    #[command(hide = true)]
    DockerRestart { directory: PathBuf },
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Lanes to run, or `all`
    #[arg(value_name = "LANE")]
    pub(crate) lanes: Vec<String>,
    /// List the lanes, with what each needs and installs
    #[arg(long)]
    pub(crate) list: bool,
    /// Run only tests whose name contains NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) test: Option<String>,
    /// Steps that may run at the same time, where lanes allow it
    #[arg(long, short, value_name = "N", default_value = "4")]
    pub(crate) jobs: NonZeroUsize,
    /// Install nothing: a lane that lacks something is skipped
    #[arg(long)]
    pub(crate) no_install: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        <CommandLine as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn lanes_and_options_are_read() {
        let words = ["cargo xtask", "test", "unit", "--jobs", "3", "lint", "--test", "a::b"];
        let Command::Test(arguments) = CommandLine::try_parse_from(words).unwrap().command else { panic!("another") };
        assert_eq!(arguments.lanes, ["unit", "lint"]);
        assert_eq!((arguments.jobs.get(), arguments.test.as_deref()), (3, Some("a::b")));
    }

    #[test]
    fn no_jobs_at_all_is_refused() {
        assert!(CommandLine::try_parse_from(["cargo xtask", "test", "--jobs", "0"]).is_err());
    }
}
