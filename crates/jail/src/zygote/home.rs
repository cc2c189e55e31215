//! The zygote's own surroundings: a mount namespace with a private place to build in, and what all sandboxes share.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, open};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit, umask};

use super::bases::Bases;
use super::cradle::Cradle;
use super::inside::{NO_CORE_DUMP, Nodes};
use super::snapshot::Snapshots;
use super::{During as _, Trouble, devices, overlay, raise_descriptor_limit, synthetic};
use crate::cgroups::Parents;
use crate::syscalls;

/// Where the zygote builds: its own tmpfs over a directory that every Linux has and that is never mounted into a sandbox.
pub(super) const WORKSHOP: &str = "/run";
/// In the workshop: the synthetic part of the image `host`.
pub(super) const SYNTHETIC: &str = "/run/host";
/// In the workshop: what lies over the host's /usr, the top one first.
pub(super) const MASKS: [&str; 2] = ["/run/mask-top", "/run/mask-below"];

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
    pub(super) parents: Result<Parents, Trouble>,
    pub(super) overlays: overlay::Interface,
    /// Where id ranges are locked: root's own directory, opened before the workshop hides it.
    pub(super) id_locks: Option<OwnedFd>,
    pub(super) host_image: Option<synthetic::HostImage>,
    pub(super) id_ranges: u32,
    pub(super) snapshots: Snapshots,
    pub(super) bases: Bases,
}

impl Home {
    pub(super) fn make() -> Result<Self, Trouble> {
        // Whoever started us may not have: pidfds, groups and locks of many sandboxes are held here.
        raise_descriptor_limit();
        // Layers are made with the modes that they are to have: 0755 for directories, 0644 for files.
        umask(Mode::from_raw_mode(0o022));
        // Inherited by the cradle, and by every sandbox.
        allow_no_core_dump().during(
            "bounding core dumps: kernel.core_pattern names a program, which would run as the host's root, and a hard limit of 0 \
             does not stop it (set the hard limit of the runner to 1: LimitCORE=1, or prlimit --core=1:1)",
        )?;
        // Before the workshop hides anything: the groups are found by their paths.
        let parents = Parents::find();
        let rights = if geteuid().is_root() { Rights::Root } else { Rights::User };
        let id_locks = match rights {
            Rights::Root => Some(open_id_locks().during("opening the id ranges' locks")?),
            Rights::User => None,
        };
        // Executed before there is a user namespace: files in /proc of a process that cannot be dumped, as guests and keepers are,
        // belong to the root of the namespace in which its program was executed. The host's root is in no sandbox.
        let mut cradle = Cradle::start().during("starting the cradle")?;
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
            overlays: overlay::Interface::find(),
            id_locks,
            host_image: None,
            id_ranges: 0,
            snapshots: Snapshots::default(),
            bases: Bases::default(),
        })
    }
}

/// Raises a hard limit of core dumps of 0 to [`NO_CORE_DUMP`], where that right is there. An error where it is missing and the
/// kernel would start a program of the host for a sandbox's crash.
fn allow_no_core_dump() -> std::io::Result<()> {
    let limit = getrlimit(Resource::Core);
    if limit.maximum.is_none_or(|maximum| maximum >= NO_CORE_DUMP) {
        return Ok(());
    }
    let raised = setrlimit(Resource::Core, Rlimit { current: Some(NO_CORE_DUMP), maximum: Some(NO_CORE_DUMP) });
    match raised {
        // A pattern that cannot be read may be one of a program.
        Err(errno)
            if std::fs::read("/proc/sys/kernel/core_pattern").map_or(true, |pattern| starts_a_program(&pattern)) =>
        {
            Err(errno.into())
        }
        _ => Ok(()),
    }
}

/// Whether cores go to a program (`|`) or to a socket that one listens on (`@`, Linux 6.17).
fn starts_a_program(pattern: &[u8]) -> bool {
    pattern.first().is_some_and(|first| b"|@".contains(first))
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

#[cfg(test)]
mod tests {
    use super::starts_a_program;

    #[test]
    fn patterns_of_programs_and_sockets_are_told_from_files() {
        for (pattern, is_program) in [
            ("core\n", false),
            ("/var/crash/core.%p\n", false),
            ("|/usr/lib/systemd-coredump %P\n", true),
            ("@/run/c\n", true),
        ] {
            assert_eq!(starts_a_program(pattern.as_bytes()), is_program, "{pattern}");
        }
    }
}
