//! A new sandbox, as its parent sees it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use mutation::{Mutation, mutated};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, openat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::home::{Home, Rights};
use super::image;
use super::inside::{self, Last};
use super::protocol::{Network, Spec, receive, send};
use super::snapshot::Writable;
use super::{During as _, Trouble};
use crate::capture::Listeners;
use crate::cgroups::{Frozen, Group, Limits};
use crate::syscalls::{self, Namespace};

/// Id ranges lie up here, where no distribution gives ids to users, subordinate ids or containers of other engines.
const FIRST_RANGE: u32 = 0x6000_0000;
const RANGE: u32 = 0x1_0000;
const RANGES: u32 = 0x1000;

/// All ids that sandboxes of root's runs are given.
pub const ID_RANGES: std::ops::Range<u64> = FIRST_RANGE as u64..(FIRST_RANGE + RANGE * RANGES) as u64;

/// A sandbox as the zygote knows it.
pub(super) struct Sandbox {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) group: Option<Group>,
    /// What it writes.
    pub(super) writable: Option<Writable>,
    /// Its mounts, which the kernel takes apart when this is closed and its processes are gone: after whoever ended it has
    /// heard so.
    pub(super) mounts: Option<OwnedFd>,
    /// Its guest was killed for want of memory, or the runner is about to ask for its files again: what it wrote outlives its processes
    /// until the runner asks for its end.
    pub(super) keeps_files: bool,
    /// While it is paused.
    pub(super) frozen: Option<Frozen>,
    /// The host ids of this sandbox, locked against other runs on this machine.
    range: Rc<Range>,
}

/// Ids of the host that sandboxes have.
#[derive(Debug)]
pub(super) struct Range {
    /// The host's id of their root.
    pub(super) owner: u32,
    /// The lock file, held while a sandbox or the files of a layer have these ids.
    _lock: Option<File>,
}

/// Where the new root's mounts go, and the descriptors travel in packets of a few.
const PER_PACKET: usize = 4;

/// What has to be known of a sandbox before it is begun; everything else can wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) network: Network,
    pub(super) limits: Option<Limits>,
}

/// A sandbox that waits for its root: its namespaces, ids, group and network are there, and nothing ever ran in it.
pub(super) struct Blank {
    pub(super) kind: Kind,
    pub(super) sandbox: Sandbox,
    orders: OwnedFd,
    userns: OwnedFd,
}

/// Begins a sandbox of this kind; `name` is part of the names of its groups. It has a range of ids of its own, unless it is to
/// have the one that the layers below it belong to.
pub(super) fn begin(home: &mut Home, kind: &Kind, name: &str, range: Option<Rc<Range>>) -> Result<Blank, Trouble> {
    let range = match (range, &home.id_locks) {
        (Some(range), _) => range,
        (None, Some(locks)) => {
            let (owner, lock) = reserve_range(locks, &mut home.id_ranges).during("reserving an id range")?;
            Rc::new(Range { owner: if mutated(Mutation::HostIds) { 0 } else { owner }, _lock: Some(lock) })
        }
        (None, None) => Rc::new(Range { owner: 0, _lock: None }),
    };
    let mut group = match (&home.parents, &kind.limits) {
        (Ok(parents), Some(limits)) => Some(parents.make(name, limits).during("making the control group")?),
        (Err(Trouble { step, error }), Some(_)) => {
            let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
            return Err(Trouble { step, error });
        }
        (_, None) => None,
    };
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).during("making a socket")?;
    let born =
        home.cradle.bear((kind.network, home.nodes), range.owner, &theirs, group.as_ref()).map_err(|error| match error
            .raw_os_error()
        {
            Some(libc::EOWNERDEAD) => {
                Trouble { step: "copying the cradle process, which was killed (start the run again)", error }
            }
            _ => Trouble { step: "cloning into new namespaces", error },
        });
    let (pid, pidfd) = match born {
        Ok(born) => born,
        Err(trouble) => {
            if let (Ok(parents), Some(group)) = (&home.parents, &group) {
                parents.remove_all(&[group]);
            }
            return Err(trouble);
        }
    };
    drop(theirs);
    if let Some(group) = &mut group {
        group.close_doors();
    }
    let mut sandbox =
        Sandbox { pid, pidfd, group, writable: None, mounts: None, keeps_files: false, frozen: None, range };
    // While it waits for its ids: later it cannot be dumped, and then a plain user may not open them.
    let opened = namespace(&sandbox, Namespace::User)
        .and_then(|userns| Ok((userns, namespace(&sandbox, Namespace::Mounts)?)))
        .during("opening the namespaces");
    let userns = match opened {
        Ok((userns, mounts)) => {
            sandbox.mounts = Some(mounts);
            userns
        }
        Err(trouble) => {
            discard(home, &sandbox);
            return Err(trouble);
        }
    };
    let blank = Blank { kind: kind.clone(), sandbox, orders: ours, userns };
    match give_ids(home.rights, &blank) {
        Ok(()) => Ok(blank),
        Err(trouble) => {
            discard(home, &blank.sandbox);
            Err(trouble)
        }
    }
}

