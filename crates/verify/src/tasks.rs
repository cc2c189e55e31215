//! The probes under way: side by side where they do not disturb each other.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandbox::{Maker, Sandbox, SessionError, Variant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::network::{self, Exchange, Expected, Said};
use crate::probe::{Finding, Probe, Verdict, Way};
use crate::run::VerifyError;
use crate::scene::Scene;
use crate::zones::{Zone, altered};
use crate::{host, limits, sibling};

/// Attempts at the same time.
const AT_ONCE: usize = 16;

/// A sandbox of one zone.
pub(crate) struct Place {
    pub(crate) zone: Zone,
    pub(crate) inside: Arc<Sandbox>,
    pub(crate) attachment: Option<egress::Attachment>,
}

/// What became of an exchange before it is judged.
pub(crate) enum Tried {
    Said { witness: Said, inside: Said },
    Not(Finding),
}

/// What became of every exchange, by probe and zone.
pub(crate) type Exchanged = BTreeMap<(&'static str, usize), Tried>;

/// Counts what is done.
pub(crate) struct Ticker {
    done: AtomicUsize,
    total: usize,
    progress: Arc<dyn Fn(usize, usize) + Send + Sync>,
}

impl Ticker {
    pub(crate) fn new(probes: &[Probe], zones: usize, progress: Arc<dyn Fn(usize, usize) + Send + Sync>) -> Arc<Self> {
        let of_network = probes.iter().filter(|probe| matches!(probe.way, Way::Network(_))).count();
        let total = probes.len() - of_network + of_network * zones;
        progress(0, total);
        Arc::new(Self { done: 0.into(), total, progress })
    }

    fn tick(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.progress)(done, self.total);
    }
}

pub(crate) type Findings = BTreeMap<&'static str, Finding>;

/// A session that fails shows nothing.
fn or_unknown(found: Result<Finding, SessionError>) -> Finding {
    found.unwrap_or_else(|error| Finding::unknown(error.to_string()))
}

/// Runs what is given side by side, a few at a time.
async fn side_by_side<K: Send + 'static, T: Send + 'static>(
    work: Vec<(K, impl Future<Output = T> + Send + 'static)>,
    ticker: &Arc<Ticker>,
) -> Vec<(K, T)> {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (key, future) in work {
        let (room, ticker) = (Arc::clone(&room), Arc::clone(ticker));
        running.spawn(async move {
            let _place = room.acquire_owned().await;
            let done = future.await;
            ticker.tick();
            (key, done)
        });
    }
    running.join_all().await
}

pub(crate) async fn hosts(
    probes: &[Probe],
    inside: &Arc<Sandbox>,
    witness: &Arc<Sandbox>,
    scene: &Arc<Scene>,
    ticker: &Arc<Ticker>,
) -> Findings {
    let elsewhere = |way: Way| matches!(way, Way::Bound(_) | Way::Network(_) | Way::Sibling);
    let work = probes.iter().filter(|probe| !elsewhere(probe.way)).map(|probe| {
        let (way, inside, witness, scene) = (probe.way, Arc::clone(inside), Arc::clone(witness), Arc::clone(scene));
        let control = probe.control;
        (probe.id, async move {
            match scene.unclaimed(control) {
                Some(why) => Finding::unclaimed(why),
                None => or_unknown(host::probe(way, &inside, &witness, &scene).await),
            }
        })
    });
    side_by_side(work.collect(), ticker).await.into_iter().collect()
}

pub(crate) async fn exchanges(
    probes: &[Probe],
    places: &[Place],
    witness: &Arc<Sandbox>,
    v6: bool,
    ticker: &Arc<Ticker>,
) -> Exchanged {
    let mut work = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let own = or_unknown(host::namespace("net", &place.inside).await);
        // In the runner's network, what is meant for our canaries would go out into the real one.
        let unserved = (own.verdict != Verdict::Pass).then(|| {
            Finding::unknown(format!("not tried: the sandbox's network is not shown to be its own: {}", own.evidence))
        });
        for probe in probes {
            let Way::Network(exchange) = probe.way else { continue };
            let (inside, witness, zone) = (Arc::clone(&place.inside), Arc::clone(witness), place.zone.clone());
            let (key, unserved) = ((probe.id, number), unserved.clone());
            work.push((key, async move {
                match unserved {
                    Some(finding) => Tried::Not(finding),
                    None => one(exchange, &zone, &inside, &witness, v6).await,
                }
            }));
        }
    }
    side_by_side(work, ticker).await.into_iter().collect()
}

async fn one(exchange: &Exchange, zone: &Zone, inside: &Sandbox, witness: &Sandbox, v6: bool) -> Tried {
    if exchange.address().is_some_and(|address| address.is_ipv6()) && !v6 {
        return Tried::Not(Finding::unclaimed("this host has no IPv6"));
    }
    if let Some(why) = altered(exchange, zone) {
        return Tried::Not(Finding::unclaimed(why));
    }
    let needs_witness = match exchange.expected(zone.level) {
        Expected::Anything => {
            return Tried::Not(Finding::unclaimed(format!("{} promises nothing about it", zone.level)));
        }
        Expected::Reached => false,
        Expected::Refused(_) | Expected::Dropped => true,
    };
    let shown = async { if needs_witness { network::witness(exchange, witness).await } else { Ok(Said::default()) } };
    match tokio::try_join!(shown, network::inside(exchange, inside)) {
        Ok((witness, inside)) => Tried::Said { witness, inside },
        Err(error) => Tried::Not(Finding::unknown(error.to_string())),
    }
}

/// Limits, one after the other: each would starve the next.
pub(crate) async fn bounds(
    probes: &[Probe],
    maker: &dyn Maker,
    scene: &Scene,
    ticker: &Ticker,
) -> Result<Findings, VerifyError> {
    let mut findings = Findings::new();
    let wanted: Vec<&Probe> = probes.iter().filter(|probe| matches!(probe.way, Way::Bound(_))).collect();
    if wanted.is_empty() {
        return Ok(findings);
    }
    // Its capture is held and served by nobody.
    let (inside, _capture) = maker.make(limits::small()).await?;
    for probe in wanted {
        if let Way::Bound(bound) = probe.way {
            findings.insert(probe.id, or_unknown(limits::probe(bound, &inside, scene).await));
            ticker.tick();
        }
    }
    inside.stop().await?;
    Ok(findings)
}

pub(crate) async fn siblings(
    probes: &[Probe],
    maker: &dyn Maker,
    inside: &Sandbox,
    scene: &Scene,
    ticker: &Ticker,
) -> Result<Findings, VerifyError> {
    let mut findings = Findings::new();
    for probe in probes.iter().filter(|probe| matches!(probe.way, Way::Sibling)) {
        // Its capture is held and served by nobody: all that it needs is its own loopback.
        let (sibling, _capture) = maker.make(Variant::default()).await?;
        findings.insert(probe.id, or_unknown(sibling::probe(inside, &sibling, &scene.token).await));
        sibling.stop().await?;
        ticker.tick();
    }
    Ok(findings)
}
