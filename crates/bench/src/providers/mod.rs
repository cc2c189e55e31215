//! Inspect's sandbox providers beside ours: the same calls and the same task in one interleaved run of one Python process.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use crate::evals::programs;
use crate::table::{Report, Series, Unit};

/// What Inspect is asked to do.
const PEER: &str = include_str!("peer.py");
/// Contenders in the order of the tables. The first is what others are divided by.
const NAMES: [&str; 4] = ["local", "ringfence", "ringfence (docker)", "docker"];
/// What is timed, in the order of the tables, and whether floors are set for it.
const TITLES: [(&str, bool); 8] = [
    ("exec of true", true),
    ("write of 1 KiB", false),
    ("read of 1 KiB", false),
    ("write of 1 MiB", false),
    ("read of 1 MiB", false),
    ("sample_init", false),
    ("sample_cleanup", false),
    ("whole eval", false),
];

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: usize,
    samples: usize,
    calls: usize,
}

pub(crate) const QUICK: Extent = Extent { rounds: 40, samples: 20, calls: 5 };
pub(crate) const FULL: Extent = Extent { rounds: 200, samples: 100, calls: 10 };

/// What the script says: seconds by what was timed and by contender.
#[derive(Deserialize)]
struct Said {
    times: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    absent: Vec<String>,
}

/// One table for each thing that was timed.
pub(crate) struct Tables(Vec<Report>);

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|report| writeln!(f, "{report}"))
    }
}

/// Runs the script in the lane's own environment and reads what it says.
pub(crate) fn compare(extent: Extent) -> Result<Tables, Box<dyn Error>> {
    let (ringfence, python) = programs()?;
    let python = python?;
    let target = ringfence.parent().and_then(Path::parent).ok_or("the command lies in no target directory")?;
    let place = tempfile::tempdir()?;
    let script = place.path().join("peer.py");
    std::fs::write(&script, PEER)?;
    let numbers = [extent.rounds, extent.samples, extent.calls].map(|number| number.to_string());
    let output = Command::new(python)
        .arg(script)
        .args(numbers)
        .arg(target)
        .current_dir(place.path())
        // The program of this build, whichever one the environment's package brought.
        .env("RINGFENCE_BINARY", &ringfence)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("Inspect's side ended with {}", output.status).into());
    }
    let line = output.stdout.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
    Ok(Tables(tables(&serde_json::from_slice(line)?)))
}

fn tables(said: &Said) -> Vec<Report> {
    let mut reports = Vec::new();
    for (title, has_floors) in TITLES {
        let Some(by_name) = said.times.get(title) else { continue };
        let rows = NAMES.iter().filter_map(|name| Some(series(name, by_name.get(*name)?))).collect();
        let mut report = Report::new(title, Unit::Millis, rows);
        let (slower, faster) =
            if has_floors { ("floor ≤ 3, target ≤ 2", "floor ≥ 20, target ≥ 40") } else { ("", "") };
        report.compare("ringfence", "local", slower);
        report.compare("docker", "ringfence", faster);
        report.compare("docker", "ringfence (docker)", "");
        reports.push(report);
    }
    if let Some(last) = reports.last_mut() {
        last.absent.clone_from(&said.absent);
    }
    reports
}

fn series(name: &'static str, seconds: &[f64]) -> Series {
    let mut series = Series::new(name);
    series.times = seconds.iter().map(|time| Duration::try_from_secs_f64(*time).unwrap_or_default()).collect();
    series
}
