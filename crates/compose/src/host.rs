//! Paths of the host in a Compose file: which of them a task may name.
//!
//! Somebody else may have written the file. What it names ends inside a sandbox, so it may name what is the task's own.

use std::fmt::Display;
use std::io;
use std::path::Path;

use profile::{Located, Place};

use crate::names::{Beyond, HostPath};
use crate::reading::Reading;

/// What a path is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The directory that a build sees.
    Context,
    /// The instructions of a build.
    Dockerfile,
    /// Variables.
    EnvFile,
    /// Something that is mounted.
    Bind,
    /// Another Compose file.
    Include,
}

impl Use {
    fn key(self) -> &'static str {
        match self {
            Self::Context => "build.context",
            Self::Dockerfile => "build.dockerfile",
            Self::EnvFile => "env_file",
            Self::Bind => "volumes",
            Self::Include => "include",
        }
    }
}

/// A path as seen from the file that is read; refused with its reason if it is not within reach.
pub(crate) fn path(reading: &Reading, written: &Located<String>, what_for: Use) -> Option<Located<HostPath>> {
    path_from(reading, written, what_for, &reading.base)
}

/// The same as seen from another directory.
pub(crate) fn path_from(
    reading: &Reading,
    written: &Located<String>,
    what_for: Use,
    base: &Path,
) -> Option<Located<HostPath>> {
    let place = written.place.unwrap_or(Place { line: 1, column: 1 });
    let shown: String = written.value.chars().take(120).collect();
    let refuse = |why: &dyn Display, hint: Option<&str>| {
        reading.refuse_with_hint(place, what_for.key(), format_args!("`{shown}`"), format_args!("it {why}"), hint);
    };
    match HostPath::resolve(&written.value, base, reading.around.levels_up) {
        Ok(path) => {
            // Whatever the way to it, what profiles never mount is not mounted.
            if what_for == Use::Bind
                && let Some(why) = never_mounted(&path.below().to_string_lossy())
            {
                refuse(&why, None);
                return None;
            }
            return Some(Located { value: path, place: written.place });
        }
        Err(Beyond::Malformed) => reading.problem(place, format!("`{}`: `{shown}` is not a path", what_for.key())),
        Err(beyond) => {
            let hint = match what_for {
                Use::Bind => "put it beside the Compose file, or grant it under `mounts:` in the profile document",
                _ => "put it beside the Compose file",
            };
            match never_mounted(&written.value) {
                // Of these nothing can be granted.
                Some(why) if beyond != Beyond::Above => refuse(&why, None),
                _ => refuse(&beyond, Some(hint)),
            }
        }
    }
    None
}

/// What makes a path one that profiles never mount.
fn never_mounted(path: &str) -> Option<&'static str> {
    match profile::check_mount_source(path) {
        Err(profile::MountError::Source { why, .. }) => Some(why),
        _ => None,
    }
}

/// A file's text.
pub(crate) fn read(reading: &Reading, path: &HostPath) -> io::Result<String> {
    let text = (reading.around.files)(path.as_path())?;
    if text.len() > crate::MAX_FILE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} bytes", crate::MAX_FILE_BYTES),
        ));
    }
    Ok(text)
}
