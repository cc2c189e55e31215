//! Our engine against its peers: a cold cycle, and a command in a live sandbox.

use std::error::Error;
use std::time::{Duration, Instant};

use jail::cgroups::Limits;
use jail::zygote::{Image, Network};
use sandbox::{Containers, Exec, Outcome, Overflow, Request, Sandbox, User};

use crate::peers;
use crate::table::{Report, Series};

/// Names of our own rows.
const CYCLE: &str = "ringfence create + exec + destroy";
const EXEC: &str = "ringfence exec in a live sandbox";

fn request() -> Request {
    let limits = jail::cgroups::hierarchies().is_ok_and(|all| all.iter().any(|one| one.find("memory").is_some()));
    let limits = limits.then_some(Limits { memory: 512 << 20, pids: 256, cpu_millis: 2000 });
    Request {
        image: Image::Host,
        limits,
        disk: 64 << 20,
        mounts: Vec::new(),
        allow_setuid: false,
        network: Network::Captured,
    }
}

async fn run_true(sandbox: &Sandbox) -> Result<(), Box<dyn Error>> {
    let exec = Exec {
        argv: vec!["/bin/true".into()],
        env: Vec::new(),
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: None,
        max_output: None,
    };
    let completed = sandbox.exec(exec, b"", 1000, Overflow::KeepTail).await?;
    if completed.outcome == Outcome::Exited(0) {
        Ok(())
    } else {
        Err(format!("/bin/true: {:?}", completed.outcome).into())
    }
}

/// Runs every contender once per round, so that whatever disturbs the machine disturbs all of them.
pub(crate) async fn compare(rounds: u32) -> Result<Report, Box<dyn Error>> {
    let (peers, absent) = peers::present()?;
    let engine = Containers::start(format!("bench-{}", std::process::id()))?;
    let live = engine.create(request()).await?;
    let mut rows: Vec<Series> = peers.iter().map(|peer| Series::new(peer.name)).collect();
    let (mut cycles, mut execs) = (Series::new(CYCLE), Series::new(EXEC));
    let deadline = Instant::now() + Duration::from_secs(if rounds <= 60 { 35 } else { 300 });
    for round in 0..rounds {
        for (peer, row) in peers.iter().zip(&mut rows) {
            let start = Instant::now();
            peer.run(round)?;
            row.times.push(start.elapsed());
        }
        let start = Instant::now();
        let sandbox = engine.create(request()).await?;
        run_true(&sandbox).await?;
        sandbox.stop().await?;
        cycles.times.push(start.elapsed());
        let start = Instant::now();
        run_true(&live).await?;
        execs.times.push(start.elapsed());
        if Instant::now() > deadline {
            break;
        }
    }
    live.stop().await?;
    rows.extend([cycles, execs]);
    let mut report = Report { rows, absent, ratios: Vec::new() };
    for (above, below, bar) in [
        (EXEC, "spawn", "floor ≤ 1.6, target ≤ 1.25"),
        ("crun run", CYCLE, "floor ≥ 2.5, target ≥ 5"),
        ("bwrap --unshare-all", CYCLE, "target ≥ 2"),
        ("runc run", CYCLE, ""),
    ] {
        if let Some(value) = report.ratio(above, below) {
            report.ratios.push((format!("{above} ÷ {below}"), value, bar));
        }
    }
    Ok(report)
}
