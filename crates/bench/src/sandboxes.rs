//! Our engine against its peers: a cold cycle, and a command in a live sandbox.

use std::error::Error;
use std::time::{Duration, Instant};

use jail::cgroups::Limits;
use jail::zygote::{Image, Network};
use sandbox::{Containers, Exec, Outcome, Overflow, Pool, Request, Sandbox, User};

use crate::peers;
use crate::table::{Report, Series, Unit};

/// Names of our own rows.
const CYCLE: &str = "ringfence create + exec + destroy";
const POOLED: usize = 2;
const CLAIM: &str = "ringfence claim from the pool";
const EXEC: &str = "ringfence exec in a live sandbox";

/// A sandbox as a plan would ask for it.
pub(crate) fn request() -> Request {
    let limits = jail::cgroups::hierarchies().is_ok_and(|all| all.iter().any(|one| one.find("memory").is_some()));
    let limits = limits.then_some(Limits { memory: 512 << 20, pids: 256, cpu_millis: 2000 });
    Request {
        image: Image::Host,
        begin_with: None,
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

/// Waits until the pool has prepared what it may.
async fn full(pool: &Pool) {
    while pool.ready() < POOLED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs every contender once per round, so that whatever disturbs the machine disturbs all of them.
pub(crate) async fn compare(rounds: u32) -> Result<Report, Box<dyn Error>> {
    let (peers, absent) = peers::present()?;
    let engine = Containers::start(format!("bench-{}", std::process::id()))?;
    let live = engine.create(request()).await?;
    let mut rows: Vec<Series> = peers.iter().map(|peer| Series::new(peer.name)).collect();
    let (mut cycles, mut claims, mut execs) = (Series::new(CYCLE), Series::new(CLAIM), Series::new(EXEC));
    let pool = Pool::new(engine.clone(), request(), POOLED);
    full(&pool).await;
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
        let start = Instant::now();
        let (claimed, _) = pool.claim().await?;
        claims.times.push(start.elapsed());
        claimed.stop().await?;
        // Refilled before anybody else is measured.
        full(&pool).await;
        if Instant::now() > deadline {
            break;
        }
    }
    live.stop().await?;
    pool.close().await?;
    rows.extend([cycles, claims, execs]);
    let mut report = Report::new("what", Unit::Millis, rows);
    report.absent = absent;
    report.compare(EXEC, "spawn", "floor ≤ 1.6, target ≤ 1.25");
    report.compare("crun run", CYCLE, "floor ≥ 2.5, target ≥ 5");
    report.compare("bwrap --unshare-all", CYCLE, "target ≥ 2");
    report.compare("runc run", CYCLE, "");
    report.compare("bwrap --unshare-all", CLAIM, "floor ≥ 10, target ≥ 20");
    report.compare("crun run", CLAIM, "floor ≥ 25, target ≥ 50");
    Ok(report)
}
