//! Benchmarks, run by hand: ours and its peers in one interleaved run, as ratios. Machines are noisy; ratios travel.

mod daemons;
mod evals;
mod gateways;
mod models;
mod proc;
mod providers;
mod redaction;
mod sandboxes;
mod table;
mod watch;

use std::error::Error;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Compare Ringfence with its peers.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Create, exec, destroy, files, many at a time and idle memory, against `posix_spawn`, bwrap, crun, runc and docker
    /// (those present)
    Sandbox {
        /// Fewer rounds: ends within 40 seconds
        #[arg(long)]
        quick: bool,
    },
    /// Containers of a Docker daemon: a command, creation at N2 and from a pool, against the plain API of the same daemon
    Docker {
        /// Fewer rounds
        #[arg(long)]
        quick: bool,
    },
    /// Throughput, latency, requests and memory of the gateway, against squid, tinyproxy and socat (those present)
    Egress {
        /// Fewer rounds and shorter streams: ends within 60 seconds
        #[arg(long)]
        quick: bool,
    },
    /// Evaluations, their time and memory, against Inspect (if `./test.sh inspect` has installed it)
    Eval {
        /// Fewer samples and one round
        #[arg(long)]
        quick: bool,
    },
    /// Ringfence as a sandbox provider of Inspect, against its own: local, and docker where a daemon and Compose v2 are there
    /// (`./test.sh inspect` installs the package and makes the image)
    Inspect {
        /// Fewer rounds and samples: ends within two minutes, without docker within one
        #[arg(long)]
        quick: bool,
    },
    /// A model elsewhere, asked by many samples at once: throughput, memory and fairness, against the server's own limit and
    /// against Inspect (if `./test.sh inspect` has installed it)
    Models {
        /// Fewer samples and one round: ends within 60 seconds
        #[arg(long)]
        quick: bool,
    },
    /// The redactor's speed on logs and on hostile texts, against searches that do less
    Redact {
        /// Fewer rounds and shorter texts
        #[arg(long)]
        quick: bool,
    },
    /// The same, once this process has a network namespace of its own
    #[command(hide = true)]
    EgressRunner {
        #[arg(long)]
        quick: bool,
    },
    /// The server at the other end, in a namespace of its own
    #[command(hide = true)]
    EgressOrigin,
    /// The client of every contender; prints nanoseconds
    #[command(hide = true)]
    EgressClient(gateways::Errand),
    /// The model at the other end; says its port, and at the end of its input what it saw
    #[command(hide = true)]
    ModelServer {
        #[arg(long)]
        turns: usize,
    },
    /// Somebody who only asks: what the server can
    #[command(hide = true)]
    ModelLoad(models::Load),
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if let Some(code) = egress::become_gateway() {
        return Ok(code);
    }
    let report: Box<dyn Display> = match Arguments::parse().command {
        Benchmark::Sandbox { quick } => {
            let extent = if quick { sandboxes::QUICK } else { sandboxes::FULL };
            Box::new(wait_for(sandboxes::compare(extent))?)
        }
        Benchmark::Docker { quick } => {
            Box::new(wait_for(daemons::compare(if quick { daemons::QUICK } else { daemons::FULL }))?)
        }
        Benchmark::Eval { quick } => Box::new(evals::compare(if quick { evals::QUICK } else { evals::FULL })?),
        Benchmark::Inspect { quick } => {
            Box::new(providers::compare(if quick { providers::QUICK } else { providers::FULL })?)
        }
        Benchmark::Models { quick } => Box::new(models::compare(if quick { models::QUICK } else { models::FULL })?),
        Benchmark::Redact { quick } => {
            Box::new(redaction::compare(if quick { redaction::QUICK } else { redaction::FULL })?)
        }
        Benchmark::Egress { quick } => return Err(gateways::enter_namespace(quick)),
        Benchmark::EgressRunner { quick } => {
            let extent = if quick { gateways::QUICK } else { gateways::FULL };
            Box::new(wait_for(gateways::compare(extent))?)
        }
        Benchmark::EgressOrigin => return gateways::serve_origin().map(|()| ExitCode::SUCCESS),
        Benchmark::EgressClient(errand) => return errand.run().map(|()| ExitCode::SUCCESS),
        Benchmark::ModelServer { turns } => return models::serve(turns).map(|()| ExitCode::SUCCESS),
        Benchmark::ModelLoad(load) => return load.run().map(|()| ExitCode::SUCCESS),
    };
    writeln!(std::io::stdout(), "{report}")?;
    Ok(ExitCode::SUCCESS)
}

fn wait_for<T>(work: impl Future<Output = Result<T, Box<dyn Error>>>) -> Result<T, Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
