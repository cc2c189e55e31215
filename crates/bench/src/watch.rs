//! What a command costs: its time, and the most memory that it and everything below it had at one moment.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::proc::number;

/// How often memory is looked at. Short commands are seen a few times; the peak may lie between two looks.
const LOOK: Duration = Duration::from_millis(40);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    kibibytes: u64,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    pub(crate) fn mebibytes(&self) -> f64 {
        self.kibibytes as f64 / 1024.0
    }
}

/// Memory over time: when, in seconds since 1970, and how much, in KiB.
pub(crate) type Looks = Vec<(f64, u64)>;

/// PSS of a process and all its descendants, in KiB.
fn memory(root: u32) -> u64 {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        if let Ok(parent) = number::<u32>(&status, "PPid:") {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut open, mut sum) = (vec![root], 0);
    while let Some(pid) = open.pop() {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        sum += number::<u64>(&rollup, "Pss:").unwrap_or(0);
        open.extend(children.get(&pid).into_iter().flatten());
    }
    sum
}

/// Runs a command to its end; it must succeed.
pub(crate) fn watched(command: Command) -> Result<Cost, Box<dyn Error>> {
    watched_every(LOOK, command).map(|(cost, _)| cost)
}

/// The same, with memory over time; each look takes a few milliseconds of a processor.
pub(crate) fn watched_every(look: Duration, mut command: Command) -> Result<(Cost, Looks), Box<dyn Error>> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    let (pid, mut looks) = (child.id(), Looks::new());
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let watching = std::thread::spawn(move || {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            looks.push((now.as_secs_f64(), memory(pid)));
            if end.recv_timeout(look) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return looks;
            }
        }
    });
    let status = child.wait()?;
    let time = start.elapsed();
    drop(ended);
    let looks = watching.join().map_err(|_| "the watcher failed")?;
    let kibibytes = looks.iter().map(|(_, kibibytes)| *kibibytes).max().unwrap_or_default();
    if status.success() {
        return Ok((Cost { time, kibibytes }, looks));
    }
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut said)?;
    }
    Err(format!("{status}: {}", said.lines().last().unwrap_or_default()).into())
}
