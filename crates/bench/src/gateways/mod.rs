//! Our gateway against its peers. Every contender's client is the same program, and every byte crosses the same link to
//! the same server; only what stands between them differs.

mod client;
mod memory;
mod namespaces;
mod origin;
mod ours;
mod proxies;

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

pub(crate) use self::client::Errand;
use self::client::{Task, Way};
use self::memory::Memory;
use self::namespaces::Origin;
pub(crate) use self::namespaces::enter_namespace;
pub(crate) use self::origin::serve as serve_origin;
use self::ours::Ours;
use self::proxies::Proxy;
use crate::table::{Report, Series, Unit};

/// Names of rows.
const DIRECT: &str = "direct";
const OURS: &str = "ringfence";

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: u32,
    /// No round begins after this.
    deadline: Duration,
    /// Of a stream.
    bytes: u32,
}

/// Ends within a minute.
pub(crate) const QUICK: Extent = Extent { rounds: 15, deadline: Duration::from_secs(30), bytes: 128 << 20 };
/// For figures that are written down.
pub(crate) const FULL: Extent = Extent { rounds: 40, deadline: Duration::from_mins(5), bytes: 256 << 20 };
/// New connections, and requests on one connection, of each contender in a round.
const CONNECTIONS: u32 = 50;
const REQUESTS: u32 = 2000;

/// Who is measured.
struct Contender<'a> {
    at: String,
    way: Way,
    /// The sandbox that its client runs in; `None`: the runner's namespace, beside the proxies.
    inside: Option<&'a Ours>,
    series: Series,
}

/// Something that is measured, with those who take part.
struct Discipline<'a> {
    task: Task,
    count: u32,
    contenders: Vec<Contender<'a>>,
}

impl<'a> Discipline<'a> {
    fn new(task: Task, count: u32, ours: &'a Ours, proxies: &[Proxy]) -> Self {
        let direct = (DIRECT, origin::address(), Way::Straight, None);
        let inside = (OURS, origin::name(), Way::Straight, Some(ours));
        // Whoever can check requests does so where requests are counted.
        let peers = proxies.iter().filter(|proxy| (proxy.way == Way::Forward) == (task == Task::Requests));
        let peers = peers.map(|proxy| (proxy.name, proxy.at(), proxy.way, None));
        let all = [direct, inside].into_iter().chain(peers);
        let contenders = all.map(|(name, at, way, inside)| Contender { at, way, inside, series: Series::new(name) });
        Self { task, count, contenders: contenders.collect() }
    }

    async fn round(&mut self) -> Result<(), Box<dyn Error>> {
        for Contender { at, way, inside, series } in &mut self.contenders {
            let errand = Errand { task: self.task, at: at.clone(), way: *way, count: self.count };
            let printed = match inside {
                Some(ours) => ours.run(&errand).await,
                None => namespaces::run(&errand).await,
            };
            let printed = printed.map_err(|error| format!("{}: {errand:?}: {error}", series.name))?;
            for line in printed.lines() {
                series.times.push(Duration::from_nanos(line.parse()?));
            }
        }
        Ok(())
    }

    fn report(self, title: &'static str, unit: Unit) -> Report {
        Report::new(title, unit, self.contenders.into_iter().map(|contender| contender.series).collect())
    }
}

/// All results.
pub(crate) struct Comparison {
    reports: [Report; 4],
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
    let origin = Origin::start()?;
    let programs = client::copy()?;
    let (proxies, absent) = proxies::present();
    let ours = Ours::start(&programs, None).await?;
    let mut stream = Discipline::new(Task::Download, extent.bytes, &ours, &proxies);
    let mut first_byte = Discipline::new(Task::FirstByte, CONNECTIONS, &ours, &proxies);
    let mut back_to_back = Discipline::new(Task::BackToBack, CONNECTIONS, &ours, &proxies);
    let mut requests = Discipline::new(Task::Requests, REQUESTS, &ours, &proxies);
    let deadline = Instant::now() + extent.deadline;
    for _ in 0..extent.rounds {
        stream.round().await?;
        first_byte.round().await?;
        back_to_back.round().await?;
        requests.round().await?;
        if Instant::now() > deadline {
            break;
        }
    }
    let mut stream = stream.report("one stream", Unit::GigabytesPerSecond(extent.bytes));
    stream.absent = absent;
    stream.compare(OURS, proxies::SQUID, "floor ≥ 1.0, target ≥ 1.5");
    let mut first_byte = first_byte.report("connect + first byte", Unit::Micros);
    first_byte.compare(OURS, DIRECT, "floor ≤ 4, target ≤ 3");
    let mut back_to_back = back_to_back.report("the same, back to back", Unit::Micros);
    back_to_back.compare(OURS, DIRECT, "");
    let mut requests = requests.report("requests on one connection", Unit::PerSecond);
    requests.compare(OURS, proxies::SQUID_FORWARD, "floor ≥ 1.0");
    ours.stop().await?;
    let memory = memory::measure(&programs).await?;
    // Only now: whatever still speaks with it would see it end.
    drop((proxies, origin));
    Ok(Comparison { reports: [stream, first_byte, back_to_back, requests], memory })
}
