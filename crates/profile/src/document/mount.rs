//! Mounts: host directories shown inside, each an affordance.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;

use super::file_tools::Root;

/// Whether the workload may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MountMode {
    /// It may only read; the default.
    ReadOnly,
    /// It may write to the host's files.
    ReadWrite,
}

/// A host path shown inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The host's path; relative to the document.
    pub source: String,
    /// The absolute path inside.
    pub target: String,
    /// Whether the workload may write.
    pub mode: MountMode,
}

/// Why a text is not a mount, or not one we make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// Not `SRC:DST[:ro|rw]`.
    #[error("`{0}` is not a mount; write SOURCE:TARGET or SOURCE:TARGET:rw (read-only is the default)")]
    Shape(String),
    /// A target that would hide or replace what the sandbox is made of.
    #[error("`{0}` cannot be a mount's target: the sandbox keeps it for itself")]
    Target(String),
    /// A source whose very content is a way out.
    #[error("`{path}` cannot be mounted: it {why}")]
    Source {
        /// The path.
        path: String,
        /// What makes it dangerous.
        why: &'static str,
    },
}

/// Directories that are a way out as a whole: neither they, nor what holds them, nor what is in them is mounted.
const NEVER_SOURCES: &[(&str, &str)] = &[
    ("/run", "holds the sockets of host daemons"),
    ("/var/run", "holds the sockets of host daemons"),
    ("/proc", "is the host's kernel interface"),
    ("/sys", "is the host's kernel interface"),
    ("/dev", "is the host's devices"),
    ("/etc", "is the host's configuration"),
    ("/boot", "is the host's kernel"),
    ("/var/lib/docker", "holds the file systems of other containers"),
    ("/var/lib/containerd", "holds the file systems of other containers"),
];
/// Directories of which only parts may be mounted.
const NEVER_WHOLE: &[(&str, &str)] = &[("/home", "holds every user's files"), ("/root", "is a user's whole home")];
/// Names that hold credentials wherever they stand.
const CREDENTIALS: &[&[&str]] = &[
    &[".ssh"],
    &[".aws"],
    &[".azure"],
    &[".gnupg"],
    &[".kube"],
    &[".docker"],
    &[".netrc"],
    &[".git-credentials"],
    &[".config", "gcloud"],
    &[".config", "gh"],
];
/// Targets that the sandbox itself provides.
const NEVER_TARGETS: &[&str] = &["/proc", "/sys", "/dev"];

/// A path's parts without the ones that say nothing, so that `//run`, `/./run` and `/run/` are one path.
fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

/// Whether a host path may be mounted at all: not what is a way out by its very content.
pub fn check_mount_source(source: &str) -> Result<(), MountError> {
    let refuse = |why| Err(MountError::Source { path: source.to_owned(), why });
    let found = parts(source);
    if found.contains(&"..") {
        return refuse("has `..` in it, which hides where it leads");
    }
    if source.starts_with('/') {
        if found.is_empty() {
            return refuse("is the host's whole file system");
        }
        for (directory, why) in NEVER_SOURCES {
            let never = parts(directory);
            if found.starts_with(&never) || never.starts_with(&found) {
                return refuse(why);
            }
        }
        if let Some((_, why)) = NEVER_WHOLE.iter().find(|(directory, _)| found == parts(directory)) {
            return refuse(why);
        }
    }
    if CREDENTIALS.iter().any(|name| found.windows(name.len()).any(|window| window == *name)) {
        return refuse("holds credentials");
    }
    if found.last().is_some_and(|name| Path::new(name).extension().is_some_and(|extension| extension == "sock")) {
        return refuse("is a socket: read-only does not stop a connection to it");
    }
    Ok(())
}

/// Whether one of two targets would hide a part of the other.
pub(super) fn overlap(one: &Mount, other: &Mount) -> bool {
    let (one, other) = (parts(&one.target), parts(&other.target));
    one.starts_with(&other) || other.starts_with(&one)
}

impl FromStr for Mount {
    type Err = MountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = || MountError::Shape(text.to_owned());
        let pieces: Vec<&str> = text.split(':').collect();
        let (source, target, mode) = match pieces[..] {
            [source, target] | [source, target, "ro"] => (source, target, MountMode::ReadOnly),
            [source, target, "rw"] => (source, target, MountMode::ReadWrite),
            _ => return Err(shape()),
        };
        if source.is_empty() || text.contains('\0') {
            return Err(shape());
        }
        target.parse::<Root>().map_err(|_| shape())?;
        let inside = parts(target);
        if inside.is_empty() || NEVER_TARGETS.iter().any(|kept| inside.starts_with(&parts(kept))) {
            return Err(MountError::Target(target.to_owned()));
        }
        check_mount_source(source)?;
        Ok(Self { source: source.to_owned(), target: format!("/{}", inside.join("/")), mode })
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            MountMode::ReadOnly => "ro",
            MountMode::ReadWrite => "rw",
        };
        write!(f, "{}:{}:{mode}", self.source, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_only_unless_they_say_otherwise() {
        assert_eq!("data:/data".parse::<Mount>().unwrap().mode, MountMode::ReadOnly);
        assert_eq!("data:/data:ro".parse::<Mount>().unwrap().mode, MountMode::ReadOnly);
        assert_eq!("data:/data:rw".parse::<Mount>().unwrap().mode, MountMode::ReadWrite);
    }

    #[test]
    fn mounts_that_are_a_way_out_are_refused() {
        for text in [
            "/:/host",
            "//:/host",
            "/.:/x",
            "/./:/x:rw",
            "/run/docker.sock:/x",
            "/var/run:/x",
            "/run:/x",
            "//run:/x",
            "/./run:/x",
            "/var//run:/x",
            "/var:/x",
            "/proc:/x",
            "/sys/fs/cgroup:/x",
            "/dev:/x",
            "///dev:/x",
            "/etc:/x",
            "/etc/shadow:/x",
            "/home:/x",
            "/root/:/x",
            "/var/lib/docker/overlay2:/x",
            "/home/user/.ssh:/x",
            ".aws:/x",
            "/home/user/.config//gcloud/keys:/x",
            "/tmp/x/../../run:/x",
            "agent.sock:/x",
            "data:/proc",
            "data://proc",
            "data:/dev/shm",
            "data:/",
            "data:relative",
            "data:/a/../proc",
            "data",
            ":/x",
            "a:/b:c",
            "a:/b:ro:rw",
        ] {
            assert!(text.parse::<Mount>().is_err(), "{text}");
        }
        for text in ["/running/data:/x", "/home/user/project:/x", "/root/project:/x", "run:/x"] {
            assert!(text.parse::<Mount>().is_ok(), "{text}");
        }
    }
}
