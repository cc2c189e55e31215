//! The servers of a testnet. Started by the library in a network namespace of its own, where nothing else is.

mod serve;

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A fake internet for tests.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Dress this network namespace with the servers' addresses and serve until standard input ends
    Serve {
        /// Where the certificate and the control socket go
        #[arg(long)]
        directory: PathBuf,
        /// What the web servers serve; nothing but the built-in pages when absent
        #[arg(long)]
        root: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let Task::Serve { directory, root } = Arguments::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&error),
    };
    let served = runtime.block_on(serve::serve(&directory, root));
    // Connections may be open for a minute; nobody waits for them.
    runtime.shutdown_background();
    served.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

fn report(error: &(dyn Error + 'static)) -> ExitCode {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let texts: Vec<String> = chain.map(ToString::to_string).collect();
    // There is nobody left to tell when this fails.
    let _ = writeln!(std::io::stderr(), "testnet: {}", texts.join(": "));
    ExitCode::FAILURE
}
