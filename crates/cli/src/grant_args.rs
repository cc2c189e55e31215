//! Operator grants on the command line, shared by every command that starts sandboxes.

use clap::Args;
use profile::Grants;

/// What the operator grants; a document or a log alone cannot.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct GrantArguments {
    /// Let documents run commands on this host without isolation (H0)
    #[arg(long)]
    pub(crate) allow_local: bool,
    /// Let documents have the full network (N0)
    #[arg(long)]
    pub(crate) allow_full_network: bool,
    /// Let documents mount host directories writable
    #[arg(long)]
    pub(crate) allow_writable_mounts: bool,
}

impl From<GrantArguments> for Grants {
    fn from(arguments: GrantArguments) -> Self {
        let GrantArguments { allow_local, allow_full_network, allow_writable_mounts } = arguments;
        Self { local: allow_local, full_network: allow_full_network, writable_mounts: allow_writable_mounts }
    }
}
