//! Cycles per second while many are under way at the same time: create, /bin/true, destroy.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use sandbox::{Containers, Request};
use tokio::task::JoinSet;

use super::peers::{self, Peer};
use super::run_true;
use crate::table::{Report, Series, Unit};

const OURS: &str = "ringfence cycles";

/// How many at the same time, how many cycles that are in a round, and what the table and its ratio say.
const LEVELS: [(u32, u32, &str, &str); 4] = [
    (1, 8, "1 at the same time", ""),
    (2, 8, "2 at the same time", ""),
    (8, 24, "8 at the same time", ""),
    (32, 64, "32 at the same time", "floor ≥ 1.5, target ≥ 3"),
];

pub(crate) struct Crowd<'a> {
    engine: &'a Containers,
    request: &'a Request,
    peers: Vec<&'a Peer>,
    /// By level: ours, then the peers.
    rows: Vec<Vec<Series>>,
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(engine: &'a Containers, request: &'a Request, peers: &'a [Peer]) -> Self {
        let peers: Vec<&Peer> = peers.iter().filter(|peer| [peers::BWRAP, peers::CRUN].contains(&peer.name)).collect();
        let names = || [OURS].into_iter().chain(peers.iter().map(|peer| peer.name));
        let rows = LEVELS.iter().map(|_| names().map(Series::new).collect()).collect();
        Self { engine, request, peers, rows }
    }

    pub(crate) async fn round(&mut self) -> Result<(), Box<dyn Error>> {
        for ((workers, cycles, ..), rows) in LEVELS.into_iter().zip(&mut self.rows) {
            let mut rows = rows.iter_mut();
            if let Some(row) = rows.next() {
                let start = Instant::now();
                ours(self.engine, self.request, workers, cycles).await?;
                row.times.push(start.elapsed() / cycles);
            }
            for (peer, row) in self.peers.iter().zip(rows) {
                let start = Instant::now();
                theirs(peer, workers, cycles)?;
                row.times.push(start.elapsed() / cycles);
            }
        }
        Ok(())
    }

    pub(crate) fn report(self) -> Vec<Report> {
        let reports = LEVELS.into_iter().zip(self.rows).map(|((_, _, title, bar), rows)| {
            let mut report = Report::new(title, Unit::PerSecond, rows);
            report.compare(OURS, peers::CRUN, bar);
            report.compare(OURS, peers::BWRAP, "");
            report
        });
        reports.collect()
    }
}

/// Takes one of what is left to do.
fn take(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

async fn ours(engine: &Containers, request: &Request, workers: u32, cycles: u32) -> Result<(), Box<dyn Error>> {
    let left = Arc::new(AtomicU32::new(cycles));
    let mut crowd = JoinSet::new();
    for _ in 0..workers {
        let (engine, request, left) = (engine.clone(), request.clone(), Arc::clone(&left));
        crowd.spawn(async move {
            while take(&left) {
                let sandbox = engine.create(request.clone()).await.map_err(|error| error.to_string())?;
                run_true(&sandbox).await?;
                sandbox.stop().await.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        });
    }
    while let Some(done) = crowd.join_next().await {
        done??;
    }
    Ok(())
}

fn theirs(peer: &Peer, workers: u32, cycles: u32) -> Result<(), Box<dyn Error>> {
    let left = AtomicU32::new(cycles);
    let work = || {
        while take(&left) {
            peer.run()?;
        }
        Ok::<(), String>(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(())
}
