//! Landlock as a second fence: nothing but what lies below the sandbox's root, even if a descriptor or a mount leaked.

use std::io;
use std::os::fd::AsFd;

use crate::{probe, syscalls};

/// Which rights each version of the interface knows: 13, then `refer`, `truncate` and (from version 5) `ioctl_dev`.
pub(crate) fn handled(version: u32) -> u64 {
    let bits = match version {
        0 => 0,
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

/// From version 6 on: no abstract sockets and no signals to processes outside.
pub(crate) fn scoped(version: u32) -> u64 {
    if version >= 6 { 3 } else { 0 }
}

/// Keeps this process and its children below `root`. Does nothing where the kernel has no Landlock: the plan says so.
pub(crate) fn confine(root: impl AsFd) -> io::Result<()> {
    match probe::landlock_version() {
        None => Ok(()),
        Some(version) => syscalls::landlock(handled(version), scoped(version), root),
    }
}
