//! Volumes that containers of a group share: how they end, and which of them nobody needs any more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};

use crate::engine::Engine;
use crate::error::DockerError;
use crate::leftovers::{Leftover, owner_of};
use crate::request::label;

/// How soon a volume that is still in use is tried again, and for how long.
const TRY_AGAIN: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);

/// Removes a volume; one that is not there is gone already. A container that is being removed may hold it for a moment.
pub(crate) async fn remove_volume(engine: &Engine, name: &str) -> Result<(), DockerError> {
    let deadline = Instant::now() + LONGEST;
    loop {
        let remove = |client: bollard::Docker| async move {
            client.remove_volume(name, Some(RemoveVolumeOptions { force: false })).await
        };
        match engine.order("remove volume", remove).await {
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) if error.is_conflict() && Instant::now() < deadline => tokio::time::sleep(TRY_AGAIN).await,
            done => return done,
        }
    }
}

impl Engine {
    /// Every volume that bears our labels.
    pub async fn leftover_volumes(&self) -> Result<Vec<Leftover>, DockerError> {
        let filters = Some(HashMap::from([("label".to_owned(), vec![label::RUN.to_owned()])]));
        let list =
            |client: bollard::Docker| async move { client.list_volumes(Some(ListVolumesOptions { filters })).await };
        let found = self.ask("list volumes", list).await?.volumes.unwrap_or_default();
        let mut all = Vec::new();
        for volume in found {
            let Some(run) = volume.labels.get(label::RUN).cloned() else { continue };
            let owner = owner_of(&volume.labels)?;
            all.push(Leftover { id: volume.name.clone(), name: volume.name, run, owner });
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}
