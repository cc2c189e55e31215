//! Names and paths: parsed once, then a proof.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

/// The longest name: services are names on a network, and a label has 63 characters.
const MAX_NAME: usize = 63;
/// The longest path that Linux takes.
const MAX_PATH: usize = 4096;

/// A text that is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name; it has 1 to 63 letters, digits, `.`, `_` and `-`, and begins with a letter or digit")]
pub struct NameError(String);

/// A name of one kind of thing in a Compose file.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The name as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
                let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
                if begins && text.len() <= MAX_NAME && text.chars().all(good) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(NameError(text.chars().take(MAX_NAME + 1).collect()))
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The name of a service.
    ServiceName
}
name! {
    /// The name of a network.
    NetworkName
}
name! {
    /// The name of a volume.
    VolumeName
}

/// An absolute path inside a container, without `.`, `..`, doubled or closing slashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ContainerPath(String);

/// A text that is no path inside a container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a path inside a container; it begins with `/` and has no `..`")]
pub struct ContainerPathError(String);

impl ContainerPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `directory` or below it.
    pub fn is_within(&self, directory: &str) -> bool {
        Path::new(&self.0).starts_with(directory)
    }
}

impl FromStr for ContainerPath {
    type Err = ContainerPathError;

    fn from_str(text: &str) -> Result<Self, ContainerPathError> {
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let bad = !text.starts_with('/')
            || text.len() > MAX_PATH
            || text.chars().any(char::is_control)
            || parts.contains(&"..");
        if bad {
            return Err(ContainerPathError(text.chars().take(80).collect()));
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }
}

impl fmt::Display for ContainerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path on the host, relative to the directory of the Compose file that was read, and within reach of it.
///
/// The proof is one of words: whoever opens it must still see to it that no link leads elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct HostPath(PathBuf);

/// Why a host path is not within reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Beyond {
    /// It begins with `/`.
    #[error("is an absolute path of the host")]
    Absolute,
    /// It begins with `~`.
    #[error("is in a home of the host")]
    Home,
    /// It leaves the directories that belong to the task.
    #[error("leads out of the task's own directory")]
    Above,
    /// It is empty, too long, or has characters that no path has.
    #[error("is not a path")]
    Malformed,
}

impl HostPath {
    /// Takes `text` as seen from `base`; it may lead at most `levels_up` directories above the Compose file.
    pub(crate) fn resolve(text: &str, base: &Path, levels_up: usize) -> Result<Self, Beyond> {
        if text.is_empty() || text.len() > MAX_PATH || text.chars().any(char::is_control) {
            return Err(Beyond::Malformed);
        }
        if text.starts_with('~') {
            return Err(Beyond::Home);
        }
        let mut path = PathBuf::new();
        for component in base.join(text).components() {
            match component {
                Component::RootDir | Component::Prefix(_) => return Err(Beyond::Absolute),
                Component::CurDir => {}
                Component::Normal(part) => path.push(part),
                Component::ParentDir if matches!(path.components().next_back(), Some(Component::Normal(_))) => {
                    path.pop();
                }
                Component::ParentDir => path.push(".."),
            }
        }
        let up = path.components().take_while(|component| *component == Component::ParentDir).count();
        if up > levels_up { Err(Beyond::Above) } else { Ok(Self(path)) }
    }

    /// The path without the directories above that it begins with.
    pub(crate) fn below(&self) -> PathBuf {
        self.0.components().skip_while(|component| *component == Component::ParentDir).collect()
    }

    /// The path; empty for the directory itself.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_os_str().is_empty() { f.write_str(".") } else { self.0.display().fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_paths_stay_within_reach() {
        let cases = [
            ("a/b", "", 0, Ok("a/b")),
            ("./a/../b", "", 0, Ok("b")),
            (".", "", 0, Ok(".")),
            ("../a", "", 0, Err(Beyond::Above)),
            ("../a", "", 1, Ok("../a")),
            ("a/../../b", "", 0, Err(Beyond::Above)),
            ("../../a", "x", 1, Ok("../a")),
            ("../a", "x", 0, Ok("a")),
            ("../../a/b", "../c", 1, Err(Beyond::Above)),
            ("/etc", "x", 9, Err(Beyond::Absolute)),
            ("~/.ssh", "", 9, Err(Beyond::Home)),
            ("", "", 9, Err(Beyond::Malformed)),
            ("a\0b", "", 9, Err(Beyond::Malformed)),
        ];
        for (text, base, levels, expected) in cases {
            let found = HostPath::resolve(text, Path::new(base), levels).map(|path| path.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text} from {base}");
        }
    }

    #[test]
    fn container_paths_are_absolute_and_plain() {
        for (text, path) in [("/a//b/./c/", "/a/b/c"), ("/", "/"), ("/a b", "/a b")] {
            assert_eq!(text.parse::<ContainerPath>().unwrap().as_str(), path);
        }
        for text in ["", "a", "./a", "/a/../b", "/a\nb"] {
            assert!(text.parse::<ContainerPath>().is_err(), "{text:?}");
        }
        assert!("/dev/shm".parse::<ContainerPath>().unwrap().is_within("/dev"));
        assert!(!"/device".parse::<ContainerPath>().unwrap().is_within("/dev"));
    }

    #[test]
    fn names_are_short_and_plain() {
        for text in ["default", "a.b_c-1", "9"] {
            assert_eq!(text.parse::<ServiceName>().unwrap().as_str(), text);
        }
        for text in ["", "-a", ".a", "a b", "ä", "a/b", &"a".repeat(64)] {
            assert!(text.parse::<ServiceName>().is_err(), "{text:?}");
        }
    }
}
