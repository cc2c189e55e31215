//! A container that is held: how it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::EventMessage;
use bollard::query_parameters::{EventsOptions, InspectContainerOptions, RemoveContainerOptions};
use futures_util::{StreamExt as _, TryStreamExt as _};
use sandbox::{Autopsy, Backing, StartError};
use tokio::runtime::Handle;

use crate::engine::Engine;
use crate::error::DockerError;
use crate::place::Place;

/// How soon a container that is being removed is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOK_SELDOM: Duration = Duration::from_millis(80);
/// How long the daemon may take to report a container's end.
const REPORT: Duration = Duration::from_secs(2);
/// The most events of a container that are read; the daemon keeps 256 of all containers.
const MOST_EVENTS: usize = 256;
/// The exit code of a guest that was killed.
const KILLED: &str = "137";
/// When one that was asked for in vain is looked for again.
const LATER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// One container. Whatever ends it removes it.
pub(crate) struct Held {
    engine: Engine,
    /// Its id, or its name as long as nobody knows whether it is there.
    id: Option<String>,
    name: String,
    is_there: bool,
    runtime: Handle,
    /// Its lock says that the run lives.
    place: Arc<Place>,
}

impl Held {
    /// One that the daemon is being asked for.
    pub(crate) fn asked(engine: Engine, name: String, place: Arc<Place>) -> Self {
        Self { engine, id: Some(name.clone()), name, is_there: false, runtime: Handle::current(), place }
    }

    /// It is there.
    pub(crate) fn made(&mut self, id: &str) {
        (self.id, self.is_there) = (Some(id.to_owned()), true);
    }

    /// There is none.
    pub(crate) fn forget(&mut self) {
        self.id = None;
    }
}

