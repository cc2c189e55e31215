//! A service as data: what it is, what runs in it, whom it knows and whom it waits for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use egress::Neighbour;
use profile::Egress;
use sandbox::{Exec, Kind, User, WindowSize};

/// One service of a sample.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name: unique in its sample.
    pub name: String,
    /// The sandbox that it lives in.
    pub kind: Arc<dyn Kind>,
    /// What is started in it; `None`: nothing.
    pub process: Option<Process>,
    /// What it may reach outside, at most what the sample's agent may.
    pub egress: Egress,
    /// Whether it is on a network that leads outside; where it is not, no phase gives it one.
    pub leads_outside: bool,
    /// Whom it reaches by name, and on which ports.
    pub neighbours: Vec<Neighbour>,
    /// How its health is found out; `None`: nobody looks.
    pub health: Option<Health>,
    /// Whom it waits for.
    pub needs: Vec<Need>,
    /// What happens when its process ends.
    pub restart: Restart,
}

/// The services of a sample.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// All of them; names are different.
    pub services: Vec<Service>,
    /// The one that the agent works in.
    pub default: String,
}

/// What a service runs. How it is shown says nothing of its environment, which can hold secrets.
#[derive(Clone)]
pub struct Process {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Where it starts; absent means its user's home.
    pub directory: Option<String>,
    /// Who it runs as; absent means root inside.
    pub user: Option<String>,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Whether its input stays open; else it is at its end at once.
    pub input_open: bool,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("argv", &self.argv).finish_non_exhaustive()
    }
}

impl Process {
    /// As a command of a guest's.
    pub(crate) fn exec(&self) -> Exec {
        Exec {
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: self.directory.clone(),
            user: self.user.clone().map_or(User::Default, User::Named),
            pty: self.terminal.then_some(WindowSize { rows: 24, columns: 80 }),
            timeout_ms: None,
            max_output: None,
        }
    }
}

/// How health is found out: a command that succeeds.
#[derive(Debug, Clone)]
pub struct Health {
    /// The command; it has the surroundings of the service's own process.
    pub test: Process,
    /// How long between two tests of a healthy service, and between two failures that count.
    pub interval: Duration,
    /// How long a test may take.
    pub timeout: Duration,
    /// How many failures in a row are a failure.
    pub retries: u32,
    /// How long failures do not count.
    pub start_period: Duration,
}

/// Another service that must have come to something first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Which.
    pub service: String,
    /// What it must have come to.
    pub condition: Condition,
    /// Whether its failure is ours too.
    pub required: bool,
}

/// What a service must have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It has started.
    Started,
    /// It is healthy.
    Healthy,
    /// Its process has ended without a failure.
    Completed,
}

/// What happens when a service's process ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Restart {
    /// Nothing.
    #[default]
    Never,
    /// It starts again.
    Always,
    /// It starts again after a failure, at most so often if that is said.
    OnFailure(Option<u32>),
}
