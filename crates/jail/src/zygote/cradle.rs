//! The cradle: a process that is copied to become a sandbox's first process, and does nothing else.
//!
//! A program that is executed takes half a millisecond to begin with; a copy of one that has begun takes none. What is
//! copied must know nothing, though: the zygote knows images, paths and other sandboxes. So the zygote executes itself once
//! more, under the guest's name, in a mount namespace with next to nothing in it, and asks that process for copies. Nothing
//! but their kind of network is ever said to it. The copies are children of the zygote all the same (`CLONE_PARENT`).

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use libc::sock_filter;
use mutation::{Mutation, mutated};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::client::{Session, inherit_at_3};
use super::devices;
use super::inside::{self, Inside, Nodes};
use super::protocol::{Network, receive, send};
use crate::capture::Captor;
use crate::cgroups::Group;
use crate::filter::{self, SetIdBits};
use crate::syscalls::{self, Side};

/// How the cradle, and every guest, is called; also what tells it from the zygote, whose program it is.
pub(super) const NAME: &str = "ringfence-guest";

/// Where a child mounts its new root before it goes there, and where it makes its own /proc and /dev until then.
pub(super) const NEW_ROOT: &str = "/root";
pub(super) const NEW_PROC: &str = "/proc";
pub(super) const NEW_DEV: &str = "/dev";
/// An empty directory that nobody can write to, and the host's devices that a sandbox may have.
pub(super) const NOTHING: &str = "/nothing";
pub(super) const HOST_DEVICES: &str = "/devices";
/// The kernel lets a user namespace mount a /proc only where one can be seen in full.
pub(super) const HOST_PROC: &str = "/visible";
/// Where the cradle's root is made, on the host: as the zygote's workshop.
const PLACE: &str = "/run";

/// What the zygote says: make one. The child's socket comes with it, the v2 group that it is born in, and the doors of the
/// v1 groups that it enters.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Order {
    network: Network,
    nodes: Nodes,
    is_born_in_group: bool,
    /// The first id of the sandbox's range, by which its user namespace is created; 0: the zygote's own.
    owner: u32,
}

/// What the cradle says; a pidfd comes with the first.
#[derive(Serialize, Deserialize)]
enum Answer {
    Born { pid: i32 },
    Failed { errno: i32 },
}

/// The zygote's hold on its cradle.
pub(super) struct Cradle {
    socket: OwnedFd,
    process: Child,
    /// Whether it was executed in another user namespace than the one that it works in (see `home`): this zygote can then not
    /// start another like it.
    entered: bool,
}

impl Cradle {
    pub(super) fn start() -> io::Result<Self> {
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        mutation::pass_on(&mut command);
        inherit_at_3(&mut command, &theirs, Session::Ours);
        Ok(Self { process: command.spawn()?, socket, entered: false })
    }

    /// Has it begin, in this user namespace unless it was executed in the right one.
    pub(super) fn begin(&mut self, userns: Option<&OwnedFd>) -> io::Result<()> {
        self.entered = userns.is_some();
        let userns: Vec<BorrowedFd<'_>> = userns.iter().map(|userns| userns.as_fd()).collect();
        // Never nothing: an empty packet is the end.
        send(&self.socket, &true, &userns)
    }

    /// A new first process, which waits on `orders`.
    ///
    /// A cradle that was killed is replaced, but not a plain user's: the copies of another one would leave files of their keepers
    /// in /proc, such as `oom_score_adj`, to the sandbox's root. `EOWNERDEAD` then.
    pub(super) fn bear(
        &mut self,
        (network, nodes): (Network, Nodes),
        owner: u32,
        orders: &OwnedFd,
        group: Option<&Group>,
    ) -> io::Result<(i32, OwnedFd)> {
        let order = Order { network, nodes, is_born_in_group: group.and_then(Group::born_in).is_some(), owner };
        match self.ask(order, orders, group) {
            Err(error) if is_gone(&error) && self.entered => Err(io::Error::from_raw_os_error(libc::EOWNERDEAD)),
            Err(error) if is_gone(&error) => {
                *self = Self::start()?;
                self.begin(None)?;
                self.ask(order, orders, group)
            }
            answer => answer,
        }
    }

