//! One at a time: a cold cycle and its parts, a command in a live sandbox, a claim from the pool.

use std::error::Error;
use std::time::{Duration, Instant};

use sandbox::{Containers, Pool, Request, Sandbox};

use super::peers::{self, Pace, Peer};
use super::run_true;
use crate::table::{Report, Series, Unit};

/// Names of our own rows.
const CYCLE: &str = "ringfence create + exec + destroy";
const CREATE: &str = "ringfence create";
const DESTROY: &str = "ringfence destroy";
const PREPARED: &str = "ringfence cycle, namespaces prepared";
const CLAIM: &str = "ringfence claim from the pool";
const EXEC: &str = "ringfence exec in a live sandbox";
const POOLED: usize = 2;

/// Which peers take part in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    Fast,
    All,
}

pub(crate) struct Steps<'a> {
    engine: &'a Containers,
    /// Another engine, that keeps namespaces prepared.
    ahead: Containers,
    request: &'a Request,
    live: Sandbox,
    pool: Pool,
    peers: Vec<(&'a Peer, Series)>,
    cycles: Series,
    prepared: Series,
    creates: Series,
    destroys: Series,
    claims: Series,
    execs: Series,
}

impl<'a> Steps<'a> {
    pub(crate) async fn new(
        engine: &'a Containers,
        request: &'a Request,
        peers: &'a [Peer],
    ) -> Result<Self, Box<dyn Error>> {
        let live = engine.create(request.clone()).await?;
        let ahead = Containers::start(format!("bench-{}-ahead", std::process::id()))?;
        ahead.create(request.clone()).await?.stop().await?;
        ahead.prepare(request, 1).await?;
        let pool = Pool::new(engine.clone(), request.clone(), POOLED);
        full(&pool).await;
        Ok(Self {
            engine,
            ahead,
            request,
            live,
            pool,
            peers: peers.iter().map(|peer| (peer, Series::new(peer.name))).collect(),
            cycles: Series::new(CYCLE),
            prepared: Series::new(PREPARED),
            creates: Series::new(CREATE),
            destroys: Series::new(DESTROY),
            claims: Series::new(CLAIM),
            execs: Series::new(EXEC),
        })
    }

    pub(crate) async fn round(&mut self, taking_part: Peers) -> Result<(), Box<dyn Error>> {
        for (peer, row) in &mut self.peers {
            if peer.pace == Pace::Fast || taking_part == Peers::All {
                let start = Instant::now();
                peer.run()?;
                row.times.push(start.elapsed());
            }
        }
        let start = Instant::now();
        let sandbox = self.engine.create(self.request.clone()).await?;
        let created = Instant::now();
        run_true(&sandbox).await?;
        let ran = Instant::now();
        sandbox.stop().await?;
        let ended = Instant::now();
        self.cycles.times.push(ended - start);
        self.creates.times.push(created - start);
        self.destroys.times.push(ended - ran);
        let start = Instant::now();
        let sandbox = self.ahead.create(self.request.clone()).await?;
        run_true(&sandbox).await?;
        sandbox.stop().await?;
        self.prepared.times.push(start.elapsed());
        // The next one is begun before anybody else is measured.
        tokio::time::sleep(Duration::from_millis(8)).await;
        let start = Instant::now();
        run_true(&self.live).await?;
        self.execs.times.push(start.elapsed());
        let start = Instant::now();
        let (claimed, _) = self.pool.claim().await?;
        self.claims.times.push(start.elapsed());
        claimed.stop().await?;
        // Refilled before anybody else is measured.
        full(&self.pool).await;
        Ok(())
    }

    pub(crate) async fn report(self, absent: Vec<String>) -> Result<Report, Box<dyn Error>> {
        self.live.stop().await?;
        self.pool.close().await?;
        let mut rows: Vec<Series> = self.peers.into_iter().map(|(_, row)| row).collect();
        rows.extend([self.cycles, self.prepared, self.creates, self.destroys, self.claims, self.execs]);
        let mut report = Report::new("what", Unit::Millis, rows);
        report.absent = absent;
        report.compare(EXEC, peers::SPAWN, "floor ≤ 1.6, target ≤ 1.25");
        report.compare(peers::CRUN, CYCLE, "floor ≥ 2.5, target ≥ 5");
        report.compare(peers::BWRAP, CYCLE, "floor ≥ 1.2, target ≥ 2");
        report.compare(peers::CRUN, PREPARED, "");
        report.compare(peers::BWRAP, PREPARED, "");
        report.compare(peers::RUNC, CYCLE, "");
        report.compare(peers::DOCKER, CYCLE, "");
        report.compare(peers::BWRAP, CLAIM, "floor ≥ 10, target ≥ 20");
        report.compare(peers::CRUN, CLAIM, "floor ≥ 25, target ≥ 50");
        Ok(report)
    }
}

/// Waits until the pool has prepared what it may.
async fn full(pool: &Pool) {
    while pool.ready() < POOLED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
