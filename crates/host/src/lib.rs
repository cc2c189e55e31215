//! Facts: what this host and its providers can enforce, found out by doing, each with a short deadline.
//!
//! A probe that does not answer is `Unknown`, which counts as missing. What the facts *mean* for a profile is decided in
//! the crate `profile`.

mod docker;
mod kernel;
mod kubernetes;
mod machines;
mod reach;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use profile::{Capability, Facts, Finding};

/// How long one probe may take. Together they take hardly longer than one: they run at the same time.
pub const DEADLINE: Duration = Duration::from_secs(3);

/// The same for what the kernel does, which loads modules when they are first needed, and for a whole sandbox.
const KERNEL_DEADLINE: Duration = Duration::from_secs(10);

/// Time that a probe has to report that its own deadline has passed, and to end its child.
const REPORT: Duration = Duration::from_millis(1500);

/// What the probes may look at beside the kernel: the environment, and where the user's files are.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// This process' own; variables that are not text are left out.
    pub fn of_this_process() -> Self {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { variables: variables.collect() }
    }

    /// A variable that is set and not empty.
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }
}

/// Probes everything, at the same time.
pub fn facts(surroundings: &Surroundings) -> Facts {
    facts_of(&Capability::ALL, surroundings)
}

/// What this machine's own kernel can do.
const KERNEL: [Capability; 7] = [
    Capability::UserNamespaces,
    Capability::Overlay,
    Capability::Seccomp,
    Capability::Cgroups,
    Capability::IdRanges,
    Capability::Nftables,
    Capability::Landlock,
];

/// What this machine's own kernel can do: all that the embedded engine needs, and nothing that asks a server.
pub fn kernel_facts() -> Facts {
    facts_of(&KERNEL, &Surroundings::default())
}

/// The same, and what the Docker daemon can do that these surroundings name.
pub fn docker_facts(surroundings: &Surroundings) -> Facts {
    facts_of(&[&KERNEL[..], &docker::CAPABILITIES].concat(), surroundings)
}

fn facts_of(capabilities: &[Capability], surroundings: &Surroundings) -> Facts {
    // A daemon is asked once for all that it can do.
    let (asked, probed): (Vec<Capability>, Vec<Capability>) =
        capabilities.iter().partition(|capability| docker::CAPABILITIES.contains(capability));
    let begin = |capability: Capability| {
        let surroundings = surroundings.clone();
        (capability, start(move || probe(capability, &surroundings)))
    };
    // What is granted must start: a sandbox says more than the probes of what it is made of.
    let trial = capabilities.contains(&Capability::Overlay).then(|| start(sandbox::trial));
    let started: Vec<_> = probed.into_iter().map(begin).collect();
    let daemon = (!asked.is_empty()).then(|| {
        let surroundings = surroundings.clone();
        start(move || docker::findings(&surroundings))
    });
    // All probes of a kind have one deadline: with one each, those that hang would be waited for one after the other.
    let now = Instant::now();
    let (end, end_of_kernel) = (now + DEADLINE + REPORT, now + KERNEL_DEADLINE + REPORT);
    let found = started.into_iter().map(|(capability, answer)| {
        let end = if KERNEL.contains(&capability) { end_of_kernel } else { end };
        (capability, within(&answer, end).unwrap_or_else(|why| why))
    });
    let mut facts = Facts::new(found);
    if let Some(trial) = trial {
        facts = trial::judge(facts, within(&trial, end_of_kernel));
    }
    let Some(daemon) = daemon else { return facts };
    let found =
        within(&daemon, end).unwrap_or_else(|why| docker::CAPABILITIES.map(|capability| (capability, why.clone())));
    found.into_iter().fold(facts, |facts, (capability, finding)| facts.with(capability, finding))
}

fn probe(capability: Capability, surroundings: &Surroundings) -> Finding {
    match capability {
        Capability::UserNamespaces => kernel::user_namespaces(),
        Capability::Overlay => kernel::overlay(),
        Capability::Seccomp => kernel::seccomp(),
        Capability::Cgroups => Finding::unknown("tried with a sandbox"),
        Capability::IdRanges => kernel::id_ranges(),
        Capability::Nftables => kernel::redirect_rules(),
        Capability::Landlock => kernel::landlock(),
        Capability::Docker | Capability::DockerHere | Capability::DockerLimits | Capability::DockerIds => {
            Finding::unknown("asked with the daemon")
        }
        Capability::Kubernetes => kubernetes::cluster(surroundings),
        Capability::Qemu => machines::qemu(),
        Capability::Kvm => kernel::kvm(),
        Capability::Proxmox => machines::proxmox(surroundings),
    }
}

/// Runs a probe on a thread of its own, which is left behind if it hangs: name resolution, for one, has no deadline.
fn start<T: Send + 'static>(probe: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    // Where no thread can be started, the closed channel says that the probe failed.
    let _ = thread::Builder::new().name("probe".into()).spawn(move || {
        // Nobody listens any more if the deadline has passed.
        let _ = sender.send(probe());
    });
    receiver
}

/// The answer, or why there is none.
fn within<T>(answer: &mpsc::Receiver<T>, end: Instant) -> Result<T, Finding> {
    answer.recv_timeout(end.saturating_duration_since(Instant::now())).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => Finding::unknown(format!("the probe did not end within {DEADLINE:?}")),
        mpsc::RecvTimeoutError::Disconnected => Finding::unknown("the probe failed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Status;

    #[test]
    fn every_capability_has_a_finding_and_what_is_missing_has_a_fix() {
        let facts = facts(&Surroundings::default());
        for capability in Capability::ALL {
            let finding = facts.finding(capability).unwrap();
            assert!(!finding.found.is_empty(), "{capability:?}");
            if finding.status == Status::Missing {
                assert!(finding.fix.is_some(), "{capability:?}: {finding:?}");
            }
        }
    }

    #[test]
    fn a_probe_that_panics_or_hangs_is_unknown() {
        let end = Instant::now() + Duration::from_secs(1);
        let failed = within(&start::<Finding>(|| std::panic::resume_unwind(Box::new("probe"))), end);
        assert_eq!(failed.unwrap_err().status, Status::Unknown);
        let (_held, never) = mpsc::channel::<Finding>();
        assert_eq!(within(&never, end).unwrap_err().status, Status::Unknown);
        let passed = Instant::now();
        assert_eq!(within(&never, end).unwrap_err().status, Status::Unknown);
        assert!(passed.elapsed() < Duration::from_millis(500), "a second probe that hangs has no deadline of its own");
    }
}
