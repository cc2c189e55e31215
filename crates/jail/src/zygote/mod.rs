//! The zygote: a small static helper that creates sandboxes.
//!
//! It is executed early, so that no large process is ever forked; it holds the sandboxes' groups and mounts; and it
//! outlives a runner that is killed: when the runner's socket ends, it ends every sandbox, removes what it made and exits.
//! If the zygote itself is killed, the kernel ends its sandboxes with it.
//!
//! Files tell the story: [`client`](Zygote) starts it, `serve` is its loop, `home` its own surroundings, `create` the
//! parent's side of a new sandbox, `cradle` whom it is a copy of, `inside` the child's, `image`, `overlay`, `synthetic` and `devices` what the sandbox finds as its root,
//! `bases` the directories of the host that are images, `snapshot` what is kept of one that was frozen, `prepared` those that were begun ahead of a request.

mod bases;
mod client;
mod cradle;
mod create;
mod devices;
mod home;
mod image;
pub(crate) mod inside;
mod overlay;
mod prepared;
mod protocol;
mod serve;
mod shield;
mod snapshot;
mod synthetic;

use std::io;

pub use client::{
    CreateError, Created, DESCRIPTORS_NEEDED, Waiter, Zygote, keep_descriptors_back, raise_descriptor_limit, spawn_at_3,
};
pub use create::ID_RANGES;
pub use protocol::{Changed, Image, Mount, Network, Shown, Spec};
pub use serve::main;
pub use shield::is_kept_from_before;

pub use crate::capture::{RELAY_TCP, RELAY_UDP};

/// What could not be done, and what the kernel said.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) step: &'static str,
    pub(crate) error: io::Error,
}

/// Names the step that failed.
pub(crate) trait During<T> {
    fn during(self, step: &'static str) -> Result<T, Trouble>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, step: &'static str) -> Result<T, Trouble> {
        self.map_err(|error| Trouble { step, error: error.into() })
    }
}
