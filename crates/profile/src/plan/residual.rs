//! What remains, what is recorded, and what is worth knowing: said in every plan.

use super::{Image, KernelBoundary, Pin, Plan, Residual, ZonePlan};
use crate::affordance::{Kind, Runs, Sensitivity};
use crate::catalogue::standard_tool;
use crate::document::Provider;
use crate::level::{Isolation, Network, Tooling};
use crate::pattern::HostPattern;
use crate::rules::{Egress, Port};
use crate::settings::Request;

fn residual(id: &'static str, text: impl Into<String>) -> Residual {
    Residual { id, text: text.into() }
}

/// The risks that stay although all controls of `plan` hold.
pub(super) fn remaining(plan: &Plan) -> Vec<Residual> {
    let mut all = boundary(plan);
    if matches!(plan.provider, Provider::K8s | Provider::Proxmox | Provider::Qemu) {
        all.push(residual(
            "records_can_be_suppressed",
            "root inside may bypass the relay's record of refused attempts: no record is not no attempt",
        ));
    }
    if plan.provider == Provider::Docker {
        all.extend(docker());
    }
    all.extend(network(plan));
    for (what, image) in images(plan) {
        if image.pin == Pin::Unpinned {
            all.push(residual(
                "unpinned_image",
                format!(
                    "{what} image `{}` is not pinned: its content is whatever is there at the start",
                    image.reference
                ),
            ));
        }
    }
    if plan.allow_setuid {
        // Who that root is outside is a residual of its own where it is not nobody.
        let outside = match (plan.provider, plan.controls.iter().any(|control| control.id == "host.ids")) {
            (Provider::Container, true) => ", which is nobody outside",
            (Provider::Container, false) => ", which is the user who runs the sandbox outside",
            _ => "",
        };
        all.push(residual(
            "setuid_programs",
            format!("setuid programs work inside: a plain user there can become root there{outside}"),
        ));
    }
    if let Some(config) = &plan.provider_config {
        all.push(residual(
            "unbound_configuration",
            format!("`{config}` is read when the sandbox starts: this plan and its hash do not hold its content"),
        ));
    }
    if let (Some(runtime), false) = (&plan.runtime, plan.kernel_boundary == KernelBoundary::Shared) {
        all.push(residual(
            "runtime_is_believed",
            format!(
                "the kernel boundary rests on the name of the runtime `{}` until it is probed from inside",
                runtime.0
            ),
        ));
    }
    if plan.kernel_boundary == KernelBoundary::UserSpace {
        all.push(residual(
            "kernel_of_the_runtime",
            "the runtime's own kernel shows its own /proc, /sys and /dev and lets root inside change its settings and end the guest, and with it the sandbox; so does whoever uses more memory or processes than the limits"
                .to_owned(),
        ));
    }
    for affordance in &plan.affordances {
        let name = &affordance.name;
        if affordance.kind == Kind::Tool && standard_tool(name).is_none() {
            all.push(residual(
                "declared_tool",
                format!("what `{name}` does, where it runs and what it reaches is what the document says of it"),
            ));
        }
        match (affordance.kind, affordance.runs) {
            (Kind::Mount, _) if affordance.sensitivity == Sensitivity::Sensitive => {
                all.push(residual(
                    "writable_mount",
                    format!("the agent can change host files through the mount {name}"),
                ));
            }
            (Kind::Environment, _) => {
                all.push(residual("visible_environment", format!("the agent can read the value of {name}")));
            }
            (Kind::Tool, Runs::Host) if affordance.reach != crate::affordance::Reach::Nothing => {
                all.push(residual(
                    "outside_the_sandbox",
                    format!("`{name}` runs on the host and reaches {}", affordance.reach),
                ));
            }
            (Kind::Tool, Runs::Provider) => {
                all.push(residual(
                    "outside_the_sandbox",
                    format!(
                        "`{name}` runs at the model provider and reaches {}: what the agent does and reaches through it is \
                         neither enforced nor seen by us, and recorded only as far as the provider tells",
                        affordance.reach
                    ),
                ));
            }
            (Kind::Mount, _) | (Kind::Tool, Runs::Sandbox | Runs::Host) => {}
        }
    }
    all
}

