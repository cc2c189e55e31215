//! Containers of ours that a daemon has, and which of them nobody needs any more.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bollard::query_parameters::ListContainersOptions;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::engine::Engine;
use crate::error::DockerError;
use crate::held::remove;
use crate::place;
use crate::request::label;
use crate::volumes::remove_volume;

/// Who a container belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A run of this user on this machine, whose runner lives.
    Alive,
    /// A run of this user on this machine, whose runner is gone.
    Gone,
    /// Somebody else's run, whose lease has not run out: nobody here can tell whether its runner lives.
    Elsewhere,
    /// Somebody else's run, whose lease has run out.
    Expired,
}

impl Owner {
    /// Whether nobody needs it any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Gone | Self::Expired)
    }
}

/// A container of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// As the daemon knows it.
    pub id: String,
    /// Its name there.
    pub name: String,
    /// The run that made it.
    pub run: String,
    /// Who it belongs to.
    pub owner: Owner,
}

impl Engine {
    /// Every container that bears our labels.
    pub async fn leftovers(&self) -> Result<Vec<Leftover>, DockerError> {
        let filters = Some(HashMap::from([("label".to_owned(), vec![label::RUN.to_owned()])]));
        let options = ListContainersOptions { all: true, filters, ..Default::default() };
        let list = |client: bollard::Docker| async move { client.list_containers(Some(options)).await };
        let found = self.ask("list containers", list).await?;
        let mut all = Vec::new();
        for container in found {
            let (Some(id), Some(labels)) = (container.id, container.labels) else { continue };
            // What the filter is for; a daemon that ignores it must not cost anybody a container.
            let Some(run) = labels.get(label::RUN).cloned() else { continue };
            let name = container.names.unwrap_or_default().into_iter().next().unwrap_or_default();
            let name = name.trim_start_matches('/').to_owned();
            // Labels come from an image too, names never do.
            if !name.starts_with(&format!("ringfence-{run}-")) {
                continue;
            }
            let owner = owner_of(&labels)?;
            all.push(Leftover { id, name, run, owner });
        }
        all.sort_by(|a, b| (&a.run, &a.name).cmp(&(&b.run, &b.name)));
        Ok(all)
    }

    /// Removes a container of ours.
    pub async fn remove(&self, leftover: &Leftover) -> Result<(), DockerError> {
        remove(self, &leftover.id).await
    }

    /// Removes everything that nobody needs any more, here and at the daemon, and tells of each. One that the daemon
    /// keeps does not keep the others; a daemon that answers nothing is asked no further.
    pub async fn clean_up(&self, told: &mut dyn FnMut(&Leftover, Result<(), DockerError>)) -> Result<(), DockerError> {
        let containers = self.leftovers().await?.into_iter().filter(|one| one.owner.is_over());
        let removed = containers.map(|one| async { (self.remove(&one).await, one) }).collect();
        tell(removed, told).await?;
        // After the containers, which hold them.
        let volumes = self.leftover_volumes().await?.into_iter().filter(|one| one.owner.is_over());
        let removed = volumes.map(|one| async {
            let _room = self.room().await;
            (remove_volume(self, &one.id).await, one)
        });
        let removed = removed.collect();
        tell(removed, told).await?;
        place::clean_up().map_err(DockerError::Place)
    }
}

async fn tell(
    mut removed: FuturesUnordered<impl Future<Output = (Result<(), DockerError>, Leftover)>>,
    told: &mut dyn FnMut(&Leftover, Result<(), DockerError>),
) -> Result<(), DockerError> {
    while let Some((result, one)) = removed.next().await {
        match result {
            Err(error @ (DockerError::Hangs { .. } | DockerError::Unreachable { .. })) => return Err(error),
            result => told(&one, result),
        }
    }
    Ok(())
}

/// Who something belongs to, by its labels, now.
pub(crate) fn owner_of(labels: &HashMap<String, String>) -> Result<Owner, DockerError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    judge(labels, &place::owner().map_err(DockerError::Place)?, now, |run| {
        place::is_alive(run).map_err(DockerError::Place)
    })
}

/// Who a container belongs to, by its labels. Only our own runs are judged by their locks.
fn judge(
    labels: &HashMap<String, String>,
    own: &str,
    now: u64,
    alive: impl Fn(&str) -> Result<bool, DockerError>,
) -> Result<Owner, DockerError> {
    let get = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    if get(label::OWNER) == own {
        return Ok(if alive(get(label::RUN))? { Owner::Alive } else { Owner::Gone });
    }
    // Without a lease that can be read it is left alone.
    Ok(match get(label::LEASE).parse::<u64>() {
        Ok(lease) if lease < now => Owner::Expired,
        _ => Owner::Elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(owner: &str, run: &str, lease: &str) -> Owner {
        let labels = [(label::RUN, run), (label::OWNER, owner), (label::LEASE, lease)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        judge(&labels, "us", 100, |run| Ok(run == "living")).unwrap()
    }

    #[test]
    fn own_runs_go_by_their_lock_and_others_by_their_lease() {
        assert_eq!(judged("us", "living", "1"), Owner::Alive);
        assert_eq!(judged("us", "dead", "1000"), Owner::Gone);
        assert_eq!(judged("them", "dead", "1000"), Owner::Elsewhere);
        assert_eq!(judged("them", "living", "99"), Owner::Expired);
        for lease in ["", "soon", "-1", "99999999999999999999999999"] {
            assert_eq!(judged("them", "x", lease), Owner::Elsewhere, "{lease}");
        }
    }
}
