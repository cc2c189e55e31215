//! Whether other users can replace a directory: by what they may do to the directories above it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{getegid, geteuid};

/// Refuses a path that another user could turn to a directory of theirs: one above it, wherever links lead, is another user's,
/// or others may write to it. A sticky one (as /tmp is) lets only owners rename what is in it.
pub(crate) fn check_way(path: &Path) -> io::Result<()> {
    // What links are in the way is decided by directories too: those that are named, and those that they lead to.
    let named = std::path::absolute(path)?;
    let real = fs::canonicalize(path)?;
    for directory in named.ancestors().chain(real.ancestors()) {
        let metadata = fs::symlink_metadata(directory)?;
        if let Some(why) = replaceable(&metadata) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", directory.display())));
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
