//! The controls of every provider as a table: what holds, what makes it hold, what the host must be able to do.

use std::collections::BTreeSet;

use super::{Control, KernelBoundary, Residual};
use crate::document::{Provider, Runtime};
use crate::facts::{Capability, Facts};
use crate::level::Network;
use crate::refusal::{Cause, Unmet};

use Capability::{
    Docker, DockerHere, DockerIds, IdRanges, Kubernetes, Kvm, Landlock, Nftables, Overlay, Proxmox, Qemu, Seccomp,
    UserNamespaces,
};

/// What follows when the host lacks what a control needs.
enum Lost {
    /// The profile cannot be had.
    Refuse,
    /// The profile holds without it; this remains.
    Remains(&'static str, &'static str),
}

/// One row: id, promise, mechanism, needs, what follows without.
struct Row(&'static str, &'static str, &'static str, &'static [Capability], Lost);

use Lost::{Refuse, Remains};

const LOCAL: &[Row] = &[
    Row(
        "process.environment",
        "only granted environment entries are set",
        "the environment is built from nothing",
        &[],
        Refuse,
    ),
    Row("process.tree", "a timeout ends the whole command", "own process group and rlimits", &[], Refuse),
];

const CONTAINER: &[Row] = &[
    Row(
        "host.namespaces",
        "host processes, users, IPC and names are not visible",
        "user, pid, mount, net, ipc, uts and cgroup namespaces",
        &[UserNamespaces],
        Refuse,
    ),
    Row(
        "host.files",
        "no host file is visible but the image and the mounts",
        "overlay root, pivot_root, the old root detached",
        &[UserNamespaces, Overlay],
        Refuse,
    ),
    Row(
        "host.privileges",
        "few capabilities, none to be gained",
        "host uid 0 never mapped, capabilities dropped, no_new_privs",
        &[UserNamespaces],
        Refuse,
    ),
    Row(
        "host.ids",
        "root inside is nobody outside, and shares no count of kernel objects with a user of the host",
        "own id range, by whose first id the user namespace is created",
        &[IdRanges],
        Remains(
            "user_is_user",
            "root inside is the user who runs the sandbox: what it leaves in writable mounts is that user's, and so are the \
             inotify instances, queued signals, timers, epoll watches and pipe buffers that it can use up",
        ),
    ),
    Row(
        "host.syscalls",
        "only known system calls reach the kernel, and none that takes from a pool of the whole host without a bound",
        "seccomp allow-list",
        &[Seccomp],
        Refuse,
    ),
    Row(
        "host.second_fence",
        "files stay out of reach even if a mount leaks",
        "Landlock",
        &[Landlock],
        Remains("no_second_fence", "without Landlock the mount namespace is the only fence around files"),
    ),
    Row(
        "lifecycle.cleanup",
        "a killed runner leaves nothing behind",
        "a helper that outlives the runner ends what it started",
        &[],
        Refuse,
    ),
];

const DOCKER: &[Row] = &[
    Row(
        "host.namespaces",
        "host processes, IPC and names are not visible",
        "a container of the Docker Engine for each sandbox, never privileged, never with its socket",
        &[Docker],
        Refuse,
    ),
    Row(
        "host.files",
        "no host file is visible but the image and the mounts",
        "the Engine's root; what the kernel says of the host is masked",
        &[Docker],
        Refuse,
    ),
    Row(
        "host.privileges",
        "few capabilities, none to be gained",
        "all but ten capabilities dropped before the guest starts, no-new-privileges",
        &[Docker],
        Refuse,
    ),
    Row(
        "host.ids",
        "root inside is nobody outside",
        "ids of its own, given by the Engine",
        &[DockerIds],
        Remains(
            "root_is_root",
            "root in the container has the number of root on the daemon's machine: what it leaves in writable mounts is root's, \
             a flaw in the kernel meets root, and the inotify instances, epoll watches and pipe buffers that it can use up are root's",
        ),
    ),
    Row(
        "host.syscalls",
        "only known system calls reach the kernel, and none that takes from a pool of the whole host without a bound",
        "our seccomp allow-list, loaded before the guest starts, beside the Engine's own",
        &[Docker],
        Refuse,
    ),
    Row(
        "lifecycle.cleanup",
        "a killed runner leaves nothing behind",
        "the end of its stream ends the container, and the Engine removes it; `sandbox cleanup` removes what never started",
        &[Docker],
        Refuse,
    ),
];

