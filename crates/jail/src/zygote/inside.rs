//! A new sandbox, as its first process sees it: from a copy of the cradle to the guest.
//!
//! The order matters. Mounts need rights, so rights go last; the filter forbids what comes before it, so it is nearly
//! last; and nothing of the host may be reachable when the guest starts.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use libc::sock_filter;
use mutation::{Mutation, mutated};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, open, openat, openat2};
use rustix::mount::{
    MountAttrFlags, MoveMountFlags, UnmountFlags, mount_bind, mount_bind_recursive, move_mount, unmount,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit, umask};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};
use serde::{Deserialize, Serialize};

use super::cradle::{HOST_DEVICES, HOST_PROC, NAME, NEW_DEV, NEW_PROC, NEW_ROOT, NOTHING};
use super::protocol::{Network, receive, receive_long, send};
use super::{During as _, Trouble, devices};
use crate::capture::{self, Captor};
use crate::landlock;
use crate::syscalls::{self, MOUNT_ATTR_RDONLY};

/// Everything the child needs; it was copied with the cradle.
pub(super) struct Inside<'a> {
    pub(super) orders: OwnedFd,
    /// Of the v1 control groups that it is to be in.
    pub(super) doors: Vec<OwnedFd>,
    /// For sandboxes that write only to themselves, and for those that write to the host's own files.
    pub(super) filters: &'a [Vec<sock_filter>; 2],
    pub(super) network: Network,
    pub(super) nodes: Nodes,
    pub(super) captor: &'a Captor,
}

/// Where a sandbox's devices come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Nodes {
    /// Its /dev comes with its root.
    Given,
    /// It mounts the host's.
    Mounted,
}

/// What the child learns with its root; its control stream comes with it.
#[derive(Serialize, Deserialize)]
pub(super) struct Last {
    pub(super) allow_setuid: bool,
    pub(super) writes_outside: bool,
}

/// What the child says.
#[derive(Serialize, Deserialize)]
pub(super) enum Report {
    /// Its network is captured; the listeners come with it.
    Captured,
    /// It failed.
    Trouble { step: String, errno: i32 },
}

/// Steps are few; a report names one of them by its text.
pub(super) fn trouble(step: &str, errno: i32) -> Trouble {
    let step = STEPS.into_iter().find(|known| *known == step).unwrap_or("starting the guest");
    Trouble { step, error: io::Error::from_raw_os_error(errno) }
}

const STEPS: [&str; 19] = [
    "becoming root inside",
    "receiving the root",
    "entering a cgroup namespace",
    "mounting the root",
    "mounting /proc",
    "hiding parts of /proc",
    "making /dev",
    "putting /proc and /dev into the root",
    "setting up loopback",
    "naming the sandbox",
    "going to the new root",
    "setting limits",
    "dropping capabilities",
    "tying the sandbox to its parent",
    "confining with Landlock",
    "arranging descriptors",
    "loading the system-call filter",
    "entering the control group",
    "capturing the network",
];

/// Parts of /proc that speak of the host, hidden behind an empty file or directory.
const HIDDEN_FILES: [&str; 15] = [
    "kcore",
    "keys",
    "key-users",
    "kallsyms",
    "kmsg",
    "timer_list",
    "sched_debug",
    "sysrq-trigger",
    "config.gz",
    "cmdline",
    "diskstats",
    "partitions",
    "interrupts",
    "locks",
    "modules",
];
/// `pressure` could also be written: the close of each trigger waits where no signal ends the wait.
const HIDDEN_DIRECTORIES: [&str; 6] = ["acpi", "scsi", "asound", "driver", "bus", "pressure"];
/// By these the guest could be made the first to die, or the last to be run.
const OWN_SCORE: [&str; 5] =
    ["1/oom_score_adj", "1/oom_adj", "1/task/1/oom_score_adj", "1/task/1/oom_adj", "1/autogroup"];
/// Parts of /proc that may be read and never written.
const READ_ONLY: [&str; 4] = ["sys", "irq", "fs", "tty"];

/// Capabilities that programs of a container use, all of them only over the sandbox's own files, ids and processes.
fn kept() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::SETPCAP
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::AUDIT_WRITE
        | if mutated(Mutation::KeptCapability) { CapabilitySet::NET_ADMIN } else { CapabilitySet::empty() }
}

