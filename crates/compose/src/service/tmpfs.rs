//! Memory that is mounted: `tmpfs`, and volumes of that type.

use profile::Place;
use profile::source::{Node, Value};

use super::mounts::{Access, Mount, MountSource, target};
use crate::reading::Reading;
use crate::rules::MOUNT_TMPFS_KEYS;
use crate::section::Section;
use crate::units::bytes;

/// Memory that looks like a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tmpfs {
    /// Bytes at most.
    pub size: Option<u64>,
    /// Permission bits of the directory.
    pub mode: Option<u32>,
    /// Its owner.
    pub uid: Option<u32>,
    /// Its group.
    pub gid: Option<u32>,
    /// Whether programs in it may run; absent means as the provider has it.
    pub exec: Option<bool>,
}

/// The options of the long form.
pub(super) fn options(reading: &Reading, node: Node) -> Option<Tmpfs> {
    let mut keys = Section::open(reading, node, "`tmpfs`", MOUNT_TMPFS_KEYS)?;
    let size = keys.parsed("size", bytes).map(|size| size.value).filter(|size| *size > 0);
    let mode = keys.take("mode").and_then(|node| {
        // YAML has several opinions on what a bare 0755 is.
        let mode = if let Value::Text(text) = &node.value { octal(text) } else { None };
        if mode.is_none() {
            let hint = "write \"1777\", with the quotes";
            reading.problem_with_hint(node.place, "`mode` must be a text of octal digits", hint);
        }
        mode
    });
    keys.finish();
    Some(Tmpfs { size, mode, ..Tmpfs::default() })
}

fn octal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777)
}

/// `PATH` or `PATH:OPTIONS`.
pub(super) fn short(reading: &Reading, place: Place, text: &str) -> Option<Mount> {
    let (inside, options) = text.split_once(':').unwrap_or((text, ""));
    let inside = target(reading, place, inside);
    let mut tmpfs = Tmpfs::default();
    let mut access = Access::ReadWrite;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let known = match option.split_once('=').unwrap_or((option, "")) {
            ("size", size) => bytes(size).map(|size| tmpfs.size = Some(size).filter(|size| *size > 0)).is_ok(),
            ("mode", mode) => octal(mode).map(|mode| tmpfs.mode = Some(mode)).is_some(),
            ("uid", uid) => uid.parse().map(|uid| tmpfs.uid = Some(uid)).is_ok(),
            ("gid", gid) => gid.parse().map(|gid| tmpfs.gid = Some(gid)).is_ok(),
            ("exec", "") => {
                tmpfs.exec = Some(true);
                true
            }
            ("noexec", "") => {
                tmpfs.exec = Some(false);
                true
            }
            ("ro", "") => {
                access = Access::ReadOnly;
                true
            }
            ("rw" | "nosuid" | "nodev" | "noatime" | "relatime" | "nodiratime", "") => true,
            ("suid" | "dev", "") => {
                reading.refuse(
                    place,
                    "tmpfs",
                    format_args!("`{option}` on memory"),
                    "files of the sandbox's own making would have rights",
                );
                true
            }
            _ => false,
        };
        if !known {
            let shown: String = option.chars().take(40).collect();
            reading.problem(place, format!("unknown option `{shown}` of `tmpfs`"));
        }
    }
    Some(Mount { target: inside?, source: MountSource::Tmpfs(tmpfs), access })
}
