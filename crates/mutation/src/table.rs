//! What can be taken away: one name each, stable.

macro_rules! mutations {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal,)*) => {
        /// Something that is taken away.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutation {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Mutation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its stable name.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// What is so with it, in a few words.
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

mutations! {
    /// no system-call filter is loaded
    NoSeccomp = "no-seccomp",
    /// the filter lets `keyctl` through
    DangerousCall = "dangerous-call",
    /// the filter lets sockets have BPF filters
    SocketFilter = "socket-filter",
    /// commands keep `CAP_NET_ADMIN`
    KeptCapability = "kept-capability",
    /// `no_new_privs` is not set
    NewPrivs = "new-privs",
    /// the host's /tmp is mounted over the sandbox's
    HostMount = "host-mount",
    /// a descriptor of the host's root directory reaches commands
    LeakedDescriptor = "leaked-descriptor",
    /// the sandbox is in the host's pid namespace
    HostPid = "host-pid",
    /// the sandbox is in the host's ipc namespace
    HostIpc = "host-ipc",
    /// the sandbox is in the host's uts namespace
    HostUts = "host-uts",
    /// the sandbox sees the host's control groups
    HostCgroup = "host-cgroup",
    /// the sandbox is in the host's network namespace
    HostNetwork = "host-network",
    /// a cable leads from the sandbox's network namespace to the host's
    Uplink = "uplink",
    /// the resolver asks outside before it decides
    ResolverForwards = "resolver-forwards",
    /// TLS need not show the name that it was allowed for
    NoSniCheck = "no-sni-check",
    /// HTTP need not show the name that it was allowed for
    NoHostCheck = "no-host-check",
    /// names may have private addresses
    PrivateAnswers = "private-answers",
    /// names may have the metadata service's address
    MetadataReachable = "metadata-reachable",
    /// datagrams are not dropped, and the gateway forwards them
    UdpOpen = "udp-open",
    /// IPv6 addresses need no rule
    Ipv6Open = "ipv6-open",
    /// memory is not bounded
    NoMemoryLimit = "no-memory-limit",
    /// processes are not bounded
    NoPidsLimit = "no-pids-limit",
    /// what is written is not bounded
    NoDiskLimit = "no-disk-limit",
    /// /proc/sys is not read-only
    WritableProcSys = "writable-proc-sys",
    /// the host's /dev/kmsg is in the sandbox's /dev
    DeviceNode = "device-node",
    /// the host's ids are the sandbox's
    HostIds = "host-ids",
    /// the guest can be traced
    GuestTraceable = "guest-traceable",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let ids: BTreeSet<&str> = Mutation::ALL.iter().map(|mutation| mutation.id()).collect();
        assert_eq!((ids.len(), Mutation::ALL.len()), (27, 27));
    }
}
