//! The services of one sample while they run, and how they end.

use std::sync::Arc;

use egress::Switchboard;
use profile::Egress;
use sandbox::{Capture, Sandbox, StartError};

use crate::error::StackError;
use crate::gateway::Gateway;
use crate::service::{Health, Process, Restart, Service};
use crate::start::{Held, Stack};
use crate::tend::Seen;
use crate::told::What;

/// One service while it runs.
pub(crate) struct One<S> {
    pub(crate) seen: Arc<Seen>,
    pub(crate) sandbox: Sandbox,
    pub(crate) served: Option<S>,
    pub(crate) process: Option<Process>,
    pub(crate) restart: Restart,
    pub(crate) health: Option<Health>,
    pub(crate) tasks: Vec<Held>,
    egress: Egress,
    leads_outside: bool,
}

impl<S> One<S> {
    pub(crate) fn new(service: &Service, seen: Arc<Seen>, sandbox: Sandbox, served: Option<S>) -> Self {
        let Service { process, restart, health, egress, leads_outside, .. } = service.clone();
        Self { seen, sandbox, served, process, restart, health, tasks: Vec::new(), egress, leads_outside }
    }
}

/// The services of one sample. Dropping it ends them too; [`Running::end`] is the way.
pub struct Running<S> {
    ones: Vec<One<S>>,
    default: String,
    group: String,
    board: Arc<Switchboard>,
}

impl<S: Send> Running<S> {
    pub(crate) fn new(ones: Vec<One<S>>, default: String, group: String, board: Arc<Switchboard>) -> Self {
        Self { ones, default, group, board }
    }

    /// The name of what the services share.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// A service's sandbox.
    pub fn sandbox(&self, service: &str) -> Option<&Sandbox> {
        self.ones.iter().find(|one| one.seen.name == service).map(|one| &one.sandbox)
    }

    /// The sandbox that the agent works in.
    pub fn default(&self) -> Option<&Sandbox> {
        self.sandbox(&self.default)
    }

    /// The name of the service that the agent works in.
    pub fn default_name(&self) -> &str {
        &self.default
    }

    /// The network of the service that the agent works in, where it has one that is served.
    pub fn default_served(&self) -> Option<&S> {
        self.ones.iter().find(|one| one.seen.name == self.default)?.served.as_ref()
    }

    /// Every network that is served, with the service that it is of and its sandbox.
    pub fn served(&mut self) -> impl Iterator<Item = (&str, &Sandbox, &mut S)> {
        self.ones.iter_mut().filter_map(|one| Some((one.seen.name.as_str(), &one.sandbox, one.served.as_mut()?)))
    }

    /// Puts rules in force for the default service; every other one keeps its own, as far as `most` has them.
    pub async fn narrow<G: Gateway<Served = S>>(
        &self,
        gateway: &G,
        agent: &Egress,
        most: &Egress,
    ) -> Result<(), egress::GatewayError> {
        for one in &self.ones {
            let Some(served) = &one.served else { continue };
            let is_default = one.seen.name == self.default;
            // The default service can be stricter than its sample, too.
            let own = if is_default && one.leads_outside { agent } else { &one.egress };
            gateway.replace(served, &least(own, most)).await?;
        }
        Ok(())
    }

    /// Ends every process of the default service, its own one too; the other services go on.
    pub async fn clear(&mut self) -> Result<(), sandbox::SessionError> {
        let default = self.default.clone();
        let Some(one) = self.ones.iter_mut().find(|one| one.seen.name == default) else { return Ok(()) };
        // Before its process is gone: nobody starts it again meanwhile.
        one.tasks.clear();
        one.sandbox.session().end_all().await
    }

    /// Starts the default service's own process anew, where it has one and it was ended.
    pub fn resume(&mut self) {
        let default = self.default.clone();
        let one = self.ones.iter_mut().find(|one| one.seen.name == default);
        if let Some(one) = one.filter(|one| one.tasks.is_empty() && one.process.is_some()) {
            one.go();
        }
    }

    /// Puts another sandbox in the place of the default service's, with the service's network and neighbours, and ends the old
    /// one; returns why that one did not end. `most` is the most that the new one may reach.
    pub async fn replace_default<G: Gateway<Served = S>>(
        &mut self,
        stack: &Stack,
        gateway: &G,
        (sandbox, capture): (Sandbox, Capture),
        most: &Egress,
    ) -> Result<Option<StartError>, StackError> {
        let default = self.default.clone();
        let unknown = || StackError::Unknown { service: default.clone() };
        let service = stack.blueprint().services.iter().find(|service| service.name == default).ok_or_else(unknown)?;
        let one = self.ones.iter_mut().find(|one| one.seen.name == default).ok_or_else(unknown)?;
        one.tasks.clear();
        (one.process, one.health) = (None, None);
        let old = std::mem::replace(&mut one.sandbox, sandbox);
        let stopped = old.stop().await;
        // Its records are known by the service's name, like those of the next one.
        if let Some(served) = one.served.take() {
            gateway.detach(&default, served).await;
        }
        self.board.register(&default, &one.sandbox);
        if service.kind.is_captured() {
            let (neighbours, board) = (service.neighbours.clone(), Arc::clone(&self.board));
            let own = if one.leads_outside { most } else { &one.egress };
            let attached = gateway.attach(&default, &least(own, most), capture, neighbours, board).await;
            one.served = Some(attached.map_err(|source| StackError::Network { service: default, source })?);
        }
        Ok(stopped.err())
    }

    /// Ends all services and removes what they shared. The first reason why one could not be ended is told; all are tried.
    pub async fn end<G: Gateway<Served = S>>(&mut self, stack: &Stack, gateway: &G) -> Result<(), StartError> {
        let ones = std::mem::take(&mut self.ones);
        let ending = ones.into_iter().map(|one| async move {
            drop(one.tasks);
            let stopped = one.sandbox.stop().await;
            if let Some(served) = one.served {
                gateway.detach(&one.seen.name, served).await;
            }
            one.seen.tell(What::Stopped);
            stopped
        });
        let stopped: Result<(), StartError> = futures_util::future::join_all(ending).await.into_iter().collect();
        let ended = stack.end_group(&self.group).await;
        stopped.and(ended)
    }
}

/// What both allow; nothing where neither is within the other.
fn least(own: &Egress, most: &Egress) -> Egress {
    if own.is_within(most) {
        own.clone()
    } else if most.is_within(own) {
        most.clone()
    } else {
        Egress::Nothing
    }
}

#[cfg(test)]
mod tests {
    use profile::{Network, NetworkRules};

    use super::*;

    fn listed(names: &[&str]) -> Egress {
        let allow = names.iter().map(|name| name.parse().unwrap()).collect();
        NetworkRules { allow, ..NetworkRules::default() }.at(Network::N1)
    }

    #[test]
    fn a_service_has_never_more_than_its_phase() {
        let (few, many, other) = (listed(&["a.example"]), listed(&["a.example", "b.example"]), listed(&["c.example"]));
        assert_eq!(least(&few, &many), few);
        assert_eq!(least(&many, &few), few);
        assert_eq!(least(&many, &other), Egress::Nothing);
        assert_eq!(least(&Egress::Nothing, &many), Egress::Nothing);
        assert_eq!(least(&many, &Egress::Nothing), Egress::Nothing);
    }
}