    fn ask(&self, order: Order, orders: &OwnedFd, group: Option<&Group>) -> io::Result<(i32, OwnedFd)> {
        let born_in = group.and_then(Group::born_in);
        let doors = group.map(Group::doors).unwrap_or_default();
        let descriptors: Vec<BorrowedFd<'_>> =
            [orders.as_fd()].into_iter().chain(born_in).chain(doors.iter().map(|door| door.as_fd())).collect();
        send(&self.socket, &order, &descriptors)?;
        match receive(&self.socket)? {
            Some((Answer::Born { pid }, pidfds)) => match pidfds.into_iter().next() {
                Some(pidfd) => Ok((pid, pidfd)),
                None => Err(io::Error::from(io::ErrorKind::InvalidData)),
            },
            Some((Answer::Failed { errno }, _)) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Drop for Cradle {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

/// The cradle's whole life. `socket` is the zygote's.
pub(super) fn main(socket: &OwnedFd) -> ExitCode {
    let entered = match receive::<bool>(socket) {
        Ok(Some((_, userns))) => userns.iter().try_for_each(enter),
        _ => return ExitCode::SUCCESS,
    };
    if entered.is_err() || set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return ExitCode::from(70);
    }
    let _ = rustix::thread::set_name(c"ringfence-cradle");
    // Cloning under a sandbox's own id costs no rights (see `clone_as`).
    let place = make_place().and_then(|()| syscalls::keep_rights_across_owners());
    let filters = [filter::program(SetIdBits::Allowed), filter::program(SetIdBits::Refused)];
    let captor = Captor::new();
    while let Ok(Some((order, descriptors))) = receive::<Order>(socket) {
        let born = match &place {
            Ok(()) => bear(order, descriptors, &filters, &captor),
            Err(error) => Err(io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))),
        };
        let answered = match &born {
            Ok((pid, pidfd)) => send(socket, &Answer::Born { pid: *pid }, &[pidfd.as_fd()]),
            Err(error) => send(socket, &Answer::Failed { errno: error.raw_os_error().unwrap_or(libc::EIO) }, &[]),
        };
        if answered.is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn enter(userns: &OwnedFd) -> rustix::io::Result<()> {
    move_into_link_name_space(userns.as_fd(), Some(LinkNameSpaceType::User))
}

fn bear(
    order: Order,
    descriptors: Vec<OwnedFd>,
    filters: &[Vec<sock_filter>; 2],
    captor: &Captor,
) -> io::Result<(i32, OwnedFd)> {
    let mut descriptors = descriptors.into_iter();
    let orders = descriptors.next().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let born_in = if order.is_born_in_group { descriptors.next() } else { None };
    let unless = |mutation: Mutation, namespace: i32| if mutated(mutation) { 0 } else { namespace };
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | unless(Mutation::HostPid, libc::CLONE_NEWPID)
        | unless(Mutation::HostNetwork, libc::CLONE_NEWNET)
        | unless(Mutation::HostIpc, libc::CLONE_NEWIPC)
        | unless(Mutation::HostUts, libc::CLONE_NEWUTS);
    // What the kernel counts per user (inotify instances, queued signals, timers, message queues) is charged inside the new
    // user namespace and to its creator outside. As root's, one sandbox could leave the host's root without any.
    let (flags, group) = (namespaces | libc::CLONE_PARENT, born_in.as_ref().map(|group| group.as_fd()));
    // SAFETY: the cradle never has more than one thread.
    let born = unsafe { syscalls::clone_as(order.owner, flags, group) };
    match born? {
        Side::Child => {
            drop(born_in);
            inside::run(Inside {
                orders,
                doors: descriptors.collect(),
                filters,
                network: order.network,
                nodes: order.nodes,
                captor,
            })
        }
        Side::Parent { pid, pidfd } => {
            // The kernel cleared it when the ids changed.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok((pid, pidfd))
        }
    }
}

/// Goes to a root of its own, in which there is nothing but what a child needs before it has one. Every child copies all
/// mounts that are here, and takes them off again.
fn make_place() -> io::Result<()> {
    syscalls::unshare(libc::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount("tmpfs", PLACE, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, c"mode=755,size=1m")?;
    let within = |name: &str| Path::new(PLACE).join(name.trim_start_matches('/'));
    for directory in [NEW_ROOT, NEW_PROC, NEW_DEV, NOTHING, HOST_DEVICES, HOST_PROC] {
        mkdirat(CWD, within(directory), Mode::from_raw_mode(0o755))?;
    }
    let hidden = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", within(NOTHING), "tmpfs", hidden, c"mode=555,size=4k,nr_inodes=1")?;
    mount_bind_recursive("/proc", within(HOST_PROC))?;
    for (name, ..) in devices::all() {
        let node = within(HOST_DEVICES).join(name);
        drop(open(&node, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))?);
        mount_bind(Path::new("/dev").join(name), &node)?;
    }
    rustix::process::chdir(PLACE)?;
    syscalls::pivot_root_here()?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}
