//! Everything that requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::metrics::Metrics;
use crate::life::approvals::Approvals;
use crate::life::makers::Makers;
use crate::life::network::Networks;
use crate::life::proofs::Proofs;
use crate::life::sessions::Sessions;
use crate::life::table::Sandboxes;
use crate::workshop::Workshop;

/// How much there may be of everything.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sandboxes of one owner at the same time.
    pub sandboxes: usize,
    /// Connections of all owners at the same time, `WebSockets` too. One of several owners has at most half of them.
    pub connections: usize,
    /// Connections beside those that have not yet said who they are.
    pub strangers: usize,
    /// Sessions of one owner at the same time.
    pub sessions: usize,
    /// Names of one owner that wait for a decision.
    pub approvals: usize,
    /// Network records that are kept of one sandbox.
    pub records: usize,
    /// How long a sandbox lives that nobody asks for, unless its wish says otherwise.
    pub lease: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sandboxes: 256,
            connections: 1024,
            strangers: 256,
            sessions: 64,
            approvals: 256,
            records: 10_000,
            lease: Duration::from_mins(1),
        }
    }
}

/// What all requests share.
pub(crate) struct App {
    pub(crate) workshop: Arc<dyn Workshop>,
    pub(crate) limits: Limits,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) sessions: Sessions,
    pub(crate) networks: Arc<Networks>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) makers: Makers,
    pub(crate) proofs: Proofs,
    pub(crate) metrics: Metrics,
    /// Cancelled when the server ends: everything that lives between requests hears of it.
    pub(crate) closing: CancellationToken,
    /// Tasks that end sandboxes; the server waits for them.
    pub(crate) tasks: TaskTracker,
}

impl App {
    pub(crate) fn new(workshop: Arc<dyn Workshop>, limits: Limits, settings: egress::Settings) -> Arc<Self> {
        let approvals = Arc::new(Approvals::new(limits.approvals, settings.limits.decide));
        Arc::new(Self {
            workshop,
            sandboxes: Sandboxes::default(),
            sessions: Sessions::default(),
            networks: Arc::new(Networks::new(settings, Arc::clone(&approvals))),
            approvals,
            makers: Makers::default(),
            proofs: Proofs::default(),
            metrics: Metrics::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            limits,
        })
    }
}
