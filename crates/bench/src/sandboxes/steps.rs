//! One at a time: a cycle and its parts, a command in a live sandbox, a claim from the pool.
//!
//! An engine keeps one sandbox begun, without a root, while nobody asks. The cycle is measured as such an engine does it,
//! and with an engine that begins nothing before it is asked; and then once more without what bwrap does not have either:
//! a captured network and limits.

use std::error::Error;
use std::time::{Duration, Instant};

use jail::zygote::Network;
use sandbox::{Containers, Pool, Request, Sandbox};

use super::peers::{self, Pace, Peer};
use super::run_true;
use crate::table::{Report, Series, Unit};

/// Names of our own rows.
const CYCLE: &str = "ringfence create + exec + destroy";
const CREATE: &str = "ringfence create";
const DESTROY: &str = "ringfence destroy";
const COLD: &str = "ringfence cycle, nothing prepared";
const BARE: &str = "the same, loopback alone and no limits";
const CLAIM: &str = "ringfence claim from the pool";
const EXEC: &str = "ringfence exec in a live sandbox";
const POOLED: usize = 2;
/// Until what is begun while nobody asks has been.
const REST: Duration = Duration::from_millis(10);

/// Which peers take part in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    Fast,
    All,
}

pub(crate) struct Steps<'a> {
    engine: &'a Containers,
    /// Another engine, that prepares nothing.
    cold: Containers,
    request: &'a Request,
    live: Sandbox,
    pool: Pool,
    peers: Vec<(&'a Peer, Series)>,
    cycles: Series,
    colds: Series,
    bares: Series,
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
        let cold = Containers::start(format!("bench-{}-cold", std::process::id()))?;
        cold.prepare(request, 0).await?;
        cold.create(request.clone()).await?.stop().await?;
        let pool = Pool::new(engine.maker(request.clone()), POOLED);
        full(&pool).await;
        Ok(Self {
            engine,
            cold,
            request,
            live,
            pool,
            peers: peers.iter().map(|peer| (peer, Series::new(peer.name))).collect(),
            cycles: Series::new(CYCLE),
            colds: Series::new(COLD),
            bares: Series::new(BARE),
            creates: Series::new(CREATE),
            destroys: Series::new(DESTROY),
            claims: Series::new(CLAIM),
            execs: Series::new(EXEC),
        })
    }

    pub(crate) async fn round(&mut self, taking_part: Peers) -> Result<(), Box<dyn Error>> {
        // Whatever we do while nobody asks, nobody else is to wait for.
        tokio::time::sleep(REST).await;
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
        tokio::time::sleep(REST).await;
        let bare = Request { network: Network::Loopback, limits: None, ..self.request.clone() };
        for (request, row) in [(self.request, &mut self.colds), (&bare, &mut self.bares)] {
            let start = Instant::now();
            let sandbox = self.cold.create(request.clone()).await?;
            run_true(&sandbox).await?;
            sandbox.stop().await?;
            row.times.push(start.elapsed());
            tokio::time::sleep(REST).await;
        }
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
        rows.extend([self.cycles, self.colds, self.bares, self.creates, self.destroys, self.claims, self.execs]);
        let mut report = Report::new("what", Unit::Millis, rows);
        report.absent = absent;
        report.compare(EXEC, peers::SPAWN, "floor ≤ 1.6, target ≤ 1.25");
        report.compare(peers::CRUN, CYCLE, "floor ≥ 2.5, target ≥ 5");
        report.compare(peers::BWRAP, CYCLE, "floor ≥ 1.2, target ≥ 2");
        report.compare(peers::CRUN, COLD, "");
        report.compare(peers::BWRAP, COLD, "");
        report.compare(peers::BWRAP, BARE, "");
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