const K8S: &[Row] = &[
    Row(
        "host.namespaces",
        "the runner's machine is not involved",
        "one pod per sandbox in the cluster",
        &[Kubernetes],
        Refuse,
    ),
    Row(
        "host.privileges",
        "few capabilities, no service account",
        "restricted security context, token not mounted",
        &[Kubernetes],
        Refuse,
    ),
];

const PROXMOX: &[Row] = &[Row(
    "host.kernel",
    "the agent has a kernel of its own",
    "virtual machine cloned from a template",
    &[Proxmox],
    Refuse,
)];

const QEMU: &[Row] = &[
    Row("host.kernel", "the agent has a kernel of its own", "virtual machine under QEMU", &[Qemu], Refuse),
    Row(
        "host.virtualisation",
        "the processor keeps the machines apart",
        "KVM",
        &[Kvm],
        Remains("emulated_machine", "without KVM the machine is emulated: good for tests, not for hostile agents"),
    ),
];

/// The network's rows: absence, then capture, then the check of names.
fn network_rows(provider: Provider, boundary: KernelBoundary, levels: &BTreeSet<Network>, facts: &Facts) -> Vec<Row> {
    let (absent, capture, needs_absent, needs_capture): (_, _, &[Capability], &[Capability]) = match provider {
        Provider::Local => return Vec::new(),
        Provider::Container => (
            "own network namespace with only loopback",
            "redirect rules inside; listeners passed to the gateway outside",
            &[UserNamespaces],
            &[UserNamespaces, Nftables],
        ),
        Provider::Docker if facts.has(DockerHere) && boundary != KernelBoundary::Own => (
            "every container has `network: none`",
            "redirect rules, made inside before the guest starts; listeners passed to the gateway outside",
            &[Docker],
            &[Docker, Nftables],
        ),
        // What that machine's kernel can do is seen when the entry process tries: where it cannot, nothing starts.
        Provider::Docker => (
            "every container has `network: none`",
            "redirect rules, made inside before the guest starts; the guest relays over its control stream",
            &[Docker],
            &[Docker],
        ),
        Provider::K8s => (
            "default-deny policy, observed to hold before the workload starts",
            "the guest relays over its control stream",
            &[Kubernetes],
            &[Kubernetes],
        ),
        Provider::Proxmox => ("no network card", "the guest relays over its control stream", &[Proxmox], &[Proxmox]),
        Provider::Qemu => ("no network card", "the guest relays over its control stream", &[Qemu], &[Qemu]),
    };
    let mut rows = vec![Row("network.absent", "there is no way out but the gateway", absent, needs_absent, Refuse)];
    // One capture serves all levels; only where nothing but N2 occurs can a sandbox do without it.
    rows.push(if levels.iter().any(|level| *level < Network::N2) {
        Row(
            "network.capture",
            "every TCP connection and DNS query lands at the gateway",
            capture,
            needs_capture,
            Refuse,
        )
    } else {
        Row(
            "network.capture",
            "every attempt is refused and recorded",
            capture,
            needs_capture,
            Remains("attempts_unrecorded", "without redirect rules attempts to leave fail, and leave no record"),
        )
    });
    if levels.iter().any(|level| *level < Network::N2) {
        rows.push(Row(
            "network.never",
            "metadata services, private hosts and the runner's own addresses stay out of reach, but for listed ones",
            "the gateway connects only to globally reachable addresses that are not its own",
            &[],
            Refuse,
        ));
    }
    rows.extend(levels.iter().filter_map(|level| match level {
        Network::N0 => None,
        Network::N1 => Some(Row(
            "network.names",
            "at N1 only listed names are resolved and reached: web ports by TLS with that SNI or HTTP with that Host",
            "the gateway's resolver, ClientHello and request checks",
            &[],
            Refuse,
        )),
        Network::N2 => Some(Row(
            "network.nothing",
            "at N2 no name resolves and nothing is reached",
            "the gateway's list is empty",
            &[],
            Refuse,
        )),
    }));
    rows
}

