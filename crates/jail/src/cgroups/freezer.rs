//! Freezing all processes of a sandbox at once, by the kernel: `cgroup.freeze` of v2, or the `freezer` controller of v1.
//!
//! Nothing inside can undo it, unlike a SIGSTOP, which any SIGCONT ends: a process can have a POSIX timer send it one.
//! A sandbox that has a v2 group is frozen there. Where its limits are held by v1 groups, its processes are moved into a
//! group that is only for this, the first time that it is frozen: so ordinary sandboxes need no further group.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use super::{Group, Hierarchy, Parents, Version, write_at};

/// Time that processes may take to be moved and to stand still.
const DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(1);

/// A group whose processes are frozen until [`Frozen::thaw`].
#[derive(Debug)]
pub(crate) struct Frozen {
    directory: OwnedFd,
    version: Version,
}

/// Directories in which a group for freezing can be made, the better ones first: processes that are frozen in v2 can be
/// killed, in v1 they cannot.
pub(super) fn places(hierarchies: &[Hierarchy]) -> Vec<(OwnedFd, Version)> {
    let freezes = |hierarchy: &&Hierarchy| match hierarchy.version {
        Version::Two => true,
        Version::One => hierarchy.controllers.iter().any(|controller| controller == "freezer"),
    };
    let mut found: Vec<&Hierarchy> = hierarchies.iter().filter(freezes).collect();
    found.sort_by_key(|hierarchy| hierarchy.version == Version::One);
    let opened = found.into_iter().map(|hierarchy| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Some((open(&hierarchy.directory, flags, Mode::empty()).ok()?, hierarchy.version))
    });
    opened.flatten().collect()
}

impl Parents {
    /// Freezes every process of a sandbox, its guest too, and returns when all stand still.
    pub(crate) fn freeze(&self, group: &mut Group) -> io::Result<Frozen> {
        let own = self.parents.iter().find(|(_, version, _)| *version == Version::Two);
        if let Some((parent, version, _)) = own {
            let frozen = Frozen { directory: directory(parent, &group.name)?, version: *version };
            return frozen.complete(|| Ok(true));
        }
        let Some((members, ..)) = self.parents.first() else { return Err(Errno::OPNOTSUPP.into()) };
        let mut last = Errno::OPNOTSUPP.into();
        for (place, version) in &self.freezers {
            match borrow(place, *version, group).and_then(|frozen| {
                let procs = format!("{}/cgroup.procs", group.name);
                frozen.complete(|| move_all(&read(members, &procs)?, &read(place, &procs)?, place, &procs))
            }) {
                Ok(frozen) => return Ok(frozen),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The group of this name that is only for freezing.
fn borrow(place: &OwnedFd, version: Version, group: &mut Group) -> io::Result<Frozen> {
    match mkdirat(place, group.name.as_str(), Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => group.lent = true,
        Err(errno) => return Err(errno.into()),
    }
    Ok(Frozen { directory: directory(place, &group.name)?, version })
}

/// Moves those that are not in the group yet; whether none was missing. What is moved into a frozen group is frozen, so a
/// process that forks meanwhile gets no further than this has passes.
fn move_all(all: &str, moved: &str, place: &OwnedFd, procs: &str) -> io::Result<bool> {
    let moved: BTreeSet<&str> = moved.lines().collect();
    let missing: Vec<&str> = all.lines().filter(|pid| !moved.contains(pid)).collect();
    for pid in &missing {
        match write_at(place, procs, pid) {
            // It is gone.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            result => result?,
        }
    }
    Ok(missing.is_empty())
}

impl Frozen {
    /// Freezes and waits until `is_complete` says that all processes are here, and the kernel that they stand still.
    /// Otherwise they go on.
    fn complete(self, mut is_complete: impl FnMut() -> io::Result<bool>) -> io::Result<Self> {
        let (file, frozen) = match self.version {
            Version::One => ("freezer.state", "FROZEN"),
            Version::Two => ("cgroup.freeze", "1"),
        };
        let start = Instant::now();
        let mut stand_still = || -> io::Result<()> {
            write_at(&self.directory, file, frozen)?;
            loop {
                if is_complete()? && self.is_frozen()? {
                    return Ok(());
                }
                if start.elapsed() > DEADLINE {
                    return Err(Errno::TIMEDOUT.into());
                }
                std::thread::sleep(POLL);
            }
        };
        match stand_still() {
            Ok(()) => Ok(self),
            Err(error) => {
                let _ = self.thaw();
                Err(error)
            }
        }
    }

    fn is_frozen(&self) -> io::Result<bool> {
        Ok(match self.version {
            Version::One => read(&self.directory, "freezer.state")?.trim() == "FROZEN",
            Version::Two => read(&self.directory, "cgroup.events")?.lines().any(|line| line == "frozen 1"),
        })
    }

    /// Lets the processes go on.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        match self.version {
            Version::One => write_at(&self.directory, "freezer.state", "THAWED"),
            Version::Two => write_at(&self.directory, "cgroup.freeze", "0"),
        }
    }
}

fn directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn read(directory: &OwnedFd, file: &str) -> io::Result<String> {
    let file = openat(directory, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    std::fs::File::from(file).read_to_string(&mut text)?;
    Ok(text)
}
