//! Kinds of sandboxes, and who makes them: the same for whoever asks, whichever engine answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::container::{Capture, Containers, Request, System};
use crate::sandbox::{Sandbox, StartError};
use crate::snapshot::Snapshot;

/// What comes when it is ready.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StartError>> + Send + 'a>>;

/// A kind of sandbox: an engine's, with its image, limits, mounts and network.
pub trait Kind: Send + Sync + fmt::Debug {
    /// Starts whatever makes sandboxes of this kind. `run` is unique on this machine, and part of the names of what is made.
    fn start<'a>(&'a self, run: &'a str) -> Pending<'a, Arc<dyn Maker>>;

    /// Whether its network is captured, so that somebody must serve it.
    fn is_captured(&self) -> bool;

    /// Where host paths are shown inside.
    fn mounts(&self) -> Vec<String>;

    /// Paths inside that all sandboxes of one group share: host paths, and volumes of the group.
    fn shared(&self) -> Vec<String> {
        self.mounts()
    }
}

/// Makes sandboxes of one kind. The last holder ends it, and whatever it made.
pub trait Maker: Send + Sync {
    /// One more. The capture is empty unless its network is captured.
    fn make(&self, variant: Variant) -> Pending<'_, (Sandbox, Capture)>;

    /// Whether what it makes can be frozen and begun again.
    fn keeps_files(&self) -> bool;

    /// Removes what the sandboxes of a group shared. All of them have ended.
    fn end_group<'a>(&'a self, group: &'a str) -> Pending<'a, ()> {
        let _ = group;
        Box::pin(async { Ok(()) })
    }
}

/// What is different about one sandbox of a kind.
#[derive(Debug, Clone, Default)]
pub struct Variant {
    /// What another sandbox had become.
    pub begin_with: Option<Snapshot>,
    /// Whose programs and settings it has, where it begins with a snapshot.
    pub system: System,
    /// Other bounds than its kind's, where its kind has any.
    pub bounds: Option<Bounds>,
    /// The group that it belongs to: sandboxes of one group share what their kinds share by name. Unique on this machine.
    pub group: Option<String>,
    /// The sample that it is for, for people who look at it from outside.
    pub sample: Option<String>,
}

/// What a sandbox may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes.
    pub pids: u64,
    /// Bytes that it may write.
    pub disk: u64,
}

impl Kind for Request {
    fn start<'a>(&'a self, run: &'a str) -> Pending<'a, Arc<dyn Maker>> {
        Box::pin(async move { Ok(Containers::start(run)?.maker(self.clone())) })
    }

    fn is_captured(&self) -> bool {
        self.network != jail::zygote::Network::Loopback
    }

    fn mounts(&self) -> Vec<String> {
        self.mounts.iter().map(|mount| mount.target.clone()).collect()
    }
}

impl Containers {
    /// Whoever makes sandboxes of this kind, by this engine.
    pub fn maker(&self, request: Request) -> Arc<dyn Maker> {
        Arc::new(Embedded { containers: self.clone(), request })
    }
}

/// The embedded engine, for one request.
struct Embedded {
    containers: Containers,
    request: Request,
}

impl Maker for Embedded {
    fn make(&self, variant: Variant) -> Pending<'_, (Sandbox, Capture)> {
        let Variant { begin_with, system, bounds, group: _, sample: _ } = variant;
        let mut request = Request { begin_with, system, ..self.request.clone() };
        if let Some(Bounds { memory, pids, disk }) = bounds {
            // A host that bounds nothing does not begin to for this one.
            request.limits = request.limits.map(|limits| crate::Limits { memory, pids, ..limits });
            request.disk = disk;
        }
        Box::pin(self.containers.create_captured(request))
    }

    fn keeps_files(&self) -> bool {
        true
    }
}
