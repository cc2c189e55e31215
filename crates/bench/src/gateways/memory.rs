//! What idle connections cost the gateway's process.

use std::error::Error;
use std::fmt;
use std::fs;

use sandbox::{Event, Running, Stream};
use tempfile::TempDir;

use super::client::{Errand, Task, Way};
use super::origin;
use super::ours::Ours;
use crate::proc::number;

/// How many connections the figure is about.
const WANTED: u32 = 10_000;
/// Descriptors that a gateway keeps for itself, and a few more for those of a client that is just going.
const RESERVED: u32 = 256 + 100;

/// Connections of one client: a command in a sandbox has 4096 descriptors.
const EACH: u32 = 4000;

/// Resident memory before and with connections, in KiB.
pub(crate) struct Memory {
    connections: u32,
    before: u32,
    with: u32,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, before, with } = *self;
        let mebibytes = |kibibytes: u32| f64::from(kibibytes) / 1024.0;
        let more = mebibytes(with.saturating_sub(before));
        writeln!(f, "{:<38} {:>9} {:>9} {:>9}", "idle connections", "MiB none", "MiB all", "n")?;
        writeln!(f, "{:<38} {:>9.1} {:>9.1} {connections:>9}", super::OURS, mebibytes(before), mebibytes(with))?;
        writeln!(f, "\n{:<48} {more:>7.2}", format!("MiB for {connections}"))?;
        let scaled = more * f64::from(WANTED) / f64::from(connections);
        let what = if connections < WANTED { "scaled: " } else { "" };
        writeln!(f, "{:<48} {scaled:>7.2}   floor ≤ 300, target ≤ 200", format!("MiB {what}for {WANTED}"))
    }
}

/// Opens as many connections as descriptors allow through a gateway of its own. Each has carried a request.
pub(crate) async fn measure(programs: &TempDir) -> Result<Memory, Box<dyn Error>> {
    let ours = Ours::start(programs, Some(2 * WANTED)).await?;
    let pid = ours.pid();
    let files: u32 = number(&fs::read_to_string(format!("/proc/{pid}/limits"))?, "Max open files")?;
    // Two for each connection: one inside, one outside.
    let connections = (files.saturating_sub(RESERVED) / 2).min(WANTED);
    // One is through already: what the first one allocates is not the connections'.
    ours.run(&Errand { task: Task::FirstByte, at: origin::name(), way: Way::Straight, count: 1 }).await?;
    let before = resident(pid)?;
    let mut clients = Vec::new();
    for held in 0..connections.div_ceil(EACH) {
        let count = EACH.min(connections - held * EACH);
        let errand = Errand { task: Task::Hold, at: origin::name(), way: Way::Straight, count };
        clients.push(begin(&ours, &errand).await?);
    }
    let with = resident(pid)?;
    drop(clients);
    ours.stop().await?;
    Ok(Memory { connections, before, with })
}

/// Starts a client and waits for its word that it holds everything.
async fn begin(ours: &Ours, errand: &Errand) -> Result<Running, Box<dyn Error>> {
    let mut client = ours.begin(errand)?;
    let mut said = Vec::new();
    while !said.contains(&b'\n') {
        match client.next().await {
            Event::Output(Stream::Out, bytes) => said.extend(bytes),
            Event::Output(_, bytes) => return Err(String::from_utf8_lossy(&bytes).into()),
            event => return Err(format!("a client ended: {event:?}").into()),
        }
    }
    Ok(client)
}

/// The gateway's resident memory in KiB.
fn resident(pid: u32) -> Result<u32, Box<dyn Error>> {
    number(&fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS:")
}