/// Tells the child who it is. From here on both work at the same time: the child on what is its own, we on its root.
fn give_ids(rights: Rights, blank: &Blank) -> Result<(), Trouble> {
    let proc = format!("/proc/{}", blank.sandbox.pid);
    let count = match rights {
        Rights::Root => RANGE,
        Rights::User => 1,
    };
    if rights == Rights::User {
        fs::write(format!("{proc}/setgroups"), "deny").during("writing the id maps")?;
    }
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("{proc}/{map}"), format!("0 {} {count}", blank.sandbox.range.owner))
            .during("writing the id maps")?;
    }
    #[cfg(feature = "mutations")]
    crate::mutated::lay_cable(blank.sandbox.pid).during("laying a cable")?;
    send(&blank.orders, &true, &[]).during("telling the sandbox its ids")
}

/// Ends a sandbox that nobody has.
pub(super) fn discard(home: &Home, sandbox: &Sandbox) {
    let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
    let _ = waitid(WaitId::PidFd(sandbox.pidfd.as_fd()), WaitIdOptions::EXITED);
    if let (Ok(parents), Some(group)) = (&home.parents, &sandbox.group) {
        parents.remove_all(&[group]);
    }
}

/// A sandbox that is there.
pub(super) struct Finished {
    pub(super) sandbox: Sandbox,
    pub(super) listeners: Listeners,
}

/// Makes a blank the sandbox that `spec` describes.
pub(super) fn finish(home: &mut Home, spec: &Spec, control: OwnedFd, blank: Blank) -> Result<Finished, Trouble> {
    let Blank { mut sandbox, orders, userns, .. } = blank;
    match give_root(home, spec, (&userns, &sandbox.range), &orders, control) {
        Ok((listeners, writable)) => {
            sandbox.writable = Some(writable);
            Ok(Finished { sandbox, listeners })
        }
        Err(trouble) => {
            discard(home, &sandbox);
            Err(trouble)
        }
    }
}

/// Gives the child its root, and waits until it is the guest.
fn give_root(
    home: &mut Home,
    spec: &Spec,
    (userns, range): (&OwnedFd, &Rc<Range>),
    orders: &OwnedFd,
    control: OwnedFd,
) -> Result<(Listeners, Writable), Trouble> {
    let image::Built { tree, writable } = image::build(home, spec, userns.as_fd(), range)?;
    let last = Last {
        allow_setuid: spec.allow_setuid,
        // A file with the setuid bit in a writable mount would be the host's: there, nobody may set it.
        writes_outside: spec.mounts.iter().any(|shown| shown.mount.writable),
    };
    let handed_over = hand_over(orders, &last, &control, &tree);
    // Its end is to be the stream's end.
    drop(control);
    if let Err(trouble) = handed_over {
        // A child that has ended cannot be told anything, but has said why.
        return Err(complaint(orders).unwrap_or(trouble));
    }
    drop(tree);
    // The socket is closed by who has become the guest; before that come listeners, or trouble.
    let mut listeners = Listeners::new();
    loop {
        match receive::<inside::Report>(orders).during("waiting for the guest")? {
            None => return Ok((listeners, writable)),
            Some((inside::Report::Captured, handed)) => listeners = handed,
            Some((inside::Report::Trouble { step, errno }, _)) => return Err(inside::trouble(&step, errno)),
        }
    }
}

/// A namespace of its first process.
fn namespace(sandbox: &Sandbox, kind: Namespace) -> io::Result<OwnedFd> {
    // Before Linux 6.11 it is found by its path.
    syscalls::namespace(&sandbox.pidfd, kind).or_else(|_| {
        let path = format!("/proc/{}/ns/{}", sandbox.pid, kind.name());
        Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    })
}

/// Sends the control stream and the root's mounts.
fn hand_over(orders: &OwnedFd, last: &Last, control: &OwnedFd, tree: &image::Tree) -> Result<(), Trouble> {
    send(orders, last, &[control.as_fd()]).during("handing over the control stream")?;
    for part in tree.chunks(PER_PACKET) {
        let places: Vec<&str> = part.iter().map(|(place, _)| place.as_str()).collect();
        let mounts: Vec<BorrowedFd<'_>> = part.iter().map(|(_, mount)| mount.as_fd()).collect();
        send(orders, &places, &mounts).during("handing over the root")?;
    }
    send(orders, &Vec::<&str>::new(), &[]).during("handing over the root")
}

/// What a child that has ended said last.
fn complaint(orders: &OwnedFd) -> Option<Trouble> {
    // Its listeners may come first, and that it left something unread.
    (0..3).find_map(|_| match receive::<inside::Report>(orders) {
        Ok(Some((inside::Report::Trouble { step, errno }, _))) => Some(inside::trouble(&step, errno)),
        _ => None,
    })
}

/// Takes a free range of ids. Its lock is a file that nobody else can open, and dies with the zygote.
fn reserve_range(locks: &OwnedFd, next: &mut u32) -> io::Result<(u32, File)> {
    let start = std::process::id();
    for _ in 0..RANGES {
        let slot = start.wrapping_mul(61).wrapping_add(*next) % RANGES;
        *next = next.wrapping_add(1);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(locks, slot.to_string(), flags, Mode::from_raw_mode(0o600))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok((FIRST_RANGE + slot * RANGE, File::from(file)));
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}
