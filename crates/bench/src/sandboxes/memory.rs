//! What an idle sandbox costs: the memory of everything of ours, shared pages by shares, and the kernel's beside it.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jail::cgroups::{Version, hierarchies_of};
use sandbox::{Capture, Containers, Request, Sandbox};

use super::run_true;
use crate::proc::number;

/// How many are idle at the same time.
const COUNTS: [u32; 2] = [200, 1000];
/// The kernel's memory that no process owns, by /proc/meminfo.
const KERNEL: [&str; 4] = ["Slab:", "KernelStack:", "PageTables:", "Percpu:"];
/// The kernel gives the memory of namespaces back a while after they ended.
const SETTLING: Duration = Duration::from_millis(250);
const SETTLINGS: u32 = 12;
/// ESRCH: what a process that nobody has waited for yet answers.
const NO_SUCH_PROCESS: i32 = 3;

/// KiB of everything.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    guests: u32,
    zygote: u32,
    runner: u32,
    /// By the control group in which the sandboxes have theirs, where it counts that.
    group: Option<u32>,
    machine: u32,
}

impl Reading {
    fn ours(&self) -> u32 {
        self.guests + self.zygote + self.runner
    }
}

/// What a row shows of a reading.
type Row = (&'static str, fn(&Reading) -> u32);

const ROWS: [Row; 6] = [
    ("ringfence, all of it", Reading::ours),
    ("  its guest", |reading| reading.guests),
    ("  its share of the zygote", |reading| reading.zygote),
    ("  its share of the runner", |reading| reading.runner),
    ("kernel, by the control group", |reading| reading.group.unwrap_or(0)),
    ("kernel, by the whole machine", |reading| reading.machine),
];

/// What was found; every figure is without what was there before the first sandbox.
pub(crate) struct Memory {
    before: Reading,
    with: Vec<(u32, Reading)>,
    absent: Vec<String>,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |of: fn(&Reading) -> u32, count: u32, with: &Reading| {
            (f64::from(of(with)) - f64::from(of(&self.before))) / 1024.0 / f64::from(count)
        };
        write!(f, "{:<38}", "MiB for each idle sandbox")?;
        self.with.iter().try_for_each(|(count, _)| write!(f, " {:>9}", format!("of {count}")))?;
        writeln!(f)?;
        for (name, of) in ROWS {
            if of(&self.before) == 0 && self.with.iter().all(|(_, with)| of(with) == 0) {
                continue;
            }
            write!(f, "{name:<38}")?;
            self.with.iter().try_for_each(|(count, with)| write!(f, " {:>9.3}", each(of, *count, with)))?;
            writeln!(f)?;
        }
        self.absent.iter().try_for_each(|absent| writeln!(f, "not measured: {absent}"))?;
        writeln!(f)?;
        for (count, with) in &self.with {
            let what = format!("MiB for each of {count} idle sandboxes");
            writeln!(f, "{what:<48} {:>7.2}   floor ≤ 1.5, target ≤ 1", each(Reading::ours, *count, with))?;
        }
        Ok(())
    }
}

/// Creates them one by one and reads at each count. Each has run a command; its network is there and nobody uses it.
pub(crate) async fn measure(request: &Request, deadline: Instant) -> Memory {
    let mut memory = Memory { before: Reading::default(), with: Vec::new(), absent: Vec::new() };
    if let Err(error) = fill(&mut memory, request, deadline).await {
        memory.absent.push(format!("idle sandboxes: {error}"));
    }
    memory
}

async fn fill(memory: &mut Memory, request: &Request, deadline: Instant) -> Result<(), Box<dyn Error>> {
    settle().await?;
    memory.before = read(None, 0)?;
    let engine = Containers::start(format!("bench-idle-{}", std::process::id()))?;
    let mut idle: Vec<(Sandbox, Capture)> = Vec::new();
    for count in COUNTS {
        if !memory.with.is_empty() && Instant::now() > deadline {
            memory.absent.push(format!("{count} idle sandboxes: no time left"));
            break;
        }
        while idle.len() < usize::try_from(count)? {
            let created = engine.create_captured(request.clone()).await;
            let (sandbox, capture) = created.map_err(|error| format!("after {}: {error}", idle.len()))?;
            run_true(&sandbox).await.map_err(|error| format!("in number {}: {error}", idle.len()))?;
            idle.push((sandbox, capture));
        }
        settle().await?;
        memory.with.push((count, read(Some(engine.helper()), idle.len())?));
    }
    for (sandbox, _) in idle {
        sandbox.stop().await?;
    }
    Ok(())
}

/// Waits until the kernel's memory does not shrink any more, but not for ever: others use the machine too.
async fn settle() -> Result<(), Box<dyn Error>> {
    let mut last = machine()?;
    for _ in 0..SETTLINGS {
        tokio::time::sleep(SETTLING).await;
        let now = machine()?;
        if now.saturating_add(256) > last {
            break;
        }
        last = now;
    }
    Ok(())
}

fn read(zygote: Option<u32>, sandboxes: usize) -> Result<Reading, Box<dyn Error>> {
    let mut reading = Reading { runner: share(std::process::id())?, machine: machine()?, ..Reading::default() };
    if let Some(zygote) = zygote {
        reading.zygote = share(zygote)?;
        let guests = children(zygote)?;
        // One more is the cradle, and one may wait for its root. They are counted: an engine has them.
        if !(sandboxes + 1..=sandboxes + 2).contains(&guests.len()) {
            return Err(format!("{} guests in {sandboxes} sandboxes", guests.len()).into());
        }
        for guest in guests {
            reading.guests += share(guest)?;
            for other in children(guest)? {
                reading.guests += share(other)?;
            }
        }
    }
    let group = zygote.and_then(|zygote| children(zygote).ok()?.into_iter().find_map(memory_group));
    if let Some((directory, version)) = group {
        // Everything below it counts. In v2 others may be below it too.
        reading.group = match version {
            Version::One => fs::read_to_string(directory.join("memory.kmem.usage_in_bytes"))?.trim().parse().ok(),
            Version::Two => number::<u64>(&fs::read_to_string(directory.join("memory.stat"))?, "kernel ").ok(),
        }
        .map(|bytes| u32::try_from(bytes / 1024))
        .transpose()?;
    }
    Ok(reading)
}

/// Where the group of a sandbox was made, by its first process.
fn memory_group(guest: u32) -> Option<(PathBuf, Version)> {
    let found = hierarchies_of(guest).ok()?;
    let first = found.iter().find(|one| one.controllers.iter().any(|controller| controller == "memory"));
    let group = first.or_else(|| found.iter().find(|one| one.version == Version::Two))?;
    let is_ours = group.directory.file_name()?.to_string_lossy().starts_with("ringfence-");
    is_ours.then_some((group.directory.parent()?.to_owned(), group.version))
}

fn children(pid: u32) -> Result<Vec<u32>, Box<dyn Error>> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// A process' memory in KiB; what it shares with others, by shares. One that ended has none.
fn share(pid: u32) -> Result<u32, Box<dyn Error>> {
    match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        Ok(text) => number(&text, "Pss:"),
        Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) || error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn machine() -> Result<u32, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/meminfo")?;
    KERNEL.iter().try_fold(0, |sum, line| Ok(sum + number::<u32>(&text, line)?))
}
