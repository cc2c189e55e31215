//! Which provider runs a sandbox, and on which container runtime.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::level::Isolation;

/// Something that can start sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// A process on this machine, without isolation.
    Local,
    /// The embedded engine: containers without a daemon.
    Container,
    /// A Docker daemon.
    Docker,
    /// Pods in a Kubernetes cluster.
    K8s,
    /// Virtual machines on a Proxmox VE server.
    Proxmox,
    /// Virtual machines under QEMU.
    Qemu,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 6] = [Self::Local, Self::Container, Self::Docker, Self::K8s, Self::Proxmox, Self::Qemu];

    /// The isolation level that it provides.
    pub fn isolation(self) -> Isolation {
        match self {
            Self::Local => Isolation::H0,
            Self::Container | Self::Docker => Isolation::H1,
            Self::K8s => Isolation::H2,
            Self::Proxmox | Self::Qemu => Isolation::H3,
        }
    }

    /// The provider that a level means when nobody names one.
    pub fn default_for(isolation: Isolation) -> Self {
        match isolation {
            Isolation::H0 => Self::Local,
            Isolation::H1 => Self::Container,
            Isolation::H2 => Self::K8s,
            Isolation::H3 => Self::Proxmox,
        }
    }

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Container => "container",
            Self::Docker => "docker",
            Self::K8s => "k8s",
            Self::Proxmox => "proxmox",
            Self::Qemu => "qemu",
        }
    }

    /// The names of the providers of one level.
    pub fn names_for(isolation: Isolation) -> String {
        let names: Vec<&str> =
            Self::ALL.into_iter().filter(|provider| provider.isolation() == isolation).map(Self::name).collect();
        names.join(" or ")
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that no provider has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown sandbox `{0}`; known are local, container, docker, k8s, proxmox, qemu")]
pub struct ParseProviderError(String);

impl FromStr for Provider {
    type Err = ParseProviderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.name() == text)
            .ok_or_else(|| ParseProviderError(text.to_owned()))
    }
}

/// A provider with its own configuration file, if it has one (`[docker, compose.yaml]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxChoice {
    /// Which provider.
    pub provider: Provider,
    /// Its configuration file.
    pub config: Option<String>,
}

impl From<Provider> for SandboxChoice {
    fn from(provider: Provider) -> Self {
        Self { provider, config: None }
    }
}

/// A container runtime by the name that Docker or Kubernetes knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Runtime(pub String);