/// Said where the operator allowed it: mounts and `dir:` images are not searched for keys.
pub(super) fn mounted_secrets(request: &Request, plan: &Plan) -> Option<Residual> {
    let has_mounts = plan.affordances.iter().any(|affordance| affordance.kind == Kind::Mount)
        || plan.services.values().any(|service| !service.mounts.is_empty());
    let has_directory = plan.image.as_ref().is_some_and(|image| image.reference.starts_with("dir:"));
    (request.dangerously_mount_secrets && (has_mounts || has_directory)).then(|| {
        residual(
            "mounted_secrets",
            "the agent can read every credential in its mounts and in a `dir:` image: --dangerously-mount-secrets allows homes and keys",
        )
    })
}

/// Risks of what stands between the agent and the host.
fn boundary(plan: &Plan) -> Vec<Residual> {
    let mut all = Vec::new();
    if plan.profile.isolation == Isolation::H0 {
        all.push(residual("no_isolation", "the agent's code has the runner's files, processes and network"));
    } else if plan.kernel_boundary == KernelBoundary::Shared {
        all.push(residual(
            "shared_kernel",
            "a flaw in the shared kernel that an allowed system call reaches would end the isolation",
        ));
        all.push(residual(
            "shared_pools",
            "sandboxes share with the host what no control group bounds: file locks, orphaned TCP sockets, disk bandwidth, the kernel's \
             log, open files where fs.file-max is low, descriptors in flight before Linux 6.10, committed memory where \
             vm.overcommit_memory is 2, requests for binfmt modules before Linux 6.14; and /proc shows the host's load, memory and counts of open files \
             (docs/security/kernel-pools.md)",
        ));
    }
    all
}

/// What the embedded engine does and the Docker Engine does not.
fn docker() -> [Residual; 6] {
    [
        residual(
            "terminals_unbounded",
            "the Engine bounds no container's pseudo-terminals: one can take all that the machine has",
        ),
        residual(
            "socket_buffers_unbounded",
            "where the daemon's machine has version 1 control groups, the Engine bounds no container's TCP buffers: one can take all \
             that the machine allows for TCP (net.ipv4.tcp_mem)",
        ),
        residual("no_second_fence", "without Landlock the mount namespace is the only fence around files"),
        residual(
            "engine_paths_shown",
            "the list of mounts shows where the Engine keeps its files on its machine, and nothing of them",
        ),
        residual(
            "engine_is_trusted",
            "whoever can ask the Docker daemon is root on its machine: the Engine and the runner are trusted",
        ),
        residual(
            "builds_unfenced",
            "what the Engine builds an image from runs with the Engine's own network, before anything of this plan holds",
        ),
    ]
}

fn images(plan: &Plan) -> impl Iterator<Item = (String, &Image)> {
    let own = plan.image.iter().map(|image| ("the agent's".to_owned(), image));
    own.chain(plan.services.iter().map(|(name, service)| (format!("the service {name}'s"), &service.image)))
}

fn zones(plan: &Plan) -> impl Iterator<Item = (String, &ZonePlan)> {
    let phases = plan.network.phases.iter().map(|(name, zone)| ((*name).to_owned(), zone));
    phases.chain(plan.services.iter().map(|(name, service)| (format!("service {name}"), &service.network)))
}

