//! A probe as data, and what it found.

use serde::Serialize;

use crate::control::Control;
use crate::scene::Scene;
use sandbox::Listed;

/// Which letter of the profile a probe speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// T.
    Tooling,
    /// H.
    Host,
    /// N.
    Network,
}

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// A part that takes a moment: before the first sample of every evaluation.
    Fast,
    /// Everything.
    Full,
}

/// What a probe says of its control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds: the target is there, and was not reached.
    Pass,
    /// It does not hold.
    Fail,
    /// Nothing is shown: the target could not be reached without the control either, or no record says why it was not.
    Unknown,
    /// The plan does not promise it.
    Unclaimed,
}

/// A verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// What was seen. May hold texts from inside: untrusted.
    pub evidence: String,
}

impl Finding {
    pub(crate) fn pass(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Pass, evidence: evidence.into() }
    }

    pub(crate) fn fail(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, evidence: evidence.into() }
    }

    pub(crate) fn unknown(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, evidence: evidence.into() }
    }

    pub(crate) fn unclaimed(evidence: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unclaimed, evidence: evidence.into() }
    }
}

/// A system call with harmless arguments, which an unfiltered kernel answers differently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) arguments: &'static [u64],
}

/// What is used up, and by how much.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    Memory,
    Pids,
    Disk,
    Inodes,
    OpenFiles,
}

/// What of the host is tried to be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// A file that the runner planted.
    File,
    /// The runner's own process.
    Process,
    /// A socket with an abstract name.
    AbstractSocket,
    /// A socket in the file system.
    PathSocket,
    /// A listener on the host's loopback.
    Loopback,
    /// A segment of shared memory.
    SharedMemory,
    /// A file that is written inside must not be there outside.
    Written,
}

/// How a probe is done.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// The namespace of this kind is another than the runner's.
    Namespace(&'static str),
    /// A file of the sandbox shows it.
    Shown(&'static str, fn(&str, &Scene) -> Finding),
    /// A directory of the sandbox shows it.
    Listing(&'static str, fn(&[Listed], &Scene) -> Finding),
    /// No descriptor is left over.
    Descriptors,
    /// The filter answers these calls, and an unfiltered kernel would answer otherwise.
    Calls(&'static [Call]),
    /// These files are empty or closed inside, and not all are outside.
    Hidden(&'static [&'static str]),
    /// These files cannot be opened for writing inside, and can outside.
    ReadOnly(&'static [&'static str]),
    /// What belongs to the host's root is not changed.
    HostRoot,
    /// The guest's own files are closed.
    GuestFiles(&'static [&'static str]),
    /// The guest cannot be traced.
    GuestTrace,
    /// The guest survives signals.
    GuestSignals,
    /// Something of the host is not reached.
    Host(Target),
    /// A limit bites.
    Bound(Bound),
    /// Something of the network; which, is in the catalogue of the network.
    Network(&'static crate::network::Exchange),
    /// The service of another sandbox is not reached.
    Sibling,
    /// What the plan offers.
    Offered(fn(&Scene) -> Finding),
}

/// One probe.
#[derive(Clone, Copy)]
pub struct Probe {
    /// Its stable name.
    pub id: &'static str,
    /// The control that it tests.
    pub control: Control,
    /// The letter that it speaks for.
    pub axis: Axis,
    /// Whether it is in the fast part.
    pub speed: Speed,
    /// What it tries.
    pub tries: &'static str,
    /// What it expects.
    pub expects: &'static str,
    pub(crate) way: Way,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("id", &self.id).field("control", &self.control).finish_non_exhaustive()
    }
}
