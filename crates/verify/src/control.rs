//! What can be taken away: one name for each control that a probe tests. Stable: reports, and tests that take a control
//! away, name them.

use serde::Serialize;

macro_rules! controls {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal in $plan:literal,)*) => {
        /// A control that a probe tests.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Control {
            $($(#[doc = $doc])+ #[serde(rename = $id)] $name,)*
        }

        impl Control {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its stable name.
            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// The control of a plan that promises it.
            pub fn promised_by(self) -> &'static str {
                match self { $(Self::$name => $plan,)* }
            }

            /// What holds, in a few words.
            pub fn describe(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

controls! {
    /// processes of the host do not exist inside
    PidNamespace = "pid_namespace" in "host.namespaces",
    /// shared memory and queues of the host do not exist inside
    IpcNamespace = "ipc_namespace" in "host.namespaces",
    /// the host's name is not seen
    UtsNamespace = "uts_namespace" in "host.namespaces",
    /// the host's control groups are not seen
    CgroupNamespace = "cgroup_namespace" in "host.namespaces",
    /// the host's network is not the sandbox's
    NetNamespace = "net_namespace" in "network.absent",
    /// no file of the host but the image and the mounts
    Files = "files" in "host.files",
    /// root inside is nobody outside
    Ids = "ids" in "host.privileges",
    /// few capabilities
    Capabilities = "capabilities" in "host.privileges",
    /// none to be gained
    NoNewPrivs = "no_new_privs" in "host.privileges",
    /// only known system calls reach the kernel
    Syscalls = "syscalls" in "host.syscalls",
    /// nothing that is open outside is open inside
    Descriptors = "descriptors" in "host.files",
    /// settings of the kernel cannot be written
    ProcSys = "proc_sys" in "host.files",
    /// what the kernel says of the host is hidden
    KernelInterfaces = "kernel_interfaces" in "host.files",
    /// no device but harmless ones
    Devices = "devices" in "host.files",
    /// the guest cannot be traced, read or ended from inside
    Guest = "guest" in "host.privileges",
    /// the kernel that the plan names stands between
    Kernel = "kernel" in "host.namespaces",
    /// memory is bounded
    Memory = "memory" in "limits",
    /// processes are bounded
    Pids = "pids" in "limits",
    /// what is written is bounded
    Disk = "disk" in "limits",
    /// no core dump reaches a program of the host
    CoreDumps = "core_dumps" in "host.privileges",
    /// open files are bounded
    OpenFiles = "open_files" in "host.privileges",
    /// there is no way out but the gateway
    Uplink = "uplink" in "network.absent",
    /// only listed names are reached
    Names = "names" in "network.names",
    /// addresses without a name are not reached
    RawAddresses = "raw_addresses" in "network.names",
    /// only listed ports of a name are reached
    Ports = "ports" in "network.names",
    /// queries for other names go nowhere
    Resolver = "resolver" in "network.names",
    /// TLS shows the name that it was allowed for
    Sni = "sni" in "network.names",
    /// HTTP shows the name that it was allowed for
    HostHeader = "host_header" in "network.names",
    /// private addresses are not reached, whatever names they have
    PrivateAnswers = "private_answers" in "network.never",
    /// metadata services are not reached, whatever names they have
    Metadata = "metadata" in "network.never",
    /// the runner itself is not reached, whatever names it has
    OwnAddresses = "own_addresses" in "network.never",
    /// datagrams go nowhere
    Udp = "udp" in "network.capture",
    /// ICMP goes nowhere
    Icmp = "icmp" in "network.absent",
    /// IPv6 is as closed as IPv4
    Ipv6 = "ipv6" in "network.capture",
    /// the agent executes only where the level grants it
    Execution = "execution" in "tooling",
    /// what is offered is within what the profile grants
    Affordances = "affordances" in "tooling",
    /// what is offered reaches nothing that the network level forbids
    Reach = "reach" in "tooling",
    /// what runs outside the sandbox executes nothing of the agent's
    Outside = "outside" in "tooling",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique() {
        let ids: BTreeSet<&str> = Control::ALL.iter().map(|control| control.id()).collect();
        assert_eq!(ids.len(), Control::ALL.len());
    }
}
