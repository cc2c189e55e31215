//! A sandbox as requests see it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use profile::Egress;
use sandbox::{Sandbox, User};
use serde_json::Value;

use super::ending::Ending;
use super::lock;
use super::network::Served;
use super::records::Records;
use crate::api::problem::{Answer, Code, Problem};
use crate::api::short;
use crate::server::Owner;

/// One container of it.
pub(crate) struct Service {
    /// To work in; whoever keeps the sandbox holds it.
    pub(crate) view: Sandbox,
    pub(crate) environment: Vec<(String, String)>,
    /// Where commands start; `None` is their user's home.
    pub(crate) cwd: Option<String>,
    /// Where relative paths begin; `None` is where the guest itself is.
    pub(crate) workdir: Option<String>,
    /// `None` is root inside.
    pub(crate) user: Option<String>,
    pub(crate) image: String,
    /// What the plan lets out; rules that are put in force later stay within.
    pub(crate) egress: Egress,
    pub(crate) served: Option<Arc<Served>>,
    /// The name by which other commands of this user find it.
    pub(crate) listed: Option<String>,
}

impl Service {
    /// The path as the guest is told.
    pub(crate) fn resolve(&self, path: &str) -> String {
        match &self.workdir {
            Some(workdir) if !path.starts_with('/') => format!("{}/{path}", workdir.trim_end_matches('/')),
            _ => path.to_owned(),
        }
    }

    /// Who somebody is: stated, or the service's own.
    pub(crate) fn user(&self, stated: Option<&str>) -> User {
        stated.or(self.user.as_deref()).map_or(User::Default, |name| User::Named(name.to_owned()))
    }

    /// The same for files: what root may, the guest does itself.
    pub(crate) fn file_user(&self, stated: Option<&str>) -> User {
        match self.user(stated) {
            User::Named(name) if matches!(name.as_str(), "root" | "0" | "0:0" | "root:root") => User::Default,
            user => user,
        }
    }
}

/// A sandbox that lives.
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) owner: Owner,
    pub(crate) session: Option<String>,
    pub(crate) detached: bool,
    /// Ends it when nobody has asked for it for so long.
    pub(crate) lease: Option<Duration>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) created_ms: u64,
    pub(crate) requested: String,
    pub(crate) profile: String,
    pub(crate) plan_hash: String,
    pub(crate) plan: Value,
    pub(crate) observed: Value,
    pub(crate) default: String,
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) records: Arc<Records>,
    pub(crate) ending: Ending,
    pub(crate) renewed: Mutex<Instant>,
    pub(crate) busy: AtomicUsize,
}

impl Held {
    /// Begins the lease anew.
    pub(crate) fn renew(&self) {
        *lock(&self.renewed) = Instant::now();
    }

    /// How long until the lease ends it; `None` where nothing does now.
    pub(crate) fn left(&self) -> Option<Duration> {
        let lease = self.lease?;
        if self.busy.load(Ordering::Relaxed) > 0 {
            return Some(lease);
        }
        Some(lease.saturating_sub(lock(&self.renewed).elapsed()))
    }

    /// The service of that name, or the default.
    pub(crate) fn service(&self, name: Option<&str>) -> Answer<&Service> {
        let name = name.unwrap_or(&self.default);
        self.services.get(name).ok_or_else(|| {
            let known = self.services.keys().cloned().collect::<Vec<_>>().join(", ");
            Problem::new(Code::NotFound, format!("there is no service `{}`", short(name)))
                .hint(format!("this sandbox has: {known}"))
        })
    }
}

/// A sandbox while a request works in it: its lease does not run meanwhile.
pub(crate) struct Using(Arc<Held>);

impl Using {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        held.busy.fetch_add(1, Ordering::Relaxed);
        Self(held)
    }
}

impl std::ops::Deref for Using {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.0.renew();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}
