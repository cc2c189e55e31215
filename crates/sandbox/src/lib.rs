//! Sandboxes: a provider starts an environment with the guest in it, a session speaks with the guest.
//!
//! Exec, streams, limits, timeouts, users and files are written once, in the guest and the [`Session`]; a provider only
//! hands back a byte stream. The host believes nothing that comes out of it.

mod attempt;
mod carry;
mod confined;
mod connection;
mod container;
mod helpers;
mod local;
mod maker;
mod mounts;
mod operation;
mod paused;
mod pool;
mod programs;
mod registry;
mod relay;
mod resources;
mod sandbox;
mod session;
mod share;
mod snapshot;
mod transfer;
mod tree;
mod trial;

pub use attempt::Tried;
pub use carry::{CarryError, SystemChanges};
pub use confined::{Access, Confined};
pub use connection::{Connection, DialError};
pub use container::{Capture, Containers, Request, System};
pub use jail::cgroups::Limits;
pub use jail::enter;
pub use jail::zygote::{Image, Mount, Network, RELAY_TCP, RELAY_UDP, is_kept_from_before, keep_descriptors_back};
pub use jail::{Confined as ConfinedProcess, confine as confine_process};
pub use local::{start_local, start_local_by};
pub use maker::{Bounds, Kind, Maker, Pending, Variant};
pub use mounts::{
    ContextPart, MountSource, SecretMounts, check_build_directory, check_directory_image, check_image_beside,
    check_mounts, check_nesting, open_mounts,
};
pub use operation::{Event, Input, Running};
pub use pool::Pool;
pub use programs::{GUEST, ZYGOTE};
pub use registry::{Registered, Run, private_directory, runs};
pub use relay::{Arrived, Inquiry, Relay};
pub use resources::{ResourceError, check_descriptors, check_resources, check_tasks};
pub use sandbox::{Autopsy, Backing, Completed, Overflow, ReadError, Sandbox, StartError, Stopping};
pub use session::{Session, SessionError};
pub use share::share;
pub use snapshot::{Archive, Changes, Snapshot};
pub use transfer::{Reading, Writing};
pub use tree::{Transferred, TreeError, TreeLimits};
pub use trial::{Trial, TrialError, trial};
pub use wire::{
    Argument, Attempt, Attempted, DialFailure, Ending, Entry, Exec, FailureKind, FileKind, Listed, LocalAddress,
    Outcome, Part, Stat, Stream, User, WindowSize,
};
