//! Facts from a trial sandbox: it shows failures that the probes of single features miss.

use std::path::Path;

use profile::{Capability, Facts, Finding};
use sandbox::{Trial, TrialError};

use crate::kernel::story;

/// Corrects the findings of the feature probes by the result of the trial.
pub(crate) fn judge(facts: Facts, trial: Result<Trial, Finding>) -> Facts {
    let Trial { sandbox, captured, groups } = match trial {
        Ok(trial) => trial,
        Err(unknown) => {
            return facts.with(Capability::Cgroups, unknown.clone()).with(Capability::UserNamespaces, unknown);
        }
    };
    let cgroups = match groups {
        Ok(place) => Finding::works(format!("memory, pids and cpu ({place})")),
        Err(error) => Finding::missing(story(&error), groups_fix()),
    };
    let mut facts = facts.with(Capability::Cgroups, cgroups);
    if let Err(error) = sandbox {
        facts = blame(facts, part(&error), &error);
    }
    if let Some(Err(error)) = captured {
        facts = blame(facts, Capability::Nftables, &error);
    }
    facts
}

/// Marks a capability as missing, unless its own probe already did with a more specific reason.
fn blame(facts: Facts, capability: Capability, error: &TrialError) -> Facts {
    if !facts.has(capability) {
        return facts;
    }
    let fix = "this kernel refuses what the engine needs: Linux 6.1 or later is supported; otherwise use `sandbox: docker`, and report this line";
    facts.with(capability, Finding::missing(format!("a whole sandbox could not be made: {}", story(error)), fix))
}

/// Maps a failed step to its capability.
fn part(error: &TrialError) -> Capability {
    let about = |words: &[&str]| words.iter().any(|word| error.step.contains(word));
    if about(&["overlay", "layer", "host image"]) {
        Capability::Overlay
    } else if about(&["filter"]) {
        Capability::Seccomp
    } else {
        Capability::UserNamespaces
    }
}

/// The fix for missing control groups on this host.
fn groups_fix() -> String {
    if !Path::new("/run/systemd/system").is_dir() {
        return "run as root; in a container, with a writable /sys/fs/cgroup (docker run --privileged --cgroupns=private)".into();
    }
    "log in with a session of this user's own (ssh, not su); without one: sudo loginctl enable-linger $USER; in a service: \
     Delegate=yes in the unit. systemd is asked by its bus: the packages dbus and dbus-user-session, or their like, are needed"
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works() -> Facts {
        Facts::new(Capability::ALL.map(|capability| (capability, Finding::works("it works"))))
    }

    #[test]
    fn a_sandbox_that_does_not_answer_grants_nothing() {
        let facts = judge(works(), Err(Finding::unknown("the probe did not end")));
        assert!(!facts.has(Capability::UserNamespaces) && !facts.has(Capability::Cgroups));
    }

    /// Where it can be made at all, a sandbox is made, with its limits.
    #[test]
    fn a_sandbox_says_what_its_parts_say() {
        let facts = judge(works(), Ok(sandbox::trial()));
        assert!(facts.has(Capability::UserNamespaces), "{:?}", facts.finding(Capability::UserNamespaces));
        assert!(facts.has(Capability::Overlay) && facts.has(Capability::Nftables));
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        assert!(facts.has(Capability::Cgroups) || !is_root, "{:?}", facts.finding(Capability::Cgroups));
    }
}
