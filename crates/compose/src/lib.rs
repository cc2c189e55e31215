//! Compose files, read strictly: what a sandbox honours, what is left out and recorded, what is refused.
//!
//! Pure: [`read`] looks at nothing but its text and what [`Surroundings`] hands it. Mistakes are problems, all at once, each
//! with its place; well-formed wishes that would weaken a profile are refusals. A [`Project`] in hand has neither.
//!
//! Start reading at [`read`], then [`rules`] (what happens with every key), then [`Service`].

mod check;
pub mod dotenv;
mod host;
mod names;
mod project;
mod read;
mod reading;
pub mod rules;
mod section;
mod service;
mod template;
mod top;
mod units;
mod words;

pub use names::{Beyond, ContainerPath, ContainerPathError, HostPath, NameError, NetworkName, ServiceName, VolumeName};
pub use project::{Neighbour, Network, Project, Refused};
pub use read::{MAX_FILE_BYTES, MAX_INCLUDES, MAX_SERVICES, ReadError, read};
pub use reading::{Ignored, Origin, Surroundings};
pub use service::{
    ADDABLE_CAPABILITIES, Access, Attachment, Build, Capability, CapabilityError, Condition, Dependency, Dockerfile,
    Dropped, Health, HealthTest, Image, Limits, LimitsInForce, Mount, MountSource, Platform, PlatformError, PortRange,
    Protocol, Pull, Restart, Service, Tmpfs, Ulimit, argv,
};
pub use template::{MAX_EXPANDED_BYTES, TemplateError, expand};
pub use units::AmountError;
pub use words::{WordsError, split};
