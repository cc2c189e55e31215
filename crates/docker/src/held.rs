//! A container that is held: how it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters::{InspectContainerOptions, RemoveContainerOptions};
use sandbox::{Backing, StartError};
use tokio::runtime::Handle;

use crate::engine::Engine;
use crate::error::DockerError;
use crate::place::Place;

/// How soon a container that is being removed is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOK_SELDOM: Duration = Duration::from_millis(80);
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
        Ok(self.runtime.block_on(remove(&self.engine, &id))?)
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
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
