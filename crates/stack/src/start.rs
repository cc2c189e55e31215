//! From services as data to services that run: each when what it waits for is there, all of them or none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use egress::Switchboard;
use futures_util::future::join_all;
use profile::Egress;
use sandbox::{Capture, Maker, Sandbox, StartError, Variant};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::error::StackError;
use crate::gateway::Gateway;
use crate::health;
use crate::running::{One, Running};
use crate::service::{Blueprint, Condition, Need, Restart, Service};
use crate::tend::{Life, Seen, State, Vitals, tend};
use crate::told::{Told, What};

/// Sandboxes that are made at the same time, for all samples together.
const AT_ONCE: usize = 8;
/// How long a process is looked at before a service without a health check counts as started.
const SETTLE: Duration = Duration::from_millis(200);

/// The services of samples, ready to be started for one sample after the other.
pub struct Stack {
    blueprint: Blueprint,
    makers: Vec<Arc<dyn Maker>>,
    room: Semaphore,
    /// Groups that nobody has ended.
    groups: Mutex<BTreeSet<String>>,
}

/// How a sample's services are started.
#[derive(Clone)]
pub struct Start {
    /// What they share is known by this; unique on this machine.
    pub group: String,
    /// The sample, as people know it.
    pub sample: Option<String>,
    /// Whether the default service's own process is started; else its sandbox is all there is of it.
    pub default_process: bool,
    /// What the default service may reach, unless it may reach nothing at all.
    pub default_egress: Egress,
    /// How long it may take until all are ready.
    pub patience: Duration,
    /// Who is told what happens.
    pub told: Told,
}

/// What all services of one sample share while they start.
struct Starting<'a, G> {
    stack: &'a Stack,
    gateway: &'a G,
    start: &'a Start,
    board: Arc<Switchboard>,
    seen: Vec<Arc<Seen>>,
    failed: CancellationToken,
    deadline: Instant,
}

impl Stack {
    /// Starts whatever makes the sandboxes. `run` is unique on this machine.
    pub async fn open(blueprint: Blueprint, run: &str) -> Result<Self, StackError> {
        let known = |name: &str| blueprint.services.iter().any(|service| service.name == name);
        let needed = blueprint.services.iter().flat_map(|service| service.needs.iter().filter(|need| need.required));
        for name in needed.map(|need| &need.service).chain([&blueprint.default]) {
            if !known(name) {
                return Err(StackError::Unknown { service: name.clone() });
            }
        }
        let mut makers = Vec::new();
        for (number, service) in blueprint.services.iter().enumerate() {
            let made = service.kind.start(&format!("{run}-s{number}")).await;
            makers.push(made.map_err(|source| StackError::Make { service: service.name.clone(), source })?);
        }
        Ok(Self { blueprint, makers, room: Semaphore::new(AT_ONCE), groups: Mutex::default() })
    }

    /// The services as they were given.
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Starts all services for one sample. On an error nothing of them is left.
    pub async fn start<G: Gateway>(&self, gateway: &G, start: &Start) -> Result<Running<G::Served>, StackError> {
        let services = &self.blueprint.services;
        self.groups().insert(start.group.clone());
        let seen: Vec<_> = services.iter().map(|one| Seen::new(&one.name, Arc::clone(&start.told))).collect();
        let starting = Starting {
            stack: self,
            gateway,
            start,
            board: Switchboard::new(),
            seen,
            failed: CancellationToken::new(),
            deadline: Instant::now() + start.patience,
        };
        let began = join_all((0..services.len()).map(|number| starting.one(number))).await;
        let (mut ones, mut errors) = (Vec::new(), Vec::new());
        for one in began {
            match one {
                Ok(one) => ones.push(one),
                Err(error) => errors.push(error),
            }
        }
        let mut running =
            Running::new(ones, self.blueprint.default.clone(), start.group.clone(), Arc::clone(&starting.board));
        // Whoever was given up because of another one is not the reason.
        errors.sort_by_key(|error| matches!(error, StackError::Abandoned { .. }));
        let mut error = errors.into_iter().next();
        if error.is_none() {
            error = starting.all_ready().await.err();
        }
        match error {
            None => Ok(running),
            Some(error) => {
                // What could not be ended is removed by whoever cleans up; the first reason is the one to tell.
                let _ = running.end(self, gateway).await;
                Err(error)
            }
        }
    }

