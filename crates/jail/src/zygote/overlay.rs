//! Overlays that are attached nowhere, by the newest interface that the kernel has.

use std::env;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, open_tree, unmount,
};

/// How the kernel takes an overlay's layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface {
    /// One by one (`lowerdir+`, since Linux 6.8).
    Layers,
    /// As one line of options of mount(2): a value of fsconfig(2) has at most 255 bytes.
    Options,
}

impl Interface {
    /// Found by doing. Before Linux 6.5 every option was accepted until the overlay was created, so an option that no kernel
    /// knows must be refused too.
    pub(super) fn find() -> Self {
        let takes = || -> io::Result<bool> {
            let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
            let takes_anything = fsconfig_set_flag(fs.as_fd(), "ringfence_unknown").is_ok();
            Ok(!takes_anything && fsconfig_set_string(fs.as_fd(), "lowerdir+", "/").is_ok())
        };
        if takes().unwrap_or(false) { Self::Layers } else { Self::Options }
    }
}

/// An overlay of directories that all lie in one.
#[derive(Debug)]
pub(super) struct Overlay<'a> {
    /// What mountinfo shows as its source.
    pub(super) source: &'a str,
    /// Where its layers lie. A directory `made` is created there.
    pub(super) directory: &'a Path,
    /// Names in that directory, the top one first.
    pub(super) lowers: &'a [String],
    /// The directory that has `upper` and `work`; without one the overlay is read-only.
    pub(super) writable: Option<&'a Path>,
    /// Options without a value, and with one.
    pub(super) options: &'a [(&'a str, Option<&'a str>)],
    pub(super) attributes: MountAttrFlags,
}

impl Overlay<'_> {
    pub(super) fn mount(&self, interface: Interface) -> io::Result<OwnedFd> {
        match interface {
            Interface::Layers => self.by_layers(),
            Interface::Options => self.by_options(),
        }
    }

    fn by_layers(&self) -> io::Result<OwnedFd> {
        let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(fs.as_fd(), "source", self.source)?;
        for lower in self.lowers {
            fsconfig_set_string(fs.as_fd(), "lowerdir+", self.directory.join(lower))?;
        }
        if let Some(writable) = self.writable {
            fsconfig_set_string(fs.as_fd(), "upperdir", writable.join("upper"))?;
            fsconfig_set_string(fs.as_fd(), "workdir", writable.join("work"))?;
        }
        for (name, value) in self.options {
            match value {
                Some(value) => fsconfig_set_string(fs.as_fd(), *name, *value)?,
                None => fsconfig_set_flag(fs.as_fd(), *name)?,
            }
        }
        fsconfig_create(fs.as_fd())?;
        Ok(fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, self.attributes)?)
    }

    /// The line of options has the room of one page: layers are named from their directory, in a few bytes each.
    fn by_options(&self) -> io::Result<OwnedFd> {
        let mut line = b"lowerdir=".to_vec();
        line.extend(self.lowers.join(":").into_bytes());
        if let Some(writable) = self.writable {
            for (name, part) in [("upperdir", "upper"), ("workdir", "work")] {
                line.extend(format!(",{name}=").into_bytes());
                line.extend(writable.join(part).as_os_str().as_bytes());
            }
        }
        for (name, value) in self.options {
            let option = value.map_or_else(|| format!(",{name}"), |value| format!(",{name}={value}"));
            line.extend(option.into_bytes());
        }
        let line = CString::new(line)?;
        let made = self.directory.join("made");
        fs::create_dir(&made)?;
        let before = env::current_dir()?;
        env::set_current_dir(self.directory)?;
        let mounted = mount(self.source, &made, "overlay", flags(self.attributes), line.as_c_str());
        env::set_current_dir(before)?;
        mounted?;
        let detached = open_tree(CWD, &made, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC);
        unmount(&made, UnmountFlags::DETACH)?;
        fs::remove_dir(&made)?;
        Ok(detached?)
    }
}

/// The same attributes for mount(2).
fn flags(attributes: MountAttrFlags) -> MountFlags {
    let pairs = [
        (MountAttrFlags::MOUNT_ATTR_NODEV, MountFlags::NODEV),
        (MountAttrFlags::MOUNT_ATTR_NOSUID, MountFlags::NOSUID),
        (MountAttrFlags::MOUNT_ATTR_RDONLY, MountFlags::RDONLY),
    ];
    pairs
        .into_iter()
        .filter(|(attribute, _)| attributes.contains(*attribute))
        .fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
}
