//! One contender's run: a fresh server, the program that asks it, and what both came to.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::record::Figures;
use super::server::AT_ONCE;
use super::{SAMPLES_AT_ONCE, TURNS, script};
use crate::watch::{Cost, Looks, watched_every};

/// How often memory is looked at: seldom enough to take nothing from those who are measured.
const LOOK: Duration = Duration::from_millis(400);

/// How much is to be done, and where files go.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) place: &'a Path,
    pub(super) samples: u64,
}

/// What it came to.
pub(super) struct Outcome {
    pub(super) cost: Cost,
    pub(super) figures: Figures,
    /// Memory when a quarter, half, three quarters and all of the samples were answered, in MiB.
    pub(super) memory: Vec<f64>,
}

impl Outcome {
    /// Requests per second, from the first to the last: nobody's start or end counts.
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    pub(super) fn rate(&self) -> f64 {
        self.figures.requests as f64 / self.figures.seconds
    }
}

/// A server in a process of its own.
struct Server {
    child: Child,
    port: u16,
    said: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["model-server", "--turns", &TURNS.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stdout.take().ok_or("the server says nothing")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse()?, said })
    }

    /// Where it is, for whoever speaks `OpenAI`'s language.
    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    fn stop(mut self) -> Result<Figures, Box<dyn Error>> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        self.child.wait()?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// Runs a program against a fresh server.
fn run(work: Work<'_>, program: impl FnOnce(&Server) -> Command) -> Result<Outcome, Box<dyn Error>> {
    let server = Server::start()?;
    let mut command = program(&server);
    command.current_dir(work.place).env("HOME", work.place).stdout(Stdio::null()).stderr(Stdio::piped());
    let watched = watched_every(LOOK, command);
    // A server whose client has failed ends all the same, and what the client says comes first.
    let figures = server.stop();
    let (cost, looks) = watched?;
    let figures = figures?;
    let (expected, turns) = (work.samples, u64::try_from(TURNS)?);
    if figures.conversations as u64 != expected || figures.requests - figures.repeated != expected * turns {
        return Err(format!("not all of {expected} conversations were had: {figures:?}").into());
    }
    let memory = figures.quarters.iter().map(|at| at_time(&looks, *at)).collect();
    Ok(Outcome { cost, figures, memory })
}

/// What the last look before this moment found, in MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
fn at_time(looks: &Looks, time: f64) -> f64 {
    let before = looks.iter().take_while(|(at, _)| *at <= time).last();
    before.or(looks.first()).map_or(f64::NAN, |(_, kibibytes)| *kibibytes as f64 / 1024.0)
}

/// Somebody who only asks.
pub(super) fn ask_only(work: Work<'_>) -> Result<Outcome, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    run(work, |server| {
        let mut command = Command::new(own);
        command.args(["model-load", "--port", &server.port.to_string(), "--turns", &TURNS.to_string()]);
        command.args(["--connections", &AT_ONCE.to_string(), "--conversations", &work.samples.to_string()]);
        command
    })
}

/// Our command.
pub(super) fn ours(program: &Path, work: Work<'_>) -> Result<Outcome, Box<dyn Error>> {
    let mut lines = String::new();
    for number in 1..=work.samples {
        writeln!(lines, "{}", json!({"id": number, "input": script::question(number), "target": "done"}))?;
    }
    std::fs::write(work.place.join("models.jsonl"), lines)?;
    let task = json!({
        "name": "models", "profile": "T1.H1.N2", "dataset": "models.jsonl", "tools": ["think", "submit"],
        "solver": {"kind": "agent", "tools": ["think"], "max_steps": 2 * TURNS}, "scorer": "includes",
        "generate": {"max_connections": AT_ONCE},
    });
    let path = work.place.join("models.json");
    std::fs::write(&path, task.to_string())?;
    run(work, |server| {
        let mut command = Command::new(program);
        command.args(["eval", "--model", "openai/bench", "--max-samples", &SAMPLES_AT_ONCE.to_string()]);
        command.arg("--log-dir").arg(work.place.join("logs")).arg(path);
        command.env("OPENAI_BASE_URL", server.address()).env("OPENAI_API_KEY", "sk-bench-000000000000");
        command
    })
}

/// Inspect.
pub(super) fn theirs(python: &Path, work: Work<'_>) -> Result<Outcome, Box<dyn Error>> {
    let script = work.place.join("models.py");
    std::fs::write(&script, include_str!("peer.py"))?;
    run(work, |server| {
        let mut command = Command::new(python);
        command.arg(script).args([work.samples.to_string(), SAMPLES_AT_ONCE.to_string(), AT_ONCE.to_string()]);
        command.env("OPENAI_BASE_URL", server.address()).env("OPENAI_API_KEY", "sk-bench-000000000000");
        command
    })
}
