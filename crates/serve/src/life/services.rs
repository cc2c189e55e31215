//! Sandboxes of several services: started in order, reaching each other by name, ended together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use egress::{GatewayError, Neighbour, Neighbours};
use profile::Egress;
use sandbox::{Capture, Sandbox, StartError};
use stack::{Blueprint, Gateway, Running, Stack, StackError, Start};

use super::network::{Networks, Served, Watcher};

/// How long the services may take until they are ready: as in an evaluation.
const PATIENCE: Duration = Duration::from_mins(5);

/// The networks of one sandbox's services.
pub(crate) struct Lines {
    networks: Arc<Networks>,
    /// Of the default service; the others' differ in their name, and are not put before a person.
    watcher: Watcher,
}

impl Gateway for Lines {
    type Served = Arc<Served>;

    async fn attach(
        &self,
        service: &str,
        egress: &Egress,
        capture: Capture,
        neighbours: Vec<Neighbour>,
        through: Arc<dyn Neighbours>,
    ) -> Result<Arc<Served>, GatewayError> {
        let asks = self.watcher.asks && service == self.watcher.service;
        let watcher = Watcher { service: service.to_owned(), asks, ..self.watcher.clone() };
        Ok(Arc::new(self.networks.attach(watcher, egress, capture, Some((neighbours, through))).await?))
    }

    async fn replace(&self, served: &Arc<Served>, egress: &Egress) -> Result<(), GatewayError> {
        served.replace(egress).await
    }

    async fn detach(&self, _: &str, served: Arc<Served>) {
        served.detach().await;
    }
}

/// The services of one sandbox while they run.
pub(crate) struct Stacked {
    stack: Stack,
    running: Running<Arc<Served>>,
    lines: Lines,
    /// Where their networks are served, by service.
    pub(crate) served: BTreeMap<String, Arc<Served>>,
}

impl Stacked {
    /// Starts all of them. On an error nothing of them is left. `run` is unique on this machine.
    pub(crate) async fn start(
        networks: Arc<Networks>,
        watcher: Watcher,
        blueprint: Blueprint,
        run: &str,
    ) -> Result<Self, StackError> {
        let own = blueprint.services.iter().find(|service| service.name == blueprint.default);
        let start = Start {
            group: run.to_owned(),
            sample: None,
            default_process: true,
            default_egress: own.map_or(Egress::Nothing, |service| service.egress.clone()),
            patience: PATIENCE,
            // What they say while they run is in their own files and streams; how one fails is in the error.
            told: Arc::new(|_| ()),
        };
        let lines = Lines { networks, watcher };
        let stack = Stack::open(blueprint, run).await?;
        match stack.start(&lines, &start).await {
            Ok(mut running) => {
                let served = running.served().map(|(name, _, one)| (name.to_owned(), Arc::clone(one))).collect();
                Ok(Self { stack, running, lines, served })
            }
            Err(error) => {
                let _ = stack.close().await;
                Err(error)
            }
        }
    }

    /// A service's sandbox.
    pub(crate) fn sandbox(&self, service: &str) -> Option<&Sandbox> {
        self.running.sandbox(service)
    }

    /// Ends all of them, and removes what they shared.
    pub(crate) async fn end(mut self) -> Result<(), StartError> {
        let ended = self.running.end(&self.stack, &self.lines).await;
        ended.and(self.stack.close().await)
    }
}
