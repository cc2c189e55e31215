//! Evaluations beside Inspect's own: the same samples, the same calls, in one interleaved run.
//!
//! Ours run their commands in sandboxes; Inspect's run them as plain processes ("local"), which is the fastest it has.

use std::error::Error;
use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::watch::{Cost, watched};

/// What Inspect is asked to do; its arguments are the kind, the number of samples and of calls.
const PEER: &str = include_str!("peer.py");

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: usize,
    generate: usize,
    tools: usize,
    events: usize,
}

pub(crate) const QUICK: Extent = Extent { rounds: 1, generate: 1000, tools: 40, events: 100_000 };
pub(crate) const FULL: Extent = Extent { rounds: 3, generate: 1000, tools: 200, events: 100_000 };
/// Calls of each sample.
const CALLS: usize = 10;

struct Row {
    what: String,
    ours: Vec<Cost>,
    theirs: Vec<Cost>,
    bar: &'static str,
}

/// What was found.
pub(crate) struct Comparison {
    rows: Vec<Row>,
    absent: Option<String>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<46} {:>9} {:>9} {:>7} {:>9} {:>9}",
            "what", "ours s", "theirs s", "ratio", "ours MiB", "theirs MiB"
        )?;
        for row in &self.rows {
            let seconds = |costs: &[Cost]| median(costs.iter().map(|cost| cost.time.as_secs_f64()).collect());
            let mebibytes = |costs: &[Cost]| median(costs.iter().map(Cost::mebibytes).collect());
            let (ours, theirs) = (seconds(&row.ours), seconds(&row.theirs));
            let (memory, their_memory) = (mebibytes(&row.ours), mebibytes(&row.theirs));
            let ratio = theirs / ours;
            writeln!(
                f,
                "{:<46} {ours:>9.3} {theirs:>9.3} {ratio:>7.1} {memory:>9.1} {their_memory:>9.1}  {}",
                row.what, row.bar
            )?;
        }
        match &self.absent {
            Some(why) => writeln!(f, "not measured: Inspect: {why}"),
            None => Ok(()),
        }
    }
}

/// Our command and Inspect's Python, as the lanes build and install them.
pub(crate) fn programs() -> Result<(PathBuf, Result<PathBuf, String>), Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let ours = own.with_file_name("ringfence");
    if !ours.exists() {
        return Err("build the command first: cargo build --release".into());
    }
    let python = own.parent().and_then(Path::parent).map(|target| target.join("python/bin/python"));
    let python =
        python.filter(|path| path.exists()).ok_or_else(|| "run ./test.sh inspect once: it installs it".to_owned());
    Ok((ours, python))
}

/// A task of ours: every sample says the same.
fn task(
    place: &Path,
    name: &str,
    samples: usize,
    mock: &Value,
    profile: &str,
    solver: &Value,
) -> Result<PathBuf, Box<dyn Error>> {
    let mut lines = String::new();
    for number in 1..=samples {
        writeln!(lines, "{}", json!({"id": number, "input": "Say done.", "target": "done", "mock": mock}))?;
    }
    std::fs::write(place.join(format!("{name}.jsonl")), lines)?;
    let mut task = json!({
        "name": name, "profile": profile, "dataset": format!("{name}.jsonl"), "solver": solver, "scorer": "includes",
    });
    if profile.starts_with("T0") {
        task["approval"] = json!("ci");
        task["tools"] = json!(["bash", "submit"]);
        task["limits"] = json!({"memory": "256MiB", "time": "30m"});
    }
    let path = place.join(format!("{name}.json"));
    std::fs::write(&path, task.to_string())?;
    Ok(path)
}

fn ours(program: &Path, place: &Path, task: &Path) -> Result<Cost, Box<dyn Error>> {
    let mut command = Command::new(program);
    command.args(["eval", "--max-samples", "10", "--log-dir"]).arg(place.join("logs")).arg(task);
    command.env("HOME", place).stdout(Stdio::null()).stderr(Stdio::piped());
    watched(command)
}

fn theirs(python: &Path, place: &Path, kind: &str, samples: usize) -> Result<Cost, Box<dyn Error>> {
    let script = place.join("peer.py");
    std::fs::write(&script, PEER)?;
    let mut command = Command::new(python);
    command.arg(script).args([kind, &samples.to_string(), &CALLS.to_string()]).current_dir(place);
    command.env("HOME", place).stdout(Stdio::null()).stderr(Stdio::piped());
    watched(command)
}

fn call(command: &str) -> Value {
    json!({"tool_calls": [{"name": "bash", "arguments": {"command": command}}]})
}

/// Runs everything, a round at a time.
pub(crate) fn compare(extent: Extent) -> Result<Comparison, Box<dyn Error>> {
    let (program, python) = programs()?;
    let place: TempDir = tempfile::tempdir()?;
    let place = place.path();
    let submit = json!({"tool_calls": [{"name": "submit", "arguments": {"answer": "done"}}]});
    let generate =
        task(place, "generate", extent.generate, &json!([{"text": "done"}]), "T2.H1.N2", &json!("generate"))?;
    let mut calls = vec![call("echo hello"); CALLS];
    calls.push(submit.clone());
    let agent = json!({"kind": "agent", "tools": ["bash"], "max_steps": 100_000});
    let tools = task(place, "tools", extent.tools, &json!(calls), "T0.H1.N2", &agent)?;
    // Calls that are wrong run nothing, and are three events each.
    let mut wrong = vec![json!({"tool_calls": [{"name": "bash", "arguments": {"wrong": "x"}}]}); extent.events / 3];
    wrong.push(submit);
    let events = task(place, "events", 1, &json!(wrong), "T0.H1.N2", &agent)?;
    let first = Path::new("examples/first.yaml");
    let mut rows = vec![
        row(format!("{} samples, one answer each", extent.generate), "floor ≥ 25, target ≥ 50; memory ≤ ½, target ≤ ¼"),
        row(
            format!("{} samples, {CALLS} bash calls each", extent.tools),
            "floor ≥ 8, target ≥ 15; memory ≤ ½, target ≤ ¼",
        ),
        row("examples/first.yaml".into(), "floor ≤ 0.3 s, target ≤ 0.15 s"),
        row(format!("one sample of {} events", extent.events), "floor ≤ 200 MiB"),
    ];
    for round in 0..extent.rounds {
        rows[0].ours.push(ours(&program, place, &generate)?);
        rows[1].ours.push(ours(&program, place, &tools)?);
        if let Ok(python) = &python {
            rows[0].theirs.push(theirs(python, place, "generate", extent.generate)?);
            rows[1].theirs.push(theirs(python, place, "tools", extent.tools)?);
        }
        for _ in 0..5 {
            rows[2].ours.push(ours(&program, place, first)?);
        }
        if round == 0 {
            rows[3].ours.push(ours(&program, place, &events)?);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(Comparison { rows, absent: python.err() })
}

fn row(what: String, bar: &'static str) -> Row {
    Row { what, ours: Vec::new(), theirs: Vec::new(), bar }
}
