//! Where a sample is solved: the sandboxes of its phases.
//!
//! Each phase has its own network rules. What a phase leaves running ends with it: the next begins with its files in a
//! sandbox of its own. A phase that ran nothing leaves nothing running, and is not worth a sandbox of its own. Where files cannot be
//! kept, one sandbox serves all phases, and every process in it is ended between them.
//!
//! A sample can have several sandboxes, its services: the agent works in the default one, and the others go on from phase to
//! phase with at most the phase's network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use profile::{Egress, Phase, Plan, Provider};
use sandbox::{
    Capture, CarryError, Maker, Pool, Sandbox, SessionError, Snapshot, StartError, System, SystemChanges, Variant,
};
use serde_json::json;
use stack::{Blueprint, Running, Stack, StackError, Start};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::approval::Gate;
use crate::gone::Gone;
use crate::journal::Journal;
use crate::network::{Network, Served, Services, totals};
use crate::solve::Stop;

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
    Session(#[from] SessionError),
    /// A service of the sample is not there.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// What the agent left cannot be carried to the sandbox of the score phase.
    #[error(transparent)]
    Carry(#[from] CarryError),
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
    /// How many sandboxes could not be ended.
    leftovers: AtomicU64,
}

enum Kind {
    Local,
    Made(Box<Engine>),
    Stacked(Box<Stacked>),
}

/// Samples that are several sandboxes.
struct Stacked {
    stack: Stack,
    network: Network,
    next: AtomicU64,
}

/// How sandboxes are made: of one kind, or several of several kinds.
pub(crate) enum Making {
    One(Arc<dyn sandbox::Kind>),
    Several(Blueprint),
}

/// How long the services of a sample may take until they are ready.
const PATIENCE: Duration = Duration::from_mins(5);
/// The most time for copying the agent's files to the sandbox of the score phase. What takes longer is the agent's doing: it counts
/// as wrong, and does not use up the time for judging, which would be an error.
pub(crate) const STAGE_TIMEOUT: Duration = Duration::from_mins(2);

struct Engine {
    maker: Arc<dyn Maker>,
    pool: Pool,
    network: Option<Network>,
    /// Paths inside that all sandboxes share.
    shared: Vec<String>,
}

/// One sandbox, in one phase.
pub(crate) struct Place {
    pub(crate) sandbox: Sandbox,
    served: Option<Served>,
    /// The services that it is one of; they hold it, and what is above is a second hold on the default one.
    services: Option<Running<Served>>,
    /// What setup changed of programs and settings, for the sandbox of the score phase, where files cannot be kept.
    prepared: Option<SystemChanges>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl PlaceError {
    /// Whether it is an end of the agent's phase that an agent can make impossible: its guest does not answer, a process does not end,
    /// its files cannot be kept or copied, or no disk space is left for it.
    pub(crate) fn is_of_agent(&self) -> bool {
        match self {
            Self::Session(error) => matches!(error, SessionError::Unresponsive(_) | SessionError::Failed { .. }),
            Self::Carry(error) => {
                matches!(error, CarryError::Contents(_) | CarryError::Session(SessionError::Unresponsive(_)))
            }
            Self::Start(error) | Self::Stack(StackError::Make { source: error, .. }) => {
                matches!(error, StartError::NotEnded(_) | StartError::EndedLate | StartError::DiskFull(_))
            }
            _ => false,
        }
    }

    /// Whether what lies in a mount keeps a sandbox from being made.
    fn is_of_mount_contents(&self) -> bool {
        let (Self::Start(start) | Self::Stack(StackError::Make { source: start, .. })) = self else { return false };
        matches!(start, StartError::MountContents { .. })
    }
}

impl Places {
    /// `making` is of sandboxes that an engine makes; samples have at most `most` at the same time, and `warm` more wait.
    pub(crate) async fn open(
        plan: Arc<Plan>,
        run: &str,
        making: Option<Making>,
        most: usize,
        (warm, expected): (usize, usize),
        (settings, asking): (egress::Settings, bool),
    ) -> Result<Self, PlaceError> {
        let kind = match (plan.provider, making) {
            (Provider::Local, _) => Kind::Local,
            (_, Some(Making::Several(blueprint))) => {
                let stack = Stack::open(blueprint, run).await?;
                let network = Network::start(settings, asking).await?;
                Kind::Stacked(Box::new(Stacked { stack, network, next: AtomicU64::new(1) }))
            }
            (_, Some(Making::One(kind))) => {
                let maker = kind.start(run).await?;
                let network = if kind.is_captured() { Some(Network::start(settings, asking).await?) } else { None };
                // What lies in a writable mount is looked at when a sandbox is made: none is made before its sample's turn.
                let warm = if has_writable_mounts(&plan) { 0 } else { warm.min(most) };
                let pool = Pool::expecting(Arc::clone(&maker), warm, expected);
                Kind::Made(Box::new(Engine { maker, pool, network, shared: kind.shared() }))
            }
            (provider, None) => return Err(PlaceError::NotBuilt(provider)),
        };
        Ok(Self {
            kind,
            plan,
            run: run.to_owned(),
            slots: Arc::new(Semaphore::new(most)),
            leftovers: AtomicU64::new(0),
        })
    }

    /// Why a sample ends that has no place. What an agent may have left in a writable mount is no error, which would leave the
    /// denominator: the sample is wrong.
    pub(crate) fn stop(&self, error: &PlaceError) -> Stop {
        let why = chain(error);
        if error.is_of_mount_contents() && has_writable_mounts(&self.plan) {
            Stop::Blocked(why)
        } else {
            Stop::Failed(why)
        }
    }

    pub(crate) fn refused_connections(&self) -> u64 {
        self.network().map_or(0, Network::refused)
    }

    fn network(&self) -> Option<&Network> {
        match &self.kind {
            Kind::Made(engine) => engine.network.as_ref(),
            Kind::Stacked(stacked) => Some(&stacked.network),
            Kind::Local => None,
        }
    }

    /// Whether files can outlive processes here.
    pub(crate) fn has_snapshots(&self) -> bool {
        matches!(&self.kind, Kind::Made(engine) if engine.maker.keeps_files())
    }

    /// Whether one sandbox serves all phases, and ends its processes between them.
    pub(crate) fn clears_up(&self) -> bool {
        match &self.kind {
            Kind::Made(engine) => !engine.maker.keeps_files(),
            Kind::Stacked(_) => true,
            Kind::Local => false,
        }
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
        let slot = journal.queue().wait(Arc::clone(&self.slots).acquire_owned()).await.ok();
        journal.waited(journal.elapsed().saturating_sub(before));
        if let Kind::Stacked(stacked) = &self.kind {
            return self.enter_services(stacked, phase, sample, journal, slot).await;
        }
        let (sandbox, capture) = match &self.kind {
            Kind::Stacked(_) | Kind::Local => (sandbox::start_local().await?, None),
            Kind::Made(engine) => {
                let Engine { maker, pool, .. } = engine.as_ref();
                let (sandbox, capture) = match from {
                    None => pool.claim().await?,
                    Some(from) => {
                        let begin_with = Some(from.clone());
                        maker.make(Variant { begin_with, system, ..Variant::default() }).await?
                    }
                };
                (sandbox, Some(capture))
            }
        };
        let served = self.serve(phase, sample, capture, journal).await?;
        let mut begun = json!({"kind": "sandbox", "action": "start", "phase": phase.name()});
        if let Some(name) = sandbox.name() {
            begun["name"] = name.into();
        }
        journal.info(begun);
        Ok(Place { sandbox, served, services: None, prepared: None, _slot: slot })
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

    /// All services of a sample, in this phase.
    async fn enter_services(
        &self,
        stacked: &Stacked,
        phase: Phase,
        sample: &str,
        journal: &Journal,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<Place, PlaceError> {
        let writer = journal.clone();
        let start = Start {
            group: format!("{}-{}", self.run, stacked.next.fetch_add(1, Ordering::Relaxed)),
            sample: Some(sample.to_owned()),
            // A scorer judges what was left: nothing of the sample's begins anew.
            default_process: phase != Phase::Score,
            default_egress: self.egress(phase)?.clone(),
            patience: PATIENCE,
            told: Arc::new(move |event| writer.info(told(event))),
        };
        let running = stacked.stack.start(&self.lines(stacked, sample, journal), &start).await?;
        let missing = || StackError::Unknown { service: running.default_name().to_owned() };
        let sandbox = running.default().ok_or_else(missing)?.hold();
        journal.info(json!({"kind": "sandbox", "action": "start", "phase": phase.name()}));
        Ok(Place { sandbox, served: None, services: Some(running), prepared: None, _slot: slot })
    }

    fn lines<'a>(&self, stacked: &'a Stacked, sample: &str, journal: &'a Journal) -> Services<'a> {
        Services { network: &stacked.network, sample: format!("{}/{sample}", self.run), journal }
    }

    /// The next phase in the same sandbox: only where nothing ran in it, or what ran had no more than it will have.
    pub(crate) async fn advance(&self, place: &Place, phase: Phase, journal: &Journal) -> Result<(), PlaceError> {
        let egress = self.egress(phase)?;
        if let (Kind::Stacked(stacked), Some(running)) = (&self.kind, &place.services) {
            running.narrow(&self.lines(stacked, "", journal), egress, egress).await?;
        } else if let (Some(network), Some(served)) = (self.network(), &place.served) {
            network.replace(served, egress).await?;
        }
        Ok(())
    }

    /// Whether a place that nothing was done in can go on to the agent's phase as it is: a service's own process may run in
    /// it, and must not have been able to reach more than it will.
    pub(crate) fn is_untouched(&self, place: &Place) -> Result<bool, PlaceError> {
        let (setup, agent) = (self.egress(Phase::Setup)?, self.egress(Phase::Agent)?);
        Ok(place.services.is_none() || setup.is_within(agent))
    }

    /// Ends a phase in a sandbox that serves the next one too: no process and no connection of it lives on. Other services
    /// of the sample go on, with at most the next phase's network.
    pub(crate) async fn clear(&self, place: &mut Place, next: Phase, journal: &Journal) -> Result<(), PlaceError> {
        let cleared = match &mut place.services {
            Some(running) => running.clear().await,
            None => place.sandbox.session().end_all().await,
        };
        if let Err(error) = cleared {
            return Err(self.blame(error.into(), place).await);
        }
        self.advance(place, next, journal).await?;
        if let Some(running) = place.services.as_mut().filter(|_| next == Phase::Agent) {
            running.resume();
        }
        journal.info(json!({"kind": "sandbox", "action": "end_all", "next": next.name()}));
        Ok(())
    }

    /// Paths inside that all sandboxes of a sample share.
    fn shared(&self) -> Vec<String> {
        match &self.kind {
            Kind::Local => Vec::new(),
            Kind::Made(engine) => engine.shared.clone(),
            Kind::Stacked(stacked) => stacked.stack.default_shared(),
        }
    }

    /// The most bytes of files that a sandbox of the score phase gets.
    fn most_files(&self) -> u64 {
        self.plan.limits.disk.amount.0
    }

    /// Keeps programs and settings as setup left them, for the sandbox of the score phase. Nothing of setup's runs any more.
    pub(crate) async fn keep_system(&self, place: &mut Place) -> Result<(), PlaceError> {
        place.prepared = Some(place.sandbox.keep_system(&self.shared(), self.most_files()).await?);
        Ok(())
    }

    /// Ends the agent's phase, or a score script, where files cannot be kept: a new sandbox gets the data that it left, and programs
    /// and settings from before the agent; the old sandbox is ended. On an error both are.
    pub(crate) async fn stage(
        &self,
        mut place: Place,
        sample: &str,
        declared: &[String],
        journal: &Journal,
    ) -> Result<Place, PlaceError> {
        let staged = self.move_to_stage(&mut place, sample, declared, journal).await;
        if let Err(error) = staged {
            let error = self.blame(error, &place).await;
            self.leave(place, journal).await;
            return Err(error);
        }
        journal.info(json!({"kind": "sandbox", "action": "stage", "phase": Phase::Score.name()}));
        Ok(place)
    }

    async fn move_to_stage(
        &self,
        place: &mut Place,
        sample: &str,
        declared: &[String],
        journal: &Journal,
    ) -> Result<(), PlaceError> {
        self.clear(place, Phase::Score, journal).await?;
        let (shared, most) = (self.shared(), self.most_files());
        let (fresh, capture) = match (&self.kind, &place.services) {
            (Kind::Made(engine), _) => engine.pool.claim().await?,
            (Kind::Stacked(stacked), Some(running)) => stacked.stack.another_default(running, sample).await?,
            _ => return Err(PlaceError::NotBuilt(self.plan.provider)),
        };
        if let Some(changes) = &mut place.prepared {
            fresh.take_system(changes).await?;
        }
        let taken = fresh.take_data(&place.sandbox, declared, &shared, most);
        let too_slow =
            |_| CarryError::Contents(format!("copying them takes longer than {} s", STAGE_TIMEOUT.as_secs()));
        tokio::time::timeout(STAGE_TIMEOUT, taken).await.map_err(too_slow)??;
        if let (Kind::Stacked(stacked), Some(running)) = (&self.kind, &mut place.services) {
            place.sandbox = fresh.hold();
            let egress = self.egress(Phase::Score)?;
            let lines = self.lines(stacked, sample, journal);
            let leftover = running.replace_default(&stacked.stack, &lines, (fresh, capture), egress).await?;
            self.note_leftover(leftover.as_ref(), journal);
            return Ok(());
        }
        let old = std::mem::replace(&mut place.sandbox, fresh);
        let stopped = old.stop().await;
        // Before the next one is served: records are known by the phase's name.
        self.leave_network(place.served.take(), journal).await;
        self.note_leftover(stopped.err().as_ref(), journal);
        place.served = self.serve(Phase::Score, sample, Some(capture), journal).await?;
        Ok(())
    }

    /// The agent's fault, where its sandbox is gone because its memory was full.
    async fn blame(&self, error: PlaceError, place: &Place) -> PlaceError {
        let is_gone = matches!(error, PlaceError::Session(_) | PlaceError::Carry(CarryError::Session(_)));
        if is_gone && !error.is_of_agent() && place.sandbox.ran_out_of_memory().await {
            return CarryError::Contents(Gone::OutOfMemory.to_string()).into();
        }
        error
    }

    /// Who is asked from now on about names that no rule lists.
    pub(crate) fn ask(&self, place: &Place, gate: Option<Arc<Gate>>) {
        let served = place.services.as_ref().map_or(place.served.as_ref(), Running::default_served);
        if let (Some(network), Some(served)) = (self.network(), served) {
            network.ask(served, gate);
        }
    }

    /// Ends a phase: its processes and connections are gone, its files are kept where they can be.
    pub(crate) async fn freeze(&self, place: Place, journal: &Journal) -> Result<Snapshot, PlaceError> {
        let Place { sandbox, served, .. } = place;
        let snapshot = sandbox.freeze().await;
        self.leave_network(served, journal).await;
        self.note_leftover(snapshot.as_ref().err().filter(|error| matches!(error, StartError::NotEnded(_))), journal);
        Ok(snapshot?)
    }

    /// Ends a place. What is left of a sandbox that does not end is noted and decides nothing: an agent can cause it, and an error would
    /// take its sample out of the denominator.
    pub(crate) async fn leave(&self, place: Place, journal: &Journal) {
        let Place { sandbox, served, services, .. } = place;
        let stopped = if let (Kind::Stacked(stacked), Some(mut running)) = (&self.kind, services) {
            running.end(&stacked.stack, &self.lines(stacked, "", journal)).await
        } else {
            let stopped = sandbox.stop().await;
            self.leave_network(served, journal).await;
            stopped
        };
        self.note_leftover(stopped.err().as_ref(), journal);
    }

    /// Sandboxes that could not be ended.
    pub(crate) fn leftovers(&self) -> u64 {
        self.leftovers.load(Ordering::Relaxed)
    }

    fn note_leftover(&self, error: Option<&StartError>, journal: &Journal) {
        let Some(error) = error else { return };
        self.leftovers.fetch_add(1, Ordering::Relaxed);
        journal.info(json!({"kind": "sandbox", "action": "leftover", "error": chain(error)}));
    }

    async fn leave_network(&self, served: Option<Served>, journal: &Journal) {
        let (Some(network), Some(served)) = (self.network(), served) else { return };
        if let Some(counters) = network.detach(served).await {
            journal.info(totals(None, counters));
        }
    }

    /// Ends everything that waits.
    pub(crate) async fn close(self) -> Result<(), PlaceError> {
        match self.kind {
            Kind::Local => Ok(()),
            Kind::Made(engine) => Ok(engine.pool.close().await?),
            Kind::Stacked(stacked) => Ok(stacked.stack.close().await?),
        }
    }
}

/// Whether an agent can change what lies in a mount, in any of a sample's sandboxes.
fn has_writable_mounts(plan: &Plan) -> bool {
    let is_writable = |one: &profile::Affordance| {
        one.kind == profile::Kind::Mount && one.sensitivity == profile::Sensitivity::Sensitive
    };
    // One that cannot be read again is taken for writable.
    let is_written = |mount: &String| {
        mount.parse::<profile::Mount>().ok().is_none_or(|mount| mount.mode == profile::MountMode::ReadWrite)
    };
    plan.affordances.iter().any(is_writable) || plan.services.values().flat_map(|one| &one.mounts).any(is_written)
}

/// An error with everything behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// What happened with a service, for the log.
fn told(event: &stack::Event) -> serde_json::Value {
    let mut told = json!(event);
    told["kind"] = json!("service");
    told
}

/// The networks of a place, which must be served while anything runs in it, each with its sandbox.
pub(crate) struct Watched<'a>(Vec<(&'a Sandbox, &'a mut Served)>);

impl Watched<'_> {
    /// Of no place at all.
    pub(crate) fn nothing() -> Self {
        Self(Vec::new())
    }

    /// Resolves when nothing watches one of them any more; the place must end then.
    pub(crate) async fn lost(&mut self) -> Gone {
        let mut all: Vec<_> = self.0.iter_mut().map(|(sandbox, served)| (*sandbox, Box::pin(served.lost()))).collect();
        let (sandbox, why) = std::future::poll_fn(|context| {
            let lost = all.iter_mut().find_map(|(sandbox, one)| match one.as_mut().poll(context) {
                Poll::Ready(why) => Some((*sandbox, why)),
                Poll::Pending => None,
            });
            lost.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        Gone::network(sandbox, &why).await
    }
}

impl Place {
    /// Its sandbox, and what to watch while something runs in it.
    pub(crate) fn parts(&mut self) -> (&Sandbox, Watched<'_>) {
        let sandbox = &self.sandbox;
        let of_services = self.services.iter_mut().flat_map(Running::served);
        let of_services = of_services.map(|(_, sandbox, served)| (sandbox, served));
        (sandbox, Watched(self.served.iter_mut().map(|served| (sandbox, served)).chain(of_services).collect()))
    }

    /// The sandbox of a service; without a name the agent's.
    pub(crate) fn sandbox_of(&self, service: Option<&str>) -> Option<&Sandbox> {
        match (service, &self.services) {
            (None, _) | (Some("default"), None) => Some(&self.sandbox),
            (Some(name), services) => services.as_ref()?.sandbox(name),
        }
    }
}
