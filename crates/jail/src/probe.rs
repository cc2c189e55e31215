//! What this kernel does for this user, found out by doing it.

use std::ops::Range;
use std::time::Duration;

use crate::attempt::{Failure, Refused, Step, attempt};
use crate::nftables::{self, Ports};
use crate::steps::{IdMaps, enter_namespaces, overlay as mount_overlay, remake_directory, seccomp};
use crate::{kvm, netlink, zygote};

/// A user namespace, and all other namespaces from inside it.
pub fn user_namespaces(deadline: Duration) -> Result<(), Failure> {
    let maps = IdMaps::of_caller();
    attempt(deadline, || enter_namespaces(&maps))
}

/// An overlay in a user namespace, written through.
pub fn overlay(deadline: Duration) -> Result<(), Failure> {
    let maps = IdMaps::of_caller();
    attempt(deadline, || {
        enter_namespaces(&maps)?;
        mount_overlay()
    })
}

/// In such an overlay, a directory of the lower layer that is removed and made again. A plain user's needs extended attributes on a
/// tmpfs (Linux 6.6).
pub fn remade_directories(deadline: Duration) -> Result<(), Failure> {
    let maps = IdMaps::of_caller();
    attempt(deadline, || {
        enter_namespaces(&maps)?;
        mount_overlay()?;
        remake_directory()
    })
}

/// Redirect rules in a network namespace of our own.
pub fn redirect_rules(deadline: Duration) -> Result<(), Failure> {
    let maps = IdMaps::of_caller();
    // The very rules of a sandbox, so that what is found here is what it gets.
    let batch = nftables::batch(Ports { tcp: 1, udp: 1 });
    let refused =
        |step: Step| move |error: std::io::Error| Refused::with(step, error.raw_os_error().unwrap_or(libc::EIO));
    attempt(deadline, || {
        enter_namespaces(&maps)?;
        let socket = netlink::open(libc::NETLINK_NETFILTER).map_err(refused(Step::NetfilterSocket))?;
        // The socket dies with the child.
        netlink::exchange(socket, &batch).map_err(refused(Step::Rules))
    })
}

/// A system-call filter that bites.
pub fn seccomp_filter(deadline: Duration) -> Result<(), Failure> {
    attempt(deadline, seccomp)
}

/// Instructions in a virtual machine.
pub fn kvm_guest(deadline: Duration) -> Result<(), Failure> {
    attempt(deadline, kvm::run_guest)
}

/// The version of Landlock's interface, or `None` where the kernel has none or has it switched off.
pub fn landlock_version() -> Option<u32> {
    const CREATE_RULESET_VERSION: u32 = 1;
    // WHY: the version is asked for by the raw call; it changes nothing.
    // SAFETY: with this flag the kernel takes a null pointer and a size of zero (landlock_create_ruleset(2)).
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, CREATE_RULESET_VERSION)
    };
    u32::try_from(version).ok().filter(|&version| version > 0)
}

/// Whether sandboxes can have ids that no user of the host has; else why not.
///
/// Root may give them such ids, unless it is itself the root of a user namespace with fewer ids.
pub fn id_ranges() -> Result<(), &'static str> {
    if !rustix::process::geteuid().is_root() {
        return Err("a sandbox has one id, the user's own");
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if holds(&map, zygote::ID_RANGES) { Ok(()) } else { Err("this user namespace has too few ids") }
}

/// Whether one line of a map of ids (see `user_namespaces(7)`) holds all of these.
fn holds(map: &str, ids: Range<u64>) -> bool {
    map.lines().any(|line| {
        let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        matches!(fields[..], [first, _, count] if first <= ids.start && ids.end <= first + count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_the_whole_host_holds_the_ranges_and_a_containers_does_not() {
        assert!(holds("         0          0 4294967295\n", zygote::ID_RANGES));
        assert!(!holds("0 100000 65536\n", zygote::ID_RANGES));
        assert!(!holds("", zygote::ID_RANGES));
    }
}
