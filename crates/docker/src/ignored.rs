//! What `.dockerignore` keeps out of a build.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use profile::Glob;
use rustix::fs::OFlags;
use sandbox::ContextPart;

/// The longest list.
const MAX_FILE: u64 = 1 << 20;
/// Globs are of paths below something; these begin at the directory itself.
const ROOT: &str = "root";

/// Lines of a list in their order: the last that holds decides.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    lines: Vec<(Glob, bool)>,
    /// Sent whatever the list says: the builder needs them.
    needed: Vec<String>,
}

/// A list of at most so many bytes. A link could lead to anything, and a pipe would have us wait for ever.
fn bounded(path: &Path) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(text)
}

impl Ignored {
    /// The list of a directory; none means that all is sent.
    pub(crate) fn read(directory: &Path, dockerfile: &str) -> io::Result<Self> {
        let path = directory.join(".dockerignore");
        let text = match bounded(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?,
        };
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim) {
            let (pattern, ignores) = line.strip_prefix('!').map_or((line, true), |rest| (rest.trim(), false));
            let pattern = pattern.trim_matches('/').trim_start_matches("./");
            if pattern.is_empty() || line.starts_with('#') || pattern == "." {
                continue;
            }
            let glob: Glob = format!("{ROOT}/{pattern}")
                .parse()
                .map_err(|why| io::Error::other(format!("{}: {why}", path.display())))?;
            lines.push((glob, ignores));
        }
        Ok(Self { lines, needed: vec![dockerfile.to_owned(), ".dockerignore".to_owned()] })
    }

    /// Whether a path below the directory is left out.
    pub(crate) fn covers(&self, path: &str) -> bool {
        if self.needed.iter().any(|needed| needed == path) {
            return false;
        }
        let path = format!("{ROOT}/{path}");
        self.lines.iter().rfind(|(glob, _)| glob.covers(&path)).is_some_and(|(_, ignores)| *ignores)
    }

    /// What happens to a path below the directory. A name that is not UTF-8 is not sent at all: the build fails.
    pub(crate) fn part(&self, below: &Path) -> ContextPart {
        match below.to_str().is_some_and(|below| self.covers(below)) {
            false => ContextPart::Sent,
            true if self.has_exceptions() => ContextPart::LeftOut,
            true => ContextPart::LeftOutWhole,
        }
    }

    /// Whether something may be sent that lies in a directory that is left out.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.lines.iter().any(|(_, ignores)| !ignores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_no_file_or_without_end_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let list = place.path().join(".dockerignore");
        let refused = || {
            let error = Ignored::read(place.path(), "Dockerfile").unwrap_err();
            std::fs::remove_file(&list).unwrap();
            assert!(error.to_string().contains(".dockerignore"), "{error}");
        };
        std::os::unix::fs::symlink("/dev/zero", &list).unwrap();
        refused();
        rustix::fs::mknodat(rustix::fs::CWD, &list, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        refused();
        std::fs::write(&list, vec![b'#'; usize::try_from(MAX_FILE).unwrap() + 1]).unwrap();
        refused();
    }
}
