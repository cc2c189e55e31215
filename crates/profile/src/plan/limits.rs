//! Which limits hold, and by what. A stated limit that nothing holds is refused; a default one is said.

use super::{Control, Residual};
use crate::document::{Limits, Provider, Stated};
use crate::facts::{Capability, Facts};
use crate::refusal::{Cause, Unmet};

/// Limits, what holds them, what that needs.
type Row = (&'static [&'static str], &'static str, &'static [Capability]);

const MEMORY: &str = "limits.memory";
const CPU: &str = "limits.cpu";
const PIDS: &str = "limits.pids";
const DISK: &str = "limits.disk";

/// Held by the runner itself, on every provider.
const BY_THE_RUNNER: Row = (
    &["limits.time", "limits.tool_timeout", "limits.output", "limits.file_size"],
    "the runner's own clock and counters",
    &[],
);

fn rows(provider: Provider) -> &'static [Row] {
    match provider {
        Provider::Local => &[BY_THE_RUNNER],
        Provider::Container => &[
            BY_THE_RUNNER,
            (&[MEMORY, CPU, PIDS], "control group per sandbox, swap off", &[Capability::Cgroups]),
            (&[DISK], "size and inode limit of the writable layer", &[]),
        ],
        Provider::Docker => {
            &[BY_THE_RUNNER, (&[MEMORY, CPU, PIDS], "limits of the container, swap off", &[Capability::DockerLimits])]
        }
        Provider::K8s => &[
            BY_THE_RUNNER,
            (&[MEMORY, CPU, DISK], "limits equal to requests, of ephemeral storage too", &[Capability::Kubernetes]),
        ],
        Provider::Proxmox => &[BY_THE_RUNNER, (&[MEMORY, CPU, DISK], "the machine's own size", &[Capability::Proxmox])],
        Provider::Qemu => &[BY_THE_RUNNER, (&[MEMORY, CPU, DISK], "the machine's own size", &[Capability::Qemu])],
    }
}

/// What holds of the limits on one provider and host.
pub(super) fn enforce(provider: Provider, facts: &Facts, limits: &Limits) -> (Vec<Control>, Vec<Residual>, Vec<Unmet>) {
    let (mut controls, mut unmet, mut unbounded) = (Vec::new(), Vec::new(), Vec::new());
    let held: Vec<&Row> =
        rows(provider).iter().filter(|(_, _, needs)| needs.iter().all(|need| facts.has(*need))).collect();
    for (limits, mechanism, _) in &held {
        let names: Vec<&str> = limits.iter().map(|limit| short(limit)).collect();
        controls.push(Control {
            id: "limits",
            promise: format!("{} bounded: {}", if names.len() == 1 { "is" } else { "are" }, names.join(", ")),
            mechanism: (*mechanism).into(),
        });
    }
    for (limit, _, stated) in limits.entries() {
        if held.iter().any(|(limits, ..)| limits.contains(&limit)) {
            continue;
        }
        if stated == Stated::Nowhere {
            unbounded.push(short(limit));
            continue;
        }
        let lacking = rows(provider)
            .iter()
            .find(|(limits, ..)| limits.contains(&limit))
            .and_then(|(_, _, needs)| needs.iter().find(|need| !facts.has(**need)));
        let finding = lacking.and_then(|lacking| facts.finding(*lacking));
        let why = match (lacking, finding) {
            (Some(lacking), Some(finding)) => format!("needs {}, but: {}", lacking.name(), finding.found),
            (Some(lacking), None) => format!("needs {}", lacking.name()),
            (None, _) => format!("`sandbox: {provider}` has nothing that holds it"),
        };
        let mut obstacle =
            Unmet::new(Cause::Unenforceable, limit, format!("`{limit}` is stated: {why}")).at(stated.place());
        obstacle.hint = finding
            .and_then(|finding| finding.fix.clone())
            .or_else(|| Some("remove it, or choose another sandbox".into()));
        unmet.push(obstacle);
    }
    let residual = (!unbounded.is_empty()).then(|| Residual {
        id: "unbounded",
        text: format!("nothing bounds {}: one sandbox can exhaust the machine that it runs on", unbounded.join(", ")),
    });
    (controls, residual.into_iter().collect(), unmet)
}

fn short(limit: &'static str) -> &'static str {
    limit.trim_start_matches("limits.")
}