/// What the table gives for one provider on one host.
#[derive(Default)]
pub(super) struct Enforcement {
    pub(super) controls: Vec<Control>,
    pub(super) residual: Vec<Residual>,
    pub(super) unmet: Vec<Unmet>,
}

/// Looks up every control of `provider` for the network levels that occur.
pub(super) fn enforce(
    provider: Provider,
    boundary: KernelBoundary,
    levels: &BTreeSet<Network>,
    facts: &Facts,
) -> Enforcement {
    let rows = match provider {
        Provider::Local => LOCAL,
        Provider::Container => CONTAINER,
        Provider::Docker => DOCKER,
        Provider::K8s => K8S,
        Provider::Proxmox => PROXMOX,
        Provider::Qemu => QEMU,
    };
    let mut result = Enforcement::default();
    for row in rows.iter().chain(&network_rows(provider, boundary, levels, facts)) {
        match (row.0, boundary) {
            ("network.capture", KernelBoundary::UserSpace) => result.add_without_rules(row),
            _ => result.add(row, facts),
        }
    }
    if let (Provider::Local, Some(level)) = (provider, levels.iter().max().filter(|level| **level > Network::N0)) {
        result.unmet.push(
            Unmet::new(
                Cause::Unenforceable,
                "network.absent",
                format!("a local process shares the host's network, so H0 cannot enforce {level}"),
            )
            .hint("choose H1 or above; weaker: N0, with a justification"),
        );
    }
    result
}

impl Enforcement {
    /// A kernel in user space has no redirect rules: what needs them is refused, or attempts go unseen.
    fn add_without_rules(&mut self, Row(id, promise, _, _, lost): &Row) {
        match lost {
            Refuse => self.unmet.push(
                Unmet::new(
                    Cause::Unenforceable,
                    *id,
                    format!("{promise}: needs redirect rules, but: the runtime's own kernel has none"),
                )
                .hint("choose N2, or the runtime kata; weaker: the runtime runc"),
            ),
            Remains(residual, text) => self.residual.push(Residual { id: residual, text: (*text).into() }),
        }
    }

    fn add(&mut self, Row(id, promise, mechanism, needs, lost): &Row, facts: &Facts) {
        let Some(&lacking) = needs.iter().find(|&&need| !facts.has(need)) else {
            self.controls.push(Control { id, promise: (*promise).into(), mechanism: (*mechanism).into() });
            return;
        };
        let finding = facts.finding(lacking);
        let found = finding.map_or("not probed", |finding| finding.found.as_str());
        let mut unmet =
            Unmet::new(Cause::Unenforceable, *id, format!("{promise}: needs {}, but: {found}", lacking.name()));
        unmet.hint = finding.and_then(|finding| finding.fix.clone());
        match lost {
            Refuse => self.unmet.push(unmet),
            Remains(residual, text) => self.residual.push(Residual { id: residual, text: (*text).into() }),
        }
    }
}

/// Which kernel stands between, by provider and runtime. An unknown runtime counts as the weakest.
pub(super) fn kernel_boundary(provider: Provider, runtime: Option<&Runtime>) -> KernelBoundary {
    match provider {
        Provider::Local | Provider::Container => KernelBoundary::Shared,
        Provider::Docker | Provider::K8s => match runtime.map(|runtime| runtime.0.as_str()) {
            Some("runsc" | "gvisor") => KernelBoundary::UserSpace,
            Some(name) if name == "kata" || name.starts_with("kata-") => KernelBoundary::Own,
            Some(_) | None => KernelBoundary::Shared,
        },
        Provider::Proxmox | Provider::Qemu => KernelBoundary::Own,
    }
}
