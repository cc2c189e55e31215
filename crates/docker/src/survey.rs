//! What a daemon can do, asked once, for whoever plans.

use strangers::Shown;

use crate::endpoint::{Endpoint, Surroundings};
use crate::engine::{Engine, Patience};
use crate::error::DockerError;

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its version.
    pub version: String,
    /// The version of its API.
    pub api: String,
    /// Whether root inside is somebody else outside: by a range of ids, or because the daemon is no root itself.
    pub remaps: bool,
    /// Which of memory, pids and cpu it cannot bound.
    pub unbounded: Vec<&'static str>,
    /// Runtimes that it knows.
    pub runtimes: Vec<String>,
}

impl Engine {
    /// Refuses a runtime that the daemon does not know. One that is named after its containerd shim is known by containerd.
    pub(crate) async fn has_runtime(&self, runtime: &str) -> Result<(), DockerError> {
        let info = self.ask("info", |client| async move { client.info().await }).await?;
        let known = info.runtimes.unwrap_or_default();
        if known.contains_key(runtime) || runtime.starts_with("io.containerd.") {
            return Ok(());
        }
        let mut known: Vec<String> = known.into_keys().collect();
        known.sort();
        let (runtime, known) = (runtime.to_owned(), Shown::new(&known.join(", ")));
        Err(DockerError::NoRuntime { runtime, known, endpoint: self.endpoint().to_string() })
    }
}

/// Asks the daemon that the surroundings name. For a thread that may wait, outside of any runtime.
pub fn survey(surroundings: &Surroundings, patience: Patience) -> Result<Survey, DockerError> {
    let endpoint = Endpoint::find(surroundings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DockerError::Place)?;
    runtime.block_on(async {
        let engine = Engine::connect(endpoint.clone(), patience).await?;
        let version = engine.version().clone();
        let info = engine.ask("info", |client| async move { client.info().await }).await?;
        let odd = |what: &str| DockerError::Odd { call: "version", endpoint: endpoint.to_string(), what: what.into() };
        let options = info.security_options.unwrap_or_default();
        let bounds = [("memory", info.memory_limit), ("pids", info.pids_limit), ("cpu", info.cpu_cfs_quota)];
        let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
        runtimes.sort();
        Ok(Survey {
            version: version.version.ok_or_else(|| odd("no version"))?,
            api: version.api_version.ok_or_else(|| odd("no version of its API"))?,
            remaps: options.iter().any(|option| option.contains("name=userns") || option.contains("name=rootless")),
            // Absent means that it does not say: then it is believed to.
            unbounded: bounds.into_iter().filter(|(_, held)| *held == Some(false)).map(|(name, _)| name).collect(),
            runtimes,
            endpoint,
        })
    })
}
