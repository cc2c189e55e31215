//! A sandbox's /dev: a small file system of its own with the few devices that give nothing away.
//!
//! Whoever may make device nodes makes them in it. A sandbox cannot: there they are mounts of the host's, one by one, which take
//! longer to make and to take off.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use mutation::{Mutation, mutated};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mkdirat, mknodat, open, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_bind, move_mount,
};
use rustix::process::umask;

use super::cradle::HOST_DEVICES;
use crate::syscalls;

/// Device nodes that a program may expect and that give nothing away; all of them are character devices.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
/// One that would: the kernel's messages.
const KMSG: (&str, u32, u32) = ("kmsg", 1, 11);
/// Links that a program may expect in /dev.
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// All devices of a sandbox.
pub(super) fn all() -> impl Iterator<Item = (&'static str, u32, u32)> {
    DEVICES.into_iter().chain(mutated(Mutation::DeviceNode).then_some(KMSG))
}

/// Whether nodes can be made in this directory. One is.
pub(super) fn can_make_nodes(workshop: &Path) -> bool {
    mknodat(CWD, workshop.join("node"), FileType::CharacterDevice, Mode::empty(), makedev(1, 3)).is_ok()
}

/// Makes a /dev that belongs to the host's id `owner`: root's, in the sandbox. Attached nowhere.
pub(super) fn with_nodes(owner: u32) -> io::Result<OwnedFd> {
    let id = owner.to_string();
    let dev = device_files(&[("uid", id.as_str()), ("gid", id.as_str())])?;
    // The creation mask does not apply to what we mean.
    let mask = umask(Mode::empty());
    // Nodes are the host's root's, as mounts of the host's would be: nobody inside sets their modes or owners.
    let made = nodes(&dev).and_then(|()| syscalls::with_file_owner(owner, || furnish(&dev)));
    umask(mask);
    made.map(|()| dev)
}

/// Makes a /dev of mounts of the host's devices, and mounts it at `place`: to be called by the sandbox's own root.
pub(super) fn with_mounts(place: &Path) -> io::Result<()> {
    let dev = device_files(&[])?;
    move_mount(&dev, c"", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    for (name, ..) in all() {
        let path = place.join(name);
        drop(open(&path, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))?);
        mount_bind(Path::new(HOST_DEVICES).join(name), &path)?;
    }
    let mask = umask(Mode::empty());
    let furnished = furnish(&dev);
    umask(mask);
    furnished
}

fn nodes(dev: &OwnedFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o666);
    all().try_for_each(|(name, major, minor)| {
        Ok(mknodat(dev, name, FileType::CharacterDevice, mode, makedev(major, minor))?)
    })
}

/// Where terminals will be, shared memory, and links. Shared memory is a directory and no file system of its own, which would
/// take as long to make, and to take off, as all of this.
fn furnish(dev: &OwnedFd) -> io::Result<()> {
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777)] {
        mkdirat(dev, name, Mode::from_raw_mode(mode))?;
    }
    for (name, target) in LINKS {
        symlinkat(target, dev, name)?;
    }
    Ok(())
}

fn plain() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC
}

fn device_files(more: &[(&str, &str)]) -> io::Result<OwnedFd> {
    // Most of it is for shared memory.
    let options = [("mode", "755"), ("size", "64m"), ("nr_inodes", "16k")];
    file_system("tmpfs", &[&options, more].concat(), plain())
}

/// The most pseudo-terminals of one sandbox. All instances of devpts share `kernel.pty.max`.
const MAX_TERMINALS: &str = "64";

/// Terminals, which are a mount of their own in /dev: attached nowhere yet, with its place.
pub(super) fn terminals() -> io::Result<(String, OwnedFd)> {
    let options = [("mode", "620"), ("ptmxmode", "666"), ("max", MAX_TERMINALS)];
    let terminals = file_system("devpts", &options, plain())?;
    Ok(("dev/pts".into(), terminals))
}

/// A file system of its own that is attached nowhere.
pub(super) fn file_system(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let fs = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(fs.as_fd(), *key, *value)?;
    }
    fsconfig_create(fs.as_fd())?;
    Ok(fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}