    fn groups(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what samples left that were given up halfway. No sandbox of theirs is held any more.
    pub async fn close(self) -> Result<(), StartError> {
        let mut ended = Ok(());
        let left = self.groups().clone();
        for group in left {
            ended = ended.and(self.end_group(&group).await);
        }
        ended
    }

    /// Paths inside that the default service's sandboxes of one sample share.
    pub fn default_shared(&self) -> Vec<String> {
        self.default_service().map_or_else(Vec::new, |(service, _)| service.kind.shared())
    }

    fn default_service(&self) -> Option<(&Service, &Arc<dyn Maker>)> {
        let mut all = self.blueprint.services.iter().zip(&self.makers);
        all.find(|(service, _)| service.name == self.blueprint.default)
    }

    /// One more sandbox of the default service, in the group of a sample that runs.
    pub async fn another_default<S: Send>(
        &self,
        running: &Running<S>,
        sample: &str,
    ) -> Result<(Sandbox, Capture), StackError> {
        let service = self.blueprint.default.clone();
        let Some((_, maker)) = self.default_service() else { return Err(StackError::Unknown { service }) };
        let Ok(_room) = self.room.acquire().await else { return Err(StackError::Abandoned { service }) };
        let (group, sample) = (Some(running.group().to_owned()), Some(sample.to_owned()));
        let made = maker.make(Variant { group, sample, ..Variant::default() }).await;
        made.map_err(|source| StackError::Make { service, source })
    }

    /// Removes what the sandboxes of a sample shared.
    pub(crate) async fn end_group(&self, group: &str) -> Result<(), StartError> {
        self.groups().remove(group);
        let mut ended = Ok(());
        for maker in &self.makers {
            ended = ended.and(maker.end_group(group).await);
        }
        ended
    }
}

impl<G: Gateway> Starting<'_, G> {
    async fn one(&self, number: usize) -> Result<One<G::Served>, StackError> {
        let begun = self.begin(number).await;
        if begun.is_err() {
            self.failed.cancel();
        }
        begun
    }

    async fn begin(&self, number: usize) -> Result<One<G::Served>, StackError> {
        let services = &self.stack.blueprint.services;
        let (Some(service), Some(seen), Some(maker)) =
            (services.get(number), self.seen.get(number), self.stack.makers.get(number))
        else {
            return Err(StackError::Unknown { service: number.to_string() });
        };
        for need in &service.needs {
            self.wait_for(service, seen, need).await?;
        }
        let abandoned = || StackError::Abandoned { service: service.name.clone() };
        let _room = self.stack.room.acquire().await.map_err(|_| abandoned())?;
        if self.failed.is_cancelled() {
            return Err(abandoned());
        }
        // Not given up halfway: what is begun is held, and ends by being stopped.
        let (group, sample) = (Some(self.start.group.clone()), self.start.sample.clone());
        let variant = Variant { group, sample, ..Variant::default() };
        let made = maker.make(variant).await;
        let (sandbox, capture) = made.map_err(|source| StackError::Make { service: service.name.clone(), source })?;
        let served = if service.kind.is_captured() {
            let board = Arc::clone(&self.board);
            let neighbours = service.neighbours.clone();
            let is_default = service.name == self.stack.blueprint.default;
            let open = is_default && service.leads_outside;
            let egress = if open { &self.start.default_egress } else { &service.egress };
            match self.gateway.attach(&service.name, egress, capture, neighbours, board).await {
                Ok(served) => Some(served),
                Err(source) => {
                    let _ = sandbox.stop().await;
                    return Err(StackError::Network { service: service.name.clone(), source });
                }
            }
        } else {
            None
        };
        self.board.register(&service.name, &sandbox);
        seen.tell(What::Ready);
        Ok(self.enliven(service, seen, sandbox, served))
    }

    /// Starts what runs in it.
    fn enliven(
        &self,
        service: &Service,
        seen: &Arc<Seen>,
        sandbox: Sandbox,
        served: Option<G::Served>,
    ) -> One<G::Served> {
        let is_default = service.name == self.stack.blueprint.default;
        let mut one = One::new(service, Arc::clone(seen), sandbox, served);
        if is_default && !self.start.default_process {
            one.process = None;
            one.health = None;
        }
        one.go();
        one
    }

    fn state_of(&self, service: &str) -> Option<(&Service, &Arc<Seen>)> {
        let services = self.stack.blueprint.services.iter().zip(&self.seen);
        services.into_iter().find(|(known, _)| known.name == service)
    }

