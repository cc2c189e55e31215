//! Docker as a kind of sandbox, and who makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sandbox::{Bounds, Capture, Kind, Limits, Maker, Pending, Sandbox, StartError, Variant};

use crate::create::{Whose, Workshop};
use crate::endpoint::Endpoint;
use crate::engine::{Engine, Patience};
use crate::error::DockerError;
use crate::place::Place;
use crate::programs::Programs;
use crate::request::Request;
use crate::volumes::remove_volume;

/// Containers of one kind, by one daemon.
#[derive(Debug, Clone)]
pub struct Docker {
    /// Where the daemon listens.
    pub endpoint: Endpoint,
    /// How long it may take.
    pub patience: Patience,
    /// What each container is.
    pub request: Request,
    /// Whether our programs are copied into each container although the daemon is on this machine.
    pub copies_programs: bool,
}

impl Kind for Docker {
    fn start<'a>(&'a self, run: &'a str) -> Pending<'a, Arc<dyn Maker>> {
        Box::pin(async move {
            let engine = Engine::connect(self.endpoint.clone(), self.patience).await?;
            if let Some(runtime) = &self.request.runtime {
                engine.has_runtime(runtime).await?;
            }
            let place = Arc::new(Place::open(run).map_err(DockerError::Place)?);
            let programs = Programs::provide(place.path(), self.endpoint.is_local() && !self.copies_programs)
                .map_err(DockerError::Place)?;
            let workshop = Workshop { engine, run: run.to_owned(), place, programs };
            let made: Arc<dyn Maker> =
                Arc::new(Made { workshop, request: self.request.clone(), next: AtomicU32::new(1) });
            Ok(made)
        })
    }

    fn is_captured(&self) -> bool {
        self.request.is_captured()
    }

    fn mounts(&self) -> Vec<String> {
        self.request.mounts.iter().map(|mount| mount.target.clone()).collect()
    }

    fn shared(&self) -> Vec<String> {
        let volumes = self.request.volumes.iter().filter(|volume| volume.name.is_some());
        self.mounts().into_iter().chain(volumes.map(|volume| volume.target.clone())).collect()
    }
}

struct Made {
    workshop: Workshop,
    request: Request,
    next: AtomicU32,
}

impl Maker for Made {
    fn make(&self, variant: Variant) -> Pending<'_, (Sandbox, Capture)> {
        Box::pin(async move {
            if variant.begin_with.is_some() {
                return Err(StartError::OtherEngine);
            }
            let mut request = self.request.clone();
            // What it may write is not bounded here, and a host that bounds nothing does not begin to for this one.
            if let Some(Bounds { memory, pids, disk: _ }) = variant.bounds {
                request.limits = request.limits.map(|limits| Limits { memory, pids, ..limits });
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let whose = Whose { number, group: variant.group.as_deref(), sample: variant.sample.as_deref() };
            self.workshop.create(&request, whose).await
        })
    }

    fn keeps_files(&self) -> bool {
        false
    }

    fn end_group<'a>(&'a self, group: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            for name in self.request.volumes.iter().filter_map(|volume| volume.name_in(Some(group))) {
                remove_volume(&self.workshop.engine, &name).await?;
            }
            Ok(())
        })
    }
}