/// Becomes the guest, or says why not and ends.
pub(super) fn run(mut inside: Inside<'_>) -> ! {
    match become_guest(&mut inside) {
        Ok(control) => {
            // The end of this socket says that everything holds.
            drop(inside);
            syscalls::exit_now(guest::serve(control, None).into())
        }
        Err(trouble) => {
            let errno = trouble.error.raw_os_error().unwrap_or(libc::EIO);
            let report = Report::Trouble { step: trouble.step.to_owned(), errno };
            // If nobody listens, nobody waits either.
            let _ = send(&inside.orders, &report, &[]);
            syscalls::exit_now(1)
        }
    }
}

/// Does everything that makes this process the guest; what is left is to serve on the stream that this returns.
fn become_guest(inside: &mut Inside<'_>) -> Result<OwnedFd, Trouble> {
    let Inside { orders, doors, filters, network, nodes, captor } = inside;
    // First of all: whatever follows is charged to the sandbox.
    enter(std::mem::take(doors)).during(STEPS[17])?;
    // The cradle's own socket is not ours.
    syscalls::close_all_but(&[orders.as_fd()]).during(STEPS[15])?;
    // Once the ids are mapped, everything that needs no root of its own is made while the zygote builds that root.
    let mapped = receive::<bool>(&*orders).during(STEPS[0])?;
    mapped.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof)).during(STEPS[0])?;
    become_root().during(STEPS[0])?;
    umask(Mode::from_raw_mode(0o022));
    if mutated(Mutation::HostPid) {
        // Whoever is in the host's pid namespace and not its root cannot mount its /proc anew.
        mount_bind_recursive(HOST_PROC, NEW_PROC).during(STEPS[4])?;
    } else {
        let proc = devices::file_system("proc", &[], strict()).during(STEPS[4])?;
        move_mount(&proc, c"", CWD, NEW_PROC, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).during(STEPS[4])?;
    }
    if !mutated(Mutation::HostNetwork) {
        syscalls::loopback_up().during(STEPS[8])?;
    }
    #[cfg(feature = "mutations")]
    crate::mutated::take_cable().during(STEPS[8])?;
    match network {
        Network::Loopback => {}
        Network::Captured => {
            let listeners = captor.set_up(Path::new(NEW_PROC)).during(STEPS[18])?;
            let handed: Vec<BorrowedFd<'_>> = listeners.iter().map(|listener| listener.as_fd()).collect();
            send(&*orders, &Report::Captured, &handed).during(STEPS[18])?;
            // Ours are closed here: whoever holds one could shut it down.
        }
        Network::Relayed => capture::set_up_relayed(Path::new(NEW_PROC)).during(STEPS[18])?,
    }
    hide_parts_of_proc().during(STEPS[5])?;
    if *nodes == Nodes::Mounted {
        devices::with_mounts(Path::new(NEW_DEV)).during(STEPS[6])?;
    }
    let terminals = devices::terminals().during(STEPS[6])?;
    if !mutated(Mutation::HostUts) {
        rustix::system::sethostname(b"sandbox").during(STEPS[9])?;
    }
    set_limits().during(STEPS[11])?;
    narrow_bounding_set().during(STEPS[12])?;

    let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (last, control) = receive::<Last>(&*orders).and_then(|found| found.ok_or_else(ended)).during(STEPS[1])?;
    let control = control.into_iter().next().ok_or_else(ended).during(STEPS[1])?;
    let tree = receive_tree(orders).during(STEPS[1])?;
    // The process' group becomes the root of what it sees.
    if !mutated(Mutation::HostCgroup) {
        syscalls::unshare(libc::CLONE_NEWCGROUP).during(STEPS[2])?;
    }
    let new_root = attach_root(&tree).during(STEPS[3])?;
    attach(&new_root, tree.get(1..).unwrap_or_default()).during(STEPS[3])?;
    move_to(&new_root, NEW_PROC, "proc").during(STEPS[7])?;
    if *nodes == Nodes::Mounted {
        move_to(&new_root, NEW_DEV, "dev").during(STEPS[7])?;
    }
    attach(&new_root, &[terminals]).during(STEPS[7])?;
    drop(new_root);
    #[cfg(feature = "mutations")]
    let leaked = open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).during(STEPS[15])?;
    go_to_new_root().during(STEPS[10])?;
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).during(STEPS[10])?;
    set_parent_process_death_signal(Some(Signal::KILL)).during(STEPS[13])?;
    if !last.allow_setuid && !mutated(Mutation::NewPrivs) {
        rustix::thread::set_no_new_privs(true).during(STEPS[12])?;
    }
    // Before the capabilities go: with `allow_setuid`, being root here is what permits the next two. What follows them is
    // on the list.
    landlock::confine(&root).during(STEPS[14])?;
    if !mutated(Mutation::NoSeccomp) {
        syscalls::load_filter(&filters[usize::from(last.writes_outside)]).during(STEPS[16])?;
    }
    drop_capabilities().during(STEPS[12])?;
    drop((tree, root));
    let kept = [
        orders.as_fd(),
        control.as_fd(),
        #[cfg(feature = "mutations")]
        leaked.as_fd(),
    ];
    arrange_descriptors(&kept).during(STEPS[15])?;
    #[cfg(feature = "mutations")]
    crate::mutated::leak(&leaked).during(STEPS[15])?;
    rustix::thread::set_name(&CString::new(NAME).unwrap_or_default()).during(STEPS[15])?;
    Ok(control)
}

