//! Where a sample is solved: the sandboxes of its phases.
//!
//! Each phase has its own network rules. What a phase leaves running ends with it: the next begins with its files in a
//! sandbox of its own. A phase that ran nothing leaves nothing running, and is not worth a sandbox of its own. Where files cannot be
//! kept, one sandbox serves all phases, and every process in it is ended between them.

use std::sync::Arc;

use profile::{Egress, Phase, Plan, Provider};
use sandbox::{Capture, Maker, Pool, Sandbox, Snapshot, StartError, System, Variant};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::approval::Gate;
use crate::journal::Journal;
use crate::network::{Network, Served};

/// Why there is no place to work in.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// No sandbox could be had.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No network could be had.
    #[error(transparent)]
    Gateway(#[from] egress::GatewayError),
    /// The plan is of a provider that this version does not have.
    #[error("`sandbox: {0}` is not built yet")]
    NotBuilt(Provider),
    /// A phase could not be ended.
    #[error("the processes of a phase could not be ended")]
    Session(#[from] sandbox::SessionError),
    /// A phase without rules.
    #[error("the plan has no network for the phase {0}")]
    NoPlan(&'static str),
}

/// How sandboxes are had.
pub(crate) struct Places {
    kind: Kind,
    plan: Arc<Plan>,
    run: String,
    slots: Arc<Semaphore>,
}

enum Kind {
    Local,
    Made(Box<Engine>),
}

struct Engine {
    maker: Arc<dyn Maker>,
    pool: Pool,
    network: Option<Network>,
}

/// One sandbox, in one phase.
pub(crate) struct Place {
    pub(crate) sandbox: Sandbox,
    served: Option<Served>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// `kind` is of sandboxes that an engine makes; at most `most` sandboxes exist at the same time.
    pub(crate) async fn open(
        plan: Arc<Plan>,
        run: &str,
        kind: Option<Arc<dyn sandbox::Kind>>,
        most: usize,
        warm: usize,
        (settings, asking): (egress::Settings, bool),
    ) -> Result<Self, PlaceError> {
        let kind = match (plan.provider, kind) {
            (Provider::Local, _) => Kind::Local,
            (_, Some(kind)) => {
                let maker = kind.start(run).await?;
                let network = if kind.is_captured() { Some(Network::start(settings, asking).await?) } else { None };
                let pool = Pool::new(Arc::clone(&maker), warm.min(most));
                Kind::Made(Box::new(Engine { maker, pool, network }))
            }
            (provider, None) => return Err(PlaceError::NotBuilt(provider)),
        };
        Ok(Self { kind, plan, run: run.to_owned(), slots: Arc::new(Semaphore::new(most)) })
    }

    pub(crate) fn refused_connections(&self) -> u64 {
        self.network().map_or(0, Network::refused)
    }

    fn network(&self) -> Option<&Network> {
        match &self.kind {
            Kind::Made(engine) => engine.network.as_ref(),
            Kind::Local => None,
        }
    }

    /// Whether files can outlive processes here.
    pub(crate) fn has_snapshots(&self) -> bool {
        matches!(&self.kind, Kind::Made(engine) if engine.maker.keeps_files())
    }

    /// Whether one sandbox serves all phases, and ends its processes between them.
    pub(crate) fn clears_up(&self) -> bool {
        matches!(&self.kind, Kind::Made(engine) if !engine.maker.keeps_files())
    }

    fn egress(&self, phase: Phase) -> Result<&Egress, PlaceError> {
        let zone = self.plan.network.phases.get(phase.name());
        zone.map(|zone| &zone.egress).ok_or(PlaceError::NoPlan(phase.name()))
    }

    /// A sandbox in this phase, with these files to begin with.
    pub(crate) async fn enter(
        &self,
        phase: Phase,
        sample: &str,
        from: Option<&Snapshot>,
        system: System,
        journal: &Journal,
    ) -> Result<Place, PlaceError> {
        let before = journal.elapsed();
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        journal.waited(journal.elapsed().saturating_sub(before));
        let (sandbox, capture) = match &self.kind {
            Kind::Local => (sandbox::start_local().await?, None),
            Kind::Made(engine) => {
                let Engine { maker, pool, .. } = engine.as_ref();
                let (sandbox, capture) = match from {
                    None => pool.claim().await?,
                    Some(from) => maker.make(Variant { begin_with: Some(from.clone()), system, bounds: None }).await?,
                };
                (sandbox, Some(capture))
            }
        };
        let served = self.serve(phase, sample, capture, journal).await?;
        journal.info(serde_json::json!({"kind": "sandbox", "action": "start", "phase": phase.name()}));
        Ok(Place { sandbox, served, _slot: slot })
    }

    async fn serve(
        &self,
        phase: Phase,
        sample: &str,
        capture: Option<Capture>,
        journal: &Journal,
    ) -> Result<Option<Served>, PlaceError> {
        let (Some(network), Some(capture)) = (self.network(), capture) else { return Ok(None) };
        let name = format!("{}/{sample}/{}", self.run, phase.name());
        Ok(Some(network.attach(&name, self.egress(phase)?, capture, journal).await?))
    }

    /// The next phase in the same sandbox: only where nothing ran in it.
    pub(crate) async fn advance(&self, place: &Place, phase: Phase) -> Result<(), PlaceError> {
        if let (Some(network), Some(served)) = (self.network(), &place.served) {
            network.replace(served, self.egress(phase)?).await?;
        }
        Ok(())
    }

    /// Ends a phase in a sandbox that serves the next one too: no process and no connection of it lives on.
    pub(crate) async fn clear(&self, place: &Place, next: Phase, journal: &Journal) -> Result<(), PlaceError> {
        place.sandbox.session().end_all().await?;
        self.advance(place, next).await?;
        journal.info(serde_json::json!({"kind": "sandbox", "action": "end_all", "next": next.name()}));
        Ok(())
    }

    /// Who is asked from now on about names that no rule lists.
    pub(crate) fn ask(&self, place: &Place, gate: Option<Arc<Gate>>) {
        if let (Some(network), Some(served)) = (self.network(), &place.served) {
            network.ask(served, gate);
        }
    }

    /// Ends a phase: its processes and connections are gone, its files are kept where they can be.
    pub(crate) async fn freeze(&self, place: Place, journal: &Journal) -> Result<Snapshot, PlaceError> {
        let Place { sandbox, served, .. } = place;
        let snapshot = sandbox.freeze().await;
        self.leave_network(served, journal).await;
        Ok(snapshot?)
    }

    /// Ends a place.
    pub(crate) async fn leave(&self, place: Place, journal: &Journal) -> Result<(), PlaceError> {
        let Place { sandbox, served, .. } = place;
        let stopped = sandbox.stop().await;
        self.leave_network(served, journal).await;
        Ok(stopped?)
    }

    async fn leave_network(&self, served: Option<Served>, journal: &Journal) {
        let (Some(network), Some(served)) = (self.network(), served) else { return };
        if let Some(counters) = network.detach(served).await {
            journal.info(serde_json::json!({
                "kind": "network_totals",
                "queries": counters.queries,
                "connections": counters.connections,
                "refused": counters.refused,
                "sent": counters.sent,
                "received": counters.received,
                "records_lost": counters.lost,
            }));
        }
    }

    /// Ends everything that waits.
    pub(crate) async fn close(self) -> Result<(), PlaceError> {
        match self.kind {
            Kind::Local => Ok(()),
            Kind::Made(engine) => Ok(engine.pool.close().await?),
        }
    }
}

impl Place {
    /// Resolves when nothing watches its network any more; it must end then.
    pub(crate) async fn lost(served: &mut Option<&mut Served>) -> String {
        match served {
            Some(served) => served.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Its sandbox, and what to watch while something runs in it.
    pub(crate) fn parts(&mut self) -> (&Sandbox, Option<&mut Served>) {
        (&self.sandbox, self.served.as_mut())
    }
}