fn network(plan: &Plan) -> Vec<Residual> {
    let mut all = Vec::new();
    if zones(plan).any(|(_, zone)| zone.level == Network::N1) {
        all.push(residual(
            "inside_tls",
            "N1 does not look inside TLS: Host and :authority are not checked there, so domain fronting and HTTP/2 coalescing on an allowed name stay possible",
        ));
        all.push(residual(
            "allowed_hosts_carry_data",
            "whatever an allowed host accepts can carry data out, and its answers carry data in",
        ));
    }
    let listed = || {
        zones(plan).filter_map(|(name, zone)| match &zone.egress {
            Egress::Listed { rules } => Some((name, rules)),
            Egress::Everything { .. } | Egress::Nothing => None,
        })
    };
    if listed().any(|(_, rules)| rules.allow.iter().any(|rule| matches!(rule.port, Port::RawTcp(_) | Port::WebSocket)))
    {
        all.push(residual("raw_tcp", "bytes on raw TCP rules are not checked"));
    }
    if listed().any(|(_, rules)| !rules.allow_cidr.is_empty()) {
        all.push(residual(
            "raw_addresses",
            "connections to listed address ranges carry no name, and their bytes are not checked",
        ));
    }
    if listed().any(|(_, rules)| !rules.allow_private_answers.is_empty()) {
        all.push(residual(
            "private_answers",
            "some names may resolve to private addresses: whoever answers for them chooses the host",
        ));
    }
    if listed().any(|(_, rules)| rules.allow.iter().any(|rule| matches!(rule.hosts, HostPattern::Below(_)))) {
        all.push(residual(
            "wildcard_labels",
            "names below a wildcard can carry data in their labels, within the resolver's caps",
        ));
    }
    if zones(plan).any(|(_, zone)| zone.level == Network::N0) {
        all.push(if plan.profile.isolation == Isolation::H0 {
            residual("full_network", "anything may leave, by any protocol, and nothing is recorded")
        } else {
            residual("full_network", "anything may leave over TCP; UDP and ICMP are not carried")
        });
    }
    if plan.controls.iter().any(|control| control.id == "network.capture") {
        all.push(residual(
            "datagrams_unrecorded",
            "datagrams other than DNS queries are dropped where nothing sees them: attempts leave no record",
        ));
    }
    if zones(plan).any(|(_, zone)| matches!(&zone.egress, Egress::Everything { rules } if !rules.deny.is_empty())) {
        all.push(residual(
            "denied_names_have_addresses",
            "at N0 a denied name is not resolved, but its address can be connected to; deny the range too",
        ));
    }
    for (name, zone) in zones(plan) {
        if zone.level < plan.profile.network {
            all.push(residual("weaker_phase", format!("the phase {name} has {}, weaker than the profile; its processes and connections end before the agent starts", zone.level)));
        }
    }
    all
}

/// What goes into the log of a run of this plan.
pub(super) fn recorded(plan: &Plan) -> Vec<String> {
    let mut all = vec![
        "this plan and its SHA-256".to_owned(),
        "every affordance, granted or withheld, with the reason".to_owned(),
        match plan.image.as_ref().map(|image| image.pin) {
            Some(Pin::Digest | Pin::AtStart) | None => "the image's digest".to_owned(),
            Some(Pin::Unpinned) => "the image's source, marked as unpinned".to_owned(),
        },
        "limits that were reached".to_owned(),
    ];
    if plan.affordances.iter().any(|affordance| affordance.kind == Kind::Tool) {
        all.push("every tool call and its approval".to_owned());
    }
    if plan.affordances.iter().any(|affordance| affordance.runs == Runs::Provider) {
        all.push("what the model provider tells of its own tools' calls, after they were made".to_owned());
    }
    if plan.profile.isolation > Isolation::H0 && plan.controls.iter().any(|control| control.id == "network.capture") {
        all.push("every DNS query, connection and refusal".to_owned());
    }
    all
}

/// Things worth knowing that change nothing.
pub(super) fn notes(plan: &Plan) -> Vec<String> {
    let mut all = Vec::new();
    if plan.profile.tooling == Tooling::T2 && plan.profile.isolation > Isolation::H0 {
        all.push("T2 has no tools, so the sandbox has nothing of the agent's to isolate".to_owned());
    }
    if plan.profile.isolation == Isolation::H2 && plan.kernel_boundary == KernelBoundary::Shared {
        all.push("H is a place, not a strength: a pod on runc is no stronger against the kernel than H1; name a runtime (gvisor, kata) for more".to_owned());
    }
    let agent = plan.network.phases.get("agent");
    if plan.profile.network == Network::N1 && agent.is_some_and(|zone| zone.egress == Egress::Nothing) {
        all.push(
            "no name is listed, so nothing may leave: add network.allow_domains (--allow on the command line)"
                .to_owned(),
        );
    }
    if zones(plan).any(|(_, zone)| zone.level == Network::N0) && plan.profile.isolation > Isolation::H0 {
        all.push("N0 allows every name that is not denied: lists of allowed names add nothing there".to_owned());
    }
    all
}
