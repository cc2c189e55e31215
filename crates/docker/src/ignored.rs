//! What `.dockerignore` keeps out of a build.

use std::io;
use std::path::Path;

use profile::Glob;

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

impl Ignored {
    /// The list of a directory; none means that all is sent.
    pub(crate) fn read(directory: &Path, dockerfile: &str) -> io::Result<Self> {
        let path = directory.join(".dockerignore");
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Ok(metadata) if metadata.len() > MAX_FILE => {
                return Err(io::Error::other(format!("{} is longer than {MAX_FILE} bytes", path.display())));
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let mut lines = Vec::new();
        for line in std::fs::read_to_string(&path)?.lines().map(str::trim) {
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

    /// Whether something may be sent that lies in a directory that is left out.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.lines.iter().any(|(_, ignores)| !ignores)
    }
}
