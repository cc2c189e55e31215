//! Our engine against its peers.
//!
//! One module per measurement, all of one shape: `new` prepares it, `round` runs every contender once, `report` says what
//! was found. [`compare`] interleaves the rounds of all of them.

mod crowd;
pub(crate) mod docker;
mod files;
mod forks;
mod memory;
mod peers;
mod steps;

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use jail::cgroups::Limits;
use jail::zygote::{Image, Network};
use sandbox::{Containers, Exec, Outcome, Overflow, Request, Sandbox, User};

use self::crowd::Crowd;
use self::files::Files;
use self::forks::Forks;
use self::memory::Memory;
use self::steps::Steps;
use crate::table::Report;

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: u32,
    /// What takes long is done once in so many rounds.
    seldom: u32,
    /// No round begins after this.
    deadline: Duration,
    /// The larger number of idle sandboxes is left out after this.
    memory_deadline: Duration,
}

/// Ends within 40 seconds.
pub(crate) const QUICK: Extent =
    Extent { rounds: 60, seldom: 12, deadline: Duration::from_secs(20), memory_deadline: Duration::from_secs(28) };
/// For figures that are written down.
pub(crate) const FULL: Extent =
    Extent { rounds: 300, seldom: 15, deadline: Duration::from_mins(5), memory_deadline: Duration::from_hours(1) };

impl Extent {
    /// Whether this round is one for what takes long.
    fn is_long(self, round: u32) -> bool {
        round.is_multiple_of(self.seldom)
    }
}

/// A sandbox as a plan would ask for it.
pub(crate) fn request() -> Request {
    let limits = sandbox::trial().groups.is_ok();
    let limits = limits.then_some(Limits { memory: 512 << 20, pids: 256, cpu_millis: 2000 });
    Request {
        image: Image::Host,
        begin_with: None,
        system: sandbox::System::AsLeft,
        limits,
        disk: 64 << 20,
        mounts: Vec::new(),
        allow_setuid: false,
        network: Network::Captured,
    }
}

pub(crate) async fn run_true(sandbox: &Sandbox) -> Result<(), String> {
    let exec = Exec {
        argv: vec!["/bin/true".into()],
        env: Vec::new(),
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: None,
        max_output: None,
    };
    match sandbox.exec(exec, b"", 1000, Overflow::KeepTail).await {
        Ok(completed) if completed.outcome == Outcome::Exited(0) => Ok(()),
        Ok(completed) => Err(format!("/bin/true: {:?}", completed.outcome)),
        Err(error) => Err(format!("/bin/true: {error}")),
    }
}

/// All results.
pub(crate) struct Comparison {
    reports: Vec<Report>,
    memory: Memory,
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reports.iter().try_for_each(|report| writeln!(f, "{report}"))?;
        self.memory.fmt(f)
    }
}

/// Runs every contender once per round, so that whatever disturbs the machine disturbs all of them.
pub(crate) async fn compare(extent: Extent) -> Result<Comparison, Box<dyn Error>> {
    let start = Instant::now();
    let (peers, absent) = peers::present()?;
    let engine = Containers::start(format!("bench-{}", std::process::id()))?;
    // Asked for once: finding out where limits hold is not part of creating a sandbox.
    let request = request();
    let mut steps = Steps::new(&engine, &request, &peers).await?;
    let mut files = Files::new(&engine, &request).await?;
    let mut forks = Forks::new(&engine, &request).await?;
    let mut crowd = Crowd::new(&engine, &request, &peers);
    for round in 0..extent.rounds {
        let long = extent.is_long(round);
        steps.round(if long { steps::Peers::All } else { steps::Peers::Fast }).await?;
        files.round().await?;
        forks.round(long).await?;
        if long {
            crowd.round().await?;
        }
        if start.elapsed() > extent.deadline {
            break;
        }
    }
    let mut reports = vec![steps.report(absent).await?, files.report().await?, forks.report()];
    reports.extend(crowd.report());
    // Last, and alone: so many sandboxes disturb everything else.
    drop(engine);
    let memory = memory::measure(&request, start + extent.memory_deadline).await;
    Ok(Comparison { reports, memory })
}
