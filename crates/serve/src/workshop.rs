//! What the command brings: how a wish becomes a plan, and a plan a kind of sandbox.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profile::{Egress, Plan, Problems, Profile, Refusal};
use stack::Blueprint;
use verify::Subject;

use crate::api::SandboxWish;

/// Why a wish does not become a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// A text is wrong: the client's fault.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The profile cannot be had as asked.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// The provider, or what it needs, is not there.
    #[error("{0}")]
    Unavailable(String),
}

/// One container of a sandbox, before it is made.
pub struct ServicePart {
    /// What kind of sandbox it is, where it is not started with others; else `None` is a process of the host itself (H0).
    pub kind: Option<Arc<dyn sandbox::Kind>>,
    /// What may leave it.
    pub egress: Egress,
    /// What its commands find set.
    pub environment: Vec<(String, String)>,
    /// Where its commands start; `None` is the user's home.
    pub workdir: Option<String>,
    /// Who its commands run as; `None` is root inside.
    pub user: Option<String>,
    /// The image, as the plan names it.
    pub image: String,
}

/// What a wish amounts to.
pub struct Made {
    /// What was asked for.
    pub requested: Profile,
    /// What will be enforced.
    pub plan: Plan,
    /// The service that is meant where none is named.
    pub default: String,
    /// The containers, by name; never empty.
    pub services: BTreeMap<String, ServicePart>,
    /// How they are started where they are several: each of them is one of `services` too.
    pub blueprint: Option<Blueprint>,
    /// What is to be proven of the plan, with the service's name where there are several; empty where it has no wall.
    pub subjects: Vec<(Option<String>, Subject)>,
    /// Whether names that no rule lists are put before a person.
    pub asks: bool,
    /// What must stay while the sandbox lives, such as the image's layers.
    pub held: Box<dyn Any + Send + Sync>,
}

/// Why a log gets no receipt.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptObstacle {
    /// There is no key to sign with.
    #[error("there is no key that signs receipts")]
    NoKey,
    /// The key, or the log, cannot be used.
    #[error("{0}")]
    Failed(String),
}

/// Makes plans and kinds of sandboxes. Its methods may take long and wait for disks and networks: they are called on
/// threads that may wait.
pub trait Workshop: Send + Sync + 'static {
    /// From a wish to everything that is needed to make the sandbox.
    fn prepare(&self, wish: &SandboxWish) -> Result<Made, Obstacle>;

    /// Signs a closed log and returns where the receipt is.
    fn receipt(&self, log: &Path) -> Result<PathBuf, ReceiptObstacle>;
}
