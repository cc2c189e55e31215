//! Whether other users can replace a directory: by what they may do to the directories above it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

/// As many links as the kernel follows (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// Refuses a path that another user could turn to a directory of theirs: one above it, wherever links lead, is another user's,
/// or others may write to it. A sticky one (as /tmp is) lets only owners rename what is in it.
///
/// The path is resolved name by name, because each link on the way is decided by the directories above it: those of the last target
/// say nothing of a link in between.
pub(crate) fn check_way(path: &Path) -> io::Result<()> {
    let named = std::path::absolute(path)?;
    let mut ahead: VecDeque<OsString> = named.components().map(|part| part.as_os_str().to_owned()).collect();
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        // A pure step back (`..`) leads to a directory that was checked on the way here.
        let next = if name == ".." { at.parent().unwrap_or(&at).to_owned() } else { at.join(&name) };
        let metadata = fs::symlink_metadata(&next)?;
        if let Some(why) = replaceable(&metadata) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", next.display())));
        }
        if !metadata.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()));
        }
        let target = fs::read_link(&next)?;
        for part in target.components().rev() {
            ahead.push_front(part.as_os_str().to_owned());
        }
    }
    Ok(())
}

/// Why others can replace what is in a directory, or a link.
fn replaceable(metadata: &Metadata) -> Option<&'static str> {
    let ours = geteuid().as_raw();
    if metadata.uid() != ours && metadata.uid() != 0 {
        return Some("belongs to another user, who could choose what runs");
    }
    // A link has no mode of its own.
    let is_open = metadata.is_dir() && metadata.mode() & 0o1000 == 0;
    // A group of one's own (its number is the user's) has no other members; umask 002 relies on it.
    let by_group = metadata.mode() & 0o020 != 0 && !(metadata.gid() == ours && getegid().as_raw() == ours);
    let by_others = metadata.mode() & 0o002 != 0;
    (is_open && (by_group || by_others)).then_some("can be written by other users, who could choose what runs")
}