    async fn wait_for(&self, by: &Service, seen: &Seen, need: &Need) -> Result<(), StackError> {
        let Some((service, other)) = self.state_of(&need.service) else { return Ok(()) };
        match self.come_to(by, service, other, need.condition).await {
            Err(error @ StackError::Abandoned { .. }) => Err(error),
            Err(error) if need.required => Err(error),
            Err(error) => {
                seen.tell(What::WaitedInVain { needs: need.service.clone(), why: error.to_string() });
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Waits until a service is what somebody waits for, or can no longer become that.
    async fn come_to(
        &self,
        by: &Service,
        service: &Service,
        seen: &Seen,
        condition: Condition,
    ) -> Result<(), StackError> {
        let never = |why| StackError::Never { service: service.name.clone(), by: by.name.clone(), why };
        let replaced = service.name == self.stack.blueprint.default && !self.start.default_process;
        match condition {
            Condition::Healthy | Condition::Completed if replaced => {
                return Err(never("has another command in the place of its own"));
            }
            Condition::Healthy if service.health.is_none() => return Err(never("has no health check")),
            Condition::Completed if service.process.is_none() => return Err(never("runs nothing")),
            Condition::Completed if service.restart == Restart::Always => {
                return Err(never("is started again and again"));
            }
            Condition::Started | Condition::Healthy | Condition::Completed => {}
        }
        let mut states = seen.state.subscribe();
        let decided = async {
            loop {
                let state = states.borrow_and_update().clone();
                if let Some(decided) = judge(service, seen, &state, condition) {
                    return decided;
                }
                // Its sender lives as long as this future.
                let _ = states.changed().await;
            }
        };
        tokio::select! {
            biased;
            decided = decided => decided,
            () = self.failed.cancelled() => Err(StackError::Abandoned { service: by.name.clone() }),
            () = tokio::time::sleep_until(self.deadline) => Err(self.too_slow(service, seen)),
        }
    }

    fn too_slow(&self, service: &Service, seen: &Seen) -> StackError {
        let state = seen.state.borrow().clone();
        StackError::TooSlow {
            service: service.name.clone(),
            deadline: self.start.patience,
            output: state.complaint.clone().unwrap_or_else(|| seen.tail.shown()),
            state: state.summary(),
        }
    }

    /// Waits until those with a health check are healthy, and looks whether the others stay.
    async fn all_ready(&self) -> Result<(), StackError> {
        let runs = |service: &Service| self.start.default_process || service.name != self.stack.blueprint.default;
        let settled = Instant::now() + SETTLE;
        let all = self.stack.blueprint.services.iter().zip(&self.seen).filter(|(service, _)| runs(service));
        let waiting = all.map(|(service, seen)| async move {
            if service.health.is_some() {
                return self.come_to(service, service, seen, Condition::Healthy).await;
            }
            if service.process.is_none() {
                return Ok(());
            }
            let mut states = seen.state.subscribe();
            let ended = async {
                let found = states.wait_for(|state| matches!(state.life, Life::Ended(_))).await;
                found.map(|state| state.life.clone()).unwrap_or_default()
            };
            match tokio::time::timeout_at(settled, ended).await {
                Ok(Life::Ended(end)) if !end.is_success() => {
                    Err(StackError::Ended { service: service.name.clone(), end, output: seen.tail.shown() })
                }
                _ => Ok(()),
            }
        });
        join_all(waiting).await.into_iter().collect()
    }
}

/// Whether a service is what somebody waits for; `None`: not yet.
fn judge(service: &Service, seen: &Seen, state: &State, condition: Condition) -> Option<Result<(), StackError>> {
    let ended = |end: &crate::told::End| {
        let (service, end, output) = (service.name.clone(), end.clone(), seen.tail.shown());
        Some(Err(StackError::Ended { service, end, output }))
    };
    match (condition, &state.life, state.health) {
        (Condition::Completed, Life::Ended(end), _) if end.is_success() => Some(Ok(())),
        // A service that ended at once had started, unless it never could.
        (Condition::Started, Life::Ended(end), _) if end.is_success() => Some(Ok(())),
        (_, Life::Ended(end), _) => ended(end),
        (Condition::Started, Life::Runs, _) | (Condition::Healthy, Life::Runs, Vitals::Healthy) => Some(Ok(())),
        (Condition::Healthy, Life::Runs, Vitals::Unhealthy) => {
            let output = state.complaint.clone().unwrap_or_else(|| seen.tail.shown());
            Some(Err(StackError::Unhealthy { service: service.name.clone(), output }))
        }
        _ => None,
    }
}

/// A task that ends with whoever holds it.
pub(crate) type Held = AbortOnDropHandle<()>;

impl<S> One<S> {
    /// Starts its process and looks after its health, from now on.
    pub(crate) fn go(&mut self) {
        match &self.process {
            Some(process) => {
                let tending = tend(Arc::clone(&self.seen), self.sandbox.hold(), process.clone(), self.restart);
                self.tasks.push(Held::new(tokio::spawn(tending)));
            }
            None => self.seen.live(Life::Runs),
        }
        if let Some(check) = &self.health {
            let watching = health::watch(Arc::clone(&self.seen), self.sandbox.hold(), check.clone());
            self.tasks.push(Held::new(tokio::spawn(watching)));
        }
    }
}
