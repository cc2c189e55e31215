//! Mounts: host directories shown inside, each an affordance.

use std::fmt;
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

/// Directories that hold sockets of daemons, kernel interfaces or everything.
const NEVER_SOURCES: &[(&str, &str)] = &[
    ("/run", "holds the sockets of host daemons"),
    ("/var/run", "holds the sockets of host daemons"),
    ("/proc", "is the host's kernel interface"),
    ("/sys", "is the host's kernel interface"),
    ("/dev", "is the host's devices"),
];
/// Names that hold credentials wherever they stand.
const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
];
/// Targets that the sandbox itself provides.
const NEVER_TARGETS: &[&str] = &["/proc", "/sys", "/dev"];

fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether `path` has the parts of `name` somewhere, one after the other.
fn has_part(path: &str, name: &str) -> bool {
    format!("/{path}/").contains(&format!("/{name}/"))
}

fn check_source(source: &str) -> Result<(), MountError> {
    let refuse = |why| Err(MountError::Source { path: source.to_owned(), why });
    let trimmed = source.trim_end_matches('/');
    if source.split('/').any(|part| part == "..") {
        return refuse("has `..` in it, which hides where it leads");
    }
    if trimmed.is_empty() {
        return refuse("is the host's whole file system");
    }
    if let Some((_, why)) = NEVER_SOURCES.iter().find(|(directory, _)| is_within(trimmed, directory)) {
        return refuse(why);
    }
    if CREDENTIALS.iter().any(|name| has_part(trimmed, name)) {
        return refuse("holds credentials");
    }
    if std::path::Path::new(trimmed).extension().is_some_and(|extension| extension == "sock") {
        return refuse("is a socket: read-only does not stop a connection to it");
    }
    Ok(())
}

impl FromStr for Mount {
    type Err = MountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = || MountError::Shape(text.to_owned());
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, mode) = match parts[..] {
            [source, target] | [source, target, "ro"] => (source, target, MountMode::ReadOnly),
            [source, target, "rw"] => (source, target, MountMode::ReadWrite),
            _ => return Err(shape()),
        };
        if source.is_empty() || text.contains('\0') {
            return Err(shape());
        }
        let target = target.parse::<Root>().map_err(|_| shape())?.0;
        let trimmed = target.trim_end_matches('/');
        if trimmed.is_empty() || NEVER_TARGETS.iter().any(|kept| is_within(trimmed, kept)) {
            return Err(MountError::Target(target));
        }
        check_source(source)?;
        Ok(Self { source: source.to_owned(), target, mode })
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
            "/run/docker.sock:/x",
            "/var/run:/x",
            "/run:/x",
            "/proc:/x",
            "/sys/fs/cgroup:/x",
            "/dev:/x",
            "/home/user/.ssh:/x",
            ".aws:/x",
            "/home/user/.config/gcloud/keys:/x",
            "/tmp/x/../../run:/x",
            "agent.sock:/x",
            "data:/proc",
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
        assert!("/running/data:/x".parse::<Mount>().is_ok());
    }
}
