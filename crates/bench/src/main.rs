//! Benchmarks, run by hand: ours and its peers in one interleaved run, as ratios. Machines are noisy; ratios travel.

mod peers;
mod sandboxes;
mod table;

use std::error::Error;
use std::io::Write as _;

use clap::{Parser, Subcommand};

/// Compare Ringfence with its peers.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Create, exec and destroy, against `posix_spawn`, bwrap, crun and runc (those present)
    Sandbox {
        /// Fewer rounds: ends within 40 seconds
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    let Benchmark::Sandbox { quick } = Arguments::parse().command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(sandboxes::compare(if quick { 60 } else { 300 }))?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}
