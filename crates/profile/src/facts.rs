//! What a host can enforce, as data. The crate `host` finds it out; this crate only reasons about it.

use std::collections::BTreeMap;

use serde::Serialize;

/// Something a host or one of its providers may be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// User namespaces with all the others inside.
    UserNamespaces,
    /// An overlay file system mounted in a user namespace.
    Overlay,
    /// System-call filters.
    Seccomp,
    /// Control groups that we may create, with memory, pids and cpu.
    Cgroups,
    /// A range of ids of its own for every sandbox.
    IdRanges,
    /// Redirect rules in a network namespace of our own.
    Nftables,
    /// Landlock.
    Landlock,
    /// A Docker daemon.
    Docker,
    /// The Docker daemon is on this machine: it has this machine's files, and sockets of its containers can be passed to us.
    DockerHere,
    /// The Docker daemon bounds memory, processes and cpu.
    DockerLimits,
    /// The Docker daemon gives containers ids of their own.
    DockerIds,
    /// A Kubernetes cluster.
    Kubernetes,
    /// QEMU's system emulator.
    Qemu,
    /// Hardware virtualisation that runs a guest.
    Kvm,
    /// A Proxmox VE server.
    Proxmox,
}

impl Capability {
    /// Every capability, in the order in which `doctor` shows them.
    pub const ALL: [Self; 15] = [
        Self::UserNamespaces,
        Self::Overlay,
        Self::Seccomp,
        Self::Cgroups,
        Self::IdRanges,
        Self::Nftables,
        Self::Landlock,
        Self::Docker,
        Self::DockerHere,
        Self::DockerLimits,
        Self::DockerIds,
        Self::Kubernetes,
        Self::Qemu,
        Self::Kvm,
        Self::Proxmox,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserNamespaces => "user namespaces",
            Self::Overlay => "overlay in a user namespace",
            Self::Seccomp => "seccomp filters",
            Self::Cgroups => "cgroup limits",
            Self::IdRanges => "id ranges",
            Self::Nftables => "redirect rules in an own netns",
            Self::Landlock => "Landlock",
            Self::Docker => "Docker",
            Self::DockerHere => "Docker on this machine",
            Self::DockerLimits => "limits of Docker",
            Self::DockerIds => "Docker with ids of its own",
            Self::Kubernetes => "Kubernetes",
            Self::Qemu => "QEMU",
            Self::Kvm => "KVM",
            Self::Proxmox => "Proxmox VE",
        }
    }

    /// What having it makes possible.
    pub fn enables(self) -> &'static str {
        match self {
            Self::UserNamespaces => "H1 on the embedded engine",
            Self::Overlay => "H1 on the embedded engine: a fresh file system per sandbox",
            Self::Seccomp => "H1 on the embedded engine: the system-call allow-list",
            Self::Cgroups => "limits of memory, processes and cpu",
            Self::IdRanges => "root in a sandbox that is no user of the host",
            Self::Nftables => "N0 and N1 at H1, and a record of what N2 refuses",
            Self::Landlock => "a second fence around files",
            Self::Docker => "H1 with `sandbox: docker`",
            Self::DockerHere => "`sandbox: docker` with mounts, and a network at full speed",
            Self::DockerLimits => "limits of memory, processes and cpu with `sandbox: docker`",
            Self::DockerIds => "root in a Docker container that is nobody outside",
            Self::Kubernetes => "H2",
            Self::Qemu => "H3 with `sandbox: qemu`",
            Self::Kvm => "virtual machines at full speed and strength",
            Self::Proxmox => "H3 with `sandbox: proxmox`",
        }
    }
}

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was done, and it worked.
    Works,
    /// It was tried, and it did not.
    Missing,
    /// It could not be found out in time; counts as missing.
    Unknown,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it ended.
    pub status: Status,
    /// What was found, in one line.
    pub found: String,
    /// How to get what is missing.
    pub fix: Option<String>,
}

impl Finding {
    /// Something that works.
    pub fn works(found: impl Into<String>) -> Self {
        Self { status: Status::Works, found: found.into(), fix: None }
    }

    /// Something that does not, and what to do about it.
    pub fn missing(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Missing, found: found.into(), fix: Some(fix.into()) }
    }

    /// Something that could not be found out.
    pub fn unknown(found: impl Into<String>) -> Self {
        Self { status: Status::Unknown, found: found.into(), fix: None }
    }
}

/// What one host can enforce. A capability without a finding counts as missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Facts {
    findings: BTreeMap<Capability, Finding>,
}

impl Facts {
    /// Facts from findings.
    pub fn new(findings: impl IntoIterator<Item = (Capability, Finding)>) -> Self {
        Self { findings: findings.into_iter().collect() }
    }

    /// A host that can do everything: for checking a document that is meant for another machine.
    pub fn assumed() -> Self {
        Self::new(Capability::ALL.map(|capability| (capability, Finding::works("assumed"))))
    }

    /// The same host with another finding of one capability.
    #[must_use]
    pub fn with(mut self, capability: Capability, finding: Finding) -> Self {
        self.findings.insert(capability, finding);
        self
    }

    /// Whether the capability was shown to work.
    pub fn has(&self, capability: Capability) -> bool {
        self.finding(capability).is_some_and(|finding| finding.status == Status::Works)
    }

    /// What was found of it.
    pub fn finding(&self, capability: Capability) -> Option<&Finding> {
        self.findings.get(&capability)
    }

    /// All findings.
    pub fn iter(&self) -> impl Iterator<Item = (Capability, &Finding)> {
        self.findings.iter().map(|(capability, finding)| (*capability, finding))
    }
}
