//! Sandboxes at H1 by a Docker Engine (or Podman's compatible socket): one container each, without Docker's networks.
//!
//! A container is always `network: none`. Its entry process is our own program, which makes the captured network inside,
//! gives away every right but a few, and becomes the guest; the container's attached stream is the guest's control
//! stream. Nothing of the workload exists before that.

mod attach;
mod build;
mod contexts;
mod create;
mod endpoint;
mod engine;
mod error;
mod held;
mod ignored;
mod images;
mod leftovers;
mod logins;
mod maker;
mod passed;
mod place;
mod programs;
mod request;
mod survey;
mod volumes;

pub use endpoint::{Endpoint, EndpointError, Surroundings};
pub use engine::{Engine, Patience};
pub use error::DockerError;
pub use images::{Build, Checked, CheckedBuild, Local, Pull};
pub use leftovers::{Leftover, Owner};
pub use maker::Docker;
pub use request::{KEPT, Request, Volume};
pub use survey::{Survey, survey};
