//! Which control each mutation takes away, and the probe that sees it first of all.

use std::fmt::Write as _;

use mutation::Mutation;
use verify::Control;

/// Who can be the runner of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// Root, and a plain user.
    All,
    /// Only root: a plain user has no such control, or no right to take it away.
    Root,
}

/// What is shown where a control is gone.
pub(crate) struct Row {
    pub(crate) mutation: Mutation,
    pub(crate) control: Control,
    /// One of the control's probes that must fail.
    pub(crate) probe: &'static str,
    pub(crate) users: Users,
}

/// What verification must say of a mutation.
pub(crate) fn row(mutation: Mutation) -> Row {
    use Users::{All, Root};
    let (control, probe, users) = match mutation {
        Mutation::NoSeccomp => (Control::Syscalls, "filter_mode", All),
        Mutation::DangerousCall => (Control::Syscalls, "calls_keys", All),
        Mutation::SocketFilter => (Control::Syscalls, "calls_filters", All),
        Mutation::KeptCapability => (Control::Capabilities, "capabilities", All),
        Mutation::NewPrivs => (Control::NoNewPrivs, "no_new_privs", All),
        Mutation::HostMount => (Control::Files, "host_file", All),
        Mutation::LeakedDescriptor => (Control::Descriptors, "descriptors", All),
        Mutation::HostPid => (Control::PidNamespace, "runner_process", All),
        Mutation::HostIpc => (Control::IpcNamespace, "shared_memory", All),
        Mutation::HostUts => (Control::UtsNamespace, "host_name", All),
        Mutation::HostCgroup => (Control::CgroupNamespace, "namespace_cgroup", All),
        Mutation::HostNetwork => (Control::NetNamespace, "host_loopback", All),
        // Only root may put an interface into the host's network.
        Mutation::Uplink => (Control::Uplink, "interfaces", Root),
        Mutation::ResolverForwards => (Control::Resolver, "query_outside", All),
        Mutation::NoSniCheck => (Control::Sni, "sni_other", All),
        Mutation::NoHostCheck => (Control::HostHeader, "host_other", All),
        Mutation::PrivateAnswers => (Control::PrivateAnswers, "private_name", All),
        Mutation::MetadataReachable => (Control::Metadata, "metadata_name", All),
        Mutation::UdpOpen => (Control::Udp, "udp", All),
        Mutation::Ipv6Open => (Control::Ipv6, "ipv6", All),
        // A plain user without delegated groups has no such limits, and the plan says so.
        Mutation::NoMemoryLimit => (Control::Memory, "limit_memory", Root),
        Mutation::NoPidsLimit => (Control::Pids, "limit_pids", Root),
        Mutation::NoDiskLimit => (Control::Disk, "limit_disk", All),
        Mutation::WritableProcSys => (Control::ProcSys, "proc_sys_mount", All),
        Mutation::DeviceNode => (Control::Devices, "devices", All),
        // A plain user's sandboxes have the user's own id, and no right to another.
        Mutation::HostIds => (Control::Ids, "host_root", Root),
        Mutation::GuestTraceable => (Control::Guest, "guest_files", All),
    };
    Row { mutation, control, probe, users }
}

/// The table of docs/verify.md.
pub(crate) fn documented() -> String {
    let mut table = String::from("| mutation | what is so then | control that fails | seen by |\n|---|---|---|---|\n");
    for Row { mutation, control, probe, .. } in Mutation::ALL.iter().copied().map(row) {
        let what = mutation.describe();
        let _ = writeln!(table, "| `{}` | {what} | `{}` | `{probe}` |", mutation.id(), control.id());
    }
    table
}
