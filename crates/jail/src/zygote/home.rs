//! The zygote's own surroundings: a mount namespace with a private place to build in, and what all sandboxes share.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, open};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid, umask};

use super::cradle::Cradle;
use super::inside::Nodes;
use super::snapshot::Snapshots;
use super::{During as _, Trouble, devices, raise_descriptor_limit, synthetic};
use crate::cgroups::Parents;
use crate::syscalls;

/// Where the zygote builds: its own tmpfs over a directory that every Linux has and that is never mounted into a sandbox.
pub(super) const WORKSHOP: &str = "/run";
/// In the workshop: the synthetic part of the image `host`.
pub(super) const SYNTHETIC: &str = "/run/host";
/// In the workshop: what lies over the host's /usr.
pub(super) const MASK: &str = "/run/mask";

/// Which rights the zygote has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// The host's root: own id ranges, control groups.
    Root,
    /// Root of a user namespace of its own, with a single id.
    User,
}

impl Rights {
    /// How an overlay that is mounted with these rights marks a directory that hides everything below it.
    pub(super) fn opaque(self) -> &'static str {
        match self {
            Self::Root => "trusted.overlay.opaque",
            Self::User => "user.overlay.opaque",
        }
    }
}

/// What is shared by all sandboxes of a run.
pub(super) struct Home {
    pub(super) cradle: Cradle,
    pub(super) nodes: Nodes,
    pub(super) rights: Rights,
    pub(super) parents: Option<Parents>,
    /// Where id ranges are locked: root's own directory, opened before the workshop hides it.
    pub(super) id_locks: Option<OwnedFd>,
    pub(super) host_image: Option<synthetic::HostImage>,
    pub(super) id_ranges: u32,
    pub(super) snapshots: Snapshots,
}

impl Home {
    pub(super) fn make() -> Result<Self, Trouble> {
        // Whoever started us may not have: pidfds, groups and locks of many sandboxes are held here.
        raise_descriptor_limit();
        // Layers are made with the modes that they are to have: 0755 for directories, 0644 for files.
        umask(Mode::from_raw_mode(0o022));
        // Before the workshop hides anything: the groups are found by their paths.
        let parents = Parents::find();
        let rights = if geteuid().is_root() { Rights::Root } else { Rights::User };
        let id_locks = match rights {
            Rights::Root => Some(open_id_locks().during("opening the id ranges' locks")?),
            Rights::User => None,
        };
        // Executed before there is a user namespace: files in /proc of a process that cannot be dumped, as guests and keepers are,
        // belong to the root of the namespace in which its program was executed. The host's root is in no sandbox.
        let cradle = Cradle::start().during("starting the cradle")?;
        let mut own = None;
        if rights == Rights::User {
            let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
            syscalls::unshare(libc::CLONE_NEWUSER).during("entering a user namespace")?;
            let write = |file: &str, text: String| std::fs::write(format!("/proc/self/{file}"), text);
            write("setgroups", "deny".into()).during("writing the id maps")?;
            write("uid_map", format!("0 {uid} 1")).during("writing the id maps")?;
            write("gid_map", format!("0 {gid} 1")).during("writing the id maps")?;
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            own = Some(open("/proc/self/ns/user", flags, Mode::empty()).during("entering a user namespace")?);
        }
        // From here on it works on its own surroundings while we work on ours.
        cradle.begin(own.as_ref()).during("starting the cradle")?;
        if rights == Rights::Root {
            // Acting as another owner of files costs no rights (see `with_file_owner`).
            syscalls::keep_rights_across_owners().during("keeping rights")?;
        }
        syscalls::unshare(libc::CLONE_NEWNS).during("entering a mount namespace")?;
        let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        mount_change("/", private).during("making the mounts private")?;
        mount("tmpfs", WORKSHOP, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=64m")
            .during("mounting the workshop")?;
        let makes_nodes = rights == Rights::Root && devices::can_make_nodes(Path::new(WORKSHOP));
        let nodes = if makes_nodes { Nodes::Given } else { Nodes::Mounted };
        Ok(Self {
            cradle,
            nodes,
            rights,
            parents,
            id_locks,
            host_image: None,
            id_ranges: 0,
            snapshots: Snapshots::default(),
        })
    }
}

/// A directory in /run, where only root makes any, that nobody else may enter.
fn open_id_locks() -> std::io::Result<OwnedFd> {
    const LOCKS: &str = "/run/ringfence-ids";
    match mkdirat(CWD, LOCKS, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let directory =
        open(LOCKS, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&directory)?;
    if stat.st_uid != 0 || stat.st_mode & 0o077 != 0 {
        return Err(std::io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(directory)
}
