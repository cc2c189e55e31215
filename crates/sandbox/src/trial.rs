//! A trial sandbox: created and ended by the engine's own code, to find out whether this host can run one with its limits.

use std::io;
use std::os::fd::OwnedFd;

use jail::cgroups::{Limits, holds};
use jail::zygote::{CreateError, Image, Network, Spec, Zygote};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::programs::ZYGOTE;

/// Arbitrary limits, only read back.
const LIMITS: Limits = Limits { memory: 256 << 20, pids: 100, cpu_millis: 500 };

/// The step of a trial that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step} failed")]
pub struct TrialError {
    /// The name of the step.
    pub step: String,
    source: io::Error,
}

/// The results of a trial.
#[derive(Debug)]
pub struct Trial {
    /// A sandbox without a network.
    pub sandbox: Result<(), TrialError>,
    /// One whose network is captured; not tried where there is none at all.
    pub captured: Option<Result<(), TrialError>>,
    /// Control groups, and where they are: its first process was in groups with its limits.
    pub groups: Result<String, TrialError>,
}

impl From<CreateError> for TrialError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Refused { step, source } => Self { step, source },
            other => Self { step: "creating a sandbox".into(), source: io::Error::other(other.to_string()) },
        }
    }
}

fn trouble(step: &str) -> impl FnOnce(io::Error) -> TrialError {
    move |source| TrialError { step: step.into(), source }
}

fn control() -> Result<(OwnedFd, OwnedFd), TrialError> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| trouble("making a socket")(errno.into()))
}

fn spec(id: u32, network: Network, limits: Option<Limits>) -> Spec {
    Spec {
        id,
        name: format!("ringfence-{}-trial{id}", std::process::id()),
        image: Image::Host,
        directory: None,
        limits,
        disk: 1 << 20,
        inodes: 100,
        mounts: Vec::new(),
        allow_setuid: false,
        network,
    }
}

/// Makes a sandbox, looks at its limits, and ends it.
fn make(zygote: &mut Zygote, id: u32, network: Network, limits: Option<Limits>) -> Result<(), TrialError> {
    let (_ours, theirs) = control()?;
    let created = zygote.create(spec(id, network, limits), &theirs)?;
    let held = limits.map_or(Ok(()), |limits| holds(created.pid.unsigned_abs(), &limits));
    zygote.destroy(id)?;
    held.map_err(trouble("reading a sandbox's limits back"))
}

/// Runs the trial. Blocks for tens of milliseconds, longer on an overloaded host.
pub fn trial() -> Trial {
    let mut zygote = match Zygote::start(ZYGOTE) {
        Ok(zygote) => zygote,
        Err(error) => {
            let failed = || trouble("starting the helper process")(io::Error::other(error.to_string()));
            return Trial { sandbox: Err(failed()), captured: None, groups: Err(failed()) };
        }
    };
    let groups = zygote.groups().map_err(TrialError::from);
    if groups.is_ok() && make(&mut zygote, 1, Network::Captured, Some(LIMITS)).is_ok() {
        return Trial { sandbox: Ok(()), captured: Some(Ok(())), groups };
    }
    // One feature at a time, to find the missing one.
    let sandbox = make(&mut zygote, 2, Network::Loopback, None);
    let captured = sandbox.is_ok().then(|| make(&mut zygote, 3, Network::Captured, None));
    let groups = groups.and_then(|place| {
        // Where no sandbox can be made at all, groups can still be.
        if sandbox.is_ok() {
            make(&mut zygote, 4, Network::Loopback, Some(LIMITS))?;
        }
        Ok(place)
    });
    Trial { sandbox, captured, groups }
}