impl Backing for Held {
    fn stop(&mut self) -> Result<(), StartError> {
        let Some(id) = self.id.take() else { return Ok(()) };
        let removed = self.runtime.block_on(remove(&self.engine, &id));
        if let Err(error) = removed {
            // Dropping it tries once more. The daemon removes it by itself when its last process has ended.
            self.id = Some(id);
            return Err(StartError::NotEnded(crate::error::chain(&error)));
        }
        Ok(())
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn autopsy(&self) -> Option<Autopsy> {
        let (engine, id, runtime) = (self.engine.clone(), self.id.clone()?, self.runtime.clone());
        Some(Arc::new(move || runtime.block_on(ran_out_of_memory(&engine, &id))))
    }

    fn abandon(&mut self) {
        let Some(id) = self.id.take() else { return };
        let (engine, place) = (self.engine.clone(), Arc::clone(&self.place));
        // The daemon may still be making what it was asked for.
        let later: &[Duration] = if self.is_there { &[] } else { &LATER };
        // If nothing runs any more, the end of its stream ends the guest, and the daemon removes the container.
        self.runtime.spawn(async move {
            let _ = remove(&engine, &id).await;
            for pause in later {
                tokio::time::sleep(*pause).await;
                let _ = remove(&engine, &id).await;
            }
            drop(place);
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Whether the kernel killed a container's guest because the container's memory was full, by the daemon's events.
///
/// The daemon does not report every such kill as one of memory: it can lose the race with the container's end. But nothing inside can
/// kill the guest, so a kill that no client of the daemon asked for is taken for one. False if the daemon reports no end within
/// [`REPORT`].
async fn ran_out_of_memory(engine: &Engine, id: &str) -> bool {
    let end = engine.ask("events", |client| end_by_events(client, id));
    matches!(tokio::time::timeout(REPORT, end).await, Ok(Ok(Some(true))))
}

/// Reads a container's events, past ones first, until they say how it ended.
async fn end_by_events(client: bollard::Docker, id: &str) -> Result<Option<bool>, bollard::errors::Error> {
    let only = |name: &str, values: &[&str]| (name.to_owned(), values.iter().map(|one| (*one).to_owned()).collect());
    let filters = HashMap::from([only("container", &[id]), only("event", &["oom", "kill", "die"])]);
    let options = EventsOptions { since: Some("1".into()), until: None, filters: Some(filters) };
    let mut events = client.events(Some(options)).take(MOST_EVENTS);
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await? {
        seen.push(event);
        if let Some(known) = killed_for_memory(&seen) {
            return Ok(Some(known));
        }
    }
    Ok(None)
}

/// What the events of a container say of its end; `None` if they do not have it yet.
fn killed_for_memory(events: &[EventMessage]) -> Option<bool> {
    let is = |event: &EventMessage, action: &str| event.action.as_deref() == Some(action);
    if events.iter().any(|event| is(event, "oom")) {
        return Some(true);
    }
    let end = events.iter().find(|event| is(event, "die"))?;
    let attributes = end.actor.as_ref().and_then(|actor| actor.attributes.as_ref());
    let code = attributes.and_then(|attributes| attributes.get("exitCode")).map(String::as_str);
    Some(code == Some(KILLED) && !events.iter().any(|event| is(event, "kill")))
}

/// Ends a container with everything in it, and waits until it is gone.
pub(crate) async fn remove(engine: &Engine, id: &str) -> Result<(), DockerError> {
    let _room = engine.room().await;
    let mut refused = match order_removal(engine, id).await {
        Err(error) if error.is_missing() => return Ok(()),
        // It has ended by itself, and the daemon is at it.
        Err(error) if error.is_conflict() => None,
        // The same, if it ended between the daemon's look and its signal. Podman has other words for it, and may leave it to us.
        Err(error @ DockerError::Refused { .. }) if engine.is_podman() || error.has_ended_meanwhile() => Some(error),
        done => return done,
    };
    let deadline = Instant::now() + engine.patience().work;
    let mut pause = LOOK_AGAIN;
    loop {
        let look = |client: bollard::Docker| async move {
            client.inspect_container(id, None::<InspectContainerOptions>).await
        };
        match engine.ask("inspect container", look).await {
            Err(error) if error.is_missing() => return Ok(()),
            // Podman has words for states that Docker does not have, and none for one that ends while it is looked at.
            Err(DockerError::Odd { .. } | DockerError::Refused { .. }) if engine.is_podman() => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        if Instant::now() > deadline {
            let (endpoint, deadline) = (engine.endpoint().to_string(), engine.patience().work);
            return Err(refused.unwrap_or(DockerError::Hangs { call: "remove container", endpoint, deadline }));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_SELDOM);
        if refused.is_some() || engine.is_podman() {
            refused = order_removal(engine, id).await.err().or(refused);
        }
    }
}

async fn order_removal(engine: &Engine, id: &str) -> Result<(), DockerError> {
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    let remove = |client: bollard::Docker| async move { client.remove_container(id, Some(options)).await };
    engine.order("remove container", remove).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: &str, code: Option<&str>) -> EventMessage {
        let attributes = code.map(|code| HashMap::from([("exitCode".to_owned(), code.to_owned())]));
        let actor = bollard::models::EventActor { attributes, ..Default::default() };
        EventMessage { action: Some(action.into()), actor: Some(actor), ..Default::default() }
    }

    #[test]
    fn a_guest_that_was_killed_without_a_request_ran_out_of_memory() {
        let (oom, kill) = (event("oom", None), event("kill", None));
        let (killed, ended) = (event("die", Some("137")), event("die", Some("0")));
        for (events, expected) in [
            (vec![], None),
            (vec![kill.clone()], None),
            (vec![oom.clone()], Some(true)),
            (vec![oom, killed.clone()], Some(true)),
            (vec![killed.clone()], Some(true)),
            (vec![kill, killed], Some(false)),
            (vec![ended], Some(false)),
            (vec![event("die", None)], Some(false)),
        ] {
            assert_eq!(killed_for_memory(&events), expected, "{events:?}");
        }
    }
}