/// Takes this process, which has one thread, into its v1 groups. The doors were opened by who may.
fn enter(doors: Vec<OwnedFd>) -> io::Result<()> {
    doors.into_iter().try_for_each(|door| rustix::io::write(door, b"0").map(|_| ()))?;
    Ok(())
}

fn receive_tree(orders: &OwnedFd) -> io::Result<Vec<(String, OwnedFd)>> {
    let mut tree = Vec::new();
    loop {
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (places, mounts) = receive_long::<Vec<String>>(orders)?.ok_or_else(ended)?;
        if places.is_empty() {
            return Ok(tree);
        }
        tree.extend(places.into_iter().zip(mounts));
    }
}

fn become_root() -> io::Result<()> {
    let (uid, gid) = (Uid::ROOT, Gid::ROOT);
    // A plain user's groups cannot be dropped in a user namespace (user_namespaces(7)); they show as nobody's.
    let _ = rustix::thread::set_thread_groups(&[]);
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Mounts the new root, which is the first of the tree, and opens it.
fn attach_root(tree: &[(String, OwnedFd)]) -> io::Result<OwnedFd> {
    let absent = || io::Error::from_raw_os_error(libc::EINVAL);
    let (_, root) = tree.first().filter(|(place, _)| place.is_empty()).ok_or_else(absent)?;
    move_mount(root, c"", CWD, NEW_ROOT, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(open(NEW_ROOT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn attach(root: &OwnedFd, tree: &[(String, OwnedFd)]) -> io::Result<()> {
    tree.iter().try_for_each(|(place, mount)| attach_at(root, place, mount))
}

/// Attaches a mount at its place in the new root, which is made if it is not there.
fn attach_at(root: &OwnedFd, place: &str, mount: &OwnedFd) -> io::Result<()> {
    let mut parts = place.split('/').filter(|part| !part.is_empty()).peekable();
    let mut directory: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let within = directory.as_ref().unwrap_or(root);
        // Most of them are there.
        let found = match open_in(within, part) {
            Err(rustix::io::Errno::NOENT) => {
                make_target(within, part, parts.peek().is_none().then_some(mount))?;
                open_in(within, part)?
            }
            found => found?,
        };
        directory = Some(found);
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", directory.as_ref().unwrap_or(root), c"", flags)?)
}

/// An image's links are not followed: one of them could lead the mount elsewhere.
fn open_in(directory: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    openat2(directory, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Makes what `mount` can be mounted on, or a directory on the way there.
fn make_target(directory: &OwnedFd, name: &str, mount: Option<&OwnedFd>) -> io::Result<()> {
    let is_directory = match mount {
        Some(mount) => rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode).is_dir(),
        None => true,
    };
    if is_directory {
        mkdirat(directory, name, Mode::from_raw_mode(0o755))?;
    } else {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        drop(openat(directory, name, flags, Mode::from_raw_mode(0o644))?);
    }
    Ok(())
}

/// Moves what was made in the workshop, with everything below it, to its place in the new root.
fn move_to(root: &OwnedFd, made: &str, place: &str) -> io::Result<()> {
    attach_at(root, place, &open(made, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn strict() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC
}

/// Not every kernel has every part; what is not there needs no hiding.
fn unless_absent(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn hide_parts_of_proc() -> io::Result<()> {
    let null = Path::new(HOST_DEVICES).join("null");
    for name in HIDDEN_FILES {
        unless_absent(mount_bind(&null, Path::new(NEW_PROC).join(name)))?;
    }
    // The same empty directory for all: a file system of its own for each takes three times as long, twice.
    for name in HIDDEN_DIRECTORIES {
        unless_absent(mount_bind(NOTHING, Path::new(NEW_PROC).join(name)))?;
    }
    hide_own_score(&null)?;
    for name in READ_ONLY.into_iter().filter(|name| *name != "sys" || !mutated(Mutation::WritableProcSys)) {
        let path = Path::new(NEW_PROC).join(name);
        match mount_bind(&path, &path) {
            Err(rustix::io::Errno::NOENT) => continue,
            result => result?,
        }
        let bound = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        syscalls::mount_setattr(&bound, MOUNT_ATTR_RDONLY, None, true)?;
    }
    Ok(())
}

/// Hides the guest's OOM score and autogroup from who could write them.
///
/// The kernel gives what it shows of a process that cannot be dumped to the root of where its program was executed. Mostly
/// that is the host's, whom no sandbox has among its ids: then nobody inside may write there. Mounts on a process' own
/// files are to be avoided, because its end waits for the kernel to take each of them off.
fn hide_own_score(null: &Path) -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let owner = |name: &str| rustix::fs::stat(Path::new(NEW_PROC).join(name)).map(|stat| stat.st_uid);
    match owner(OWN_SCORE[0]) {
        Ok(owner) if owner != Uid::ROOT.as_raw() => Ok(()),
        // Without /proc/1 there is nothing to be hidden; if it cannot be looked at, it is hidden.
        _ => OWN_SCORE.iter().try_for_each(|name| unless_absent(mount_bind(null, Path::new(NEW_PROC).join(name)))),
    }
}

fn go_to_new_root() -> io::Result<()> {
    rustix::process::chdir(NEW_ROOT)?;
    syscalls::pivot_root_here()?;
    // The old root lies on top of the new one now: take it off, and with it every path to the host.
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// A limit of core dumps by which the kernel writes none, neither to a file nor to a program.
///
/// 0 would not do: the program of a piped `core_pattern` runs as the host's root whatever the limit is, but for 1, which is
/// how the kernel marks that program's own crashes (`do_coredump` in fs/coredump.c). The filter keeps it at 1.
pub(super) const NO_CORE_DUMP: u64 = 1;
/// Queued signals and POSIX timers, which the kernel counts per user.
const MAX_QUEUED_SIGNALS: u64 = 4096;

pub(crate) fn set_limits() -> io::Result<()> {
    let lower = |resource: Resource, wanted: u64| {
        let current = rustix::process::getrlimit(resource);
        // Raising a limit needs a right that even root may lack: they are only ever lowered.
        let bounded = current.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        setrlimit(resource, Rlimit { current: Some(bounded), maximum: Some(bounded) })
    };
    // Where the sandbox has a user of the host, most of what that user may have stays with the host.
    let signals = rustix::process::getrlimit(Resource::Sigpending).maximum.map_or(u64::MAX, |maximum| maximum / 4);
    lower(Resource::Core, NO_CORE_DUMP)?;
    lower(Resource::Nofile, 65_536)?;
    lower(Resource::Memlock, 8 << 20)?;
    lower(Resource::Sigpending, signals.min(MAX_QUEUED_SIGNALS))?;
    Ok(())
}

/// Takes what nobody here may ever have out of the bounding set. Changes nothing that this process can do now.
pub(crate) fn narrow_bounding_set() -> io::Result<()> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !kept().contains(capability) {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                Ok(()) => {}
                // The kernel knows no capability of this number, nor any above.
                Err(rustix::io::Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

pub(crate) fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets { effective: kept(), permitted: kept(), inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// Standard streams lead nowhere, and nothing else stays open but what is kept.
fn arrange_descriptors(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop(null);
    syscalls::close_all_but(kept)
}
