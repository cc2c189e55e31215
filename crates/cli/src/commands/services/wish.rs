//! A service as it is asked for, wherever that was written.

use std::collections::BTreeMap;
use std::time::Duration;

use docker::{Build, Pull, Volume};
use profile::{Place, Zone};
use sandbox::Mount;
use secrecy::SecretString;
use stack::{Need, Restart};

/// One service, before its image is open.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) place: Option<Place>,
    pub(super) image: Source,
    /// When its image is fetched; absent means as the command line says.
    pub(super) pull: Option<Pull>,
    /// What its image must be for.
    pub(super) platform: Option<compose::Platform>,
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) command: Option<Vec<String>>,
    pub(super) environment: BTreeMap<String, SecretString>,
    pub(super) directory: Option<String>,
    pub(super) user: Option<String>,
    pub(super) terminal: bool,
    pub(super) input_open: bool,
    /// Ports that others reach, beside those that its image exposes.
    pub(super) ports: Vec<u16>,
    /// Whom it reaches: the service, and other names of it.
    pub(super) neighbours: Vec<(String, Vec<String>)>,
    pub(super) network: Outside,
    pub(super) health: Look,
    pub(super) needs: Vec<Need>,
    pub(super) restart: Restart,
    pub(super) shape: Shape,
}

/// Where an image comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Named(String),
    Built(Box<Build>),
}

impl Source {
    /// As a plan has it before it is open.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Built(build) => format!("build:{}", build.directory.display()),
        }
    }
}

/// What a service reaches outside.
#[derive(Debug, Clone)]
pub(super) enum Outside {
    /// What the agent may.
    AsAgent,
    /// Nothing.
    Nothing,
    /// What the document says.
    Stated(Option<Zone>),
}

/// How its health is found out.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) test: Test,
    pub(super) interval: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) start_period: Option<Duration>,
}

/// What is run to find out about health.
#[derive(Debug, Clone, Default)]
pub(super) enum Test {
    #[default]
    OfImage,
    Nothing,
    Command(Vec<String>),
}

/// What its container is like.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// What its file says that it may use up.
    pub(super) limits: compose::Limits,
    /// What holds beside the document's.
    pub(super) in_force: Option<compose::LimitsInForce>,
    pub(super) memory_kept: Option<u64>,
    pub(super) shared_memory: Option<u64>,
    pub(super) read_only: bool,
    pub(super) no_new_privileges: bool,
    pub(super) hostname: Option<String>,
    pub(super) hosts: Vec<String>,
    pub(super) tmpfs: BTreeMap<String, String>,
    pub(super) volumes: Vec<Volume>,
    pub(super) mounts: Vec<Mount>,
    pub(super) ulimits: BTreeMap<String, (i64, i64)>,
}
