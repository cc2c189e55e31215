//! Whole directories to and from a sandbox.
//!
//! What comes out is the workload's choice: names are checked, links and special files are left out and said so, and
//! everything is bounded. It goes only into a directory that this makes itself, so nothing of the host is in its way.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;
use wire::{Entry, FileKind};

use crate::sandbox::Sandbox;
use crate::session::SessionError;

/// What one transfer may be.
#[derive(Debug, Clone, Copy)]
pub struct TreeLimits {
    /// Files and directories.
    pub entries: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Directories within directories.
    pub depth: usize,
    /// Bytes of all paths together: those that are still to be read, and those that were left out, are kept.
    pub paths: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self { entries: 10_000, bytes: 1 << 30, depth: 32, paths: 16 << 20 }
    }
}

/// Why a directory could not be transferred.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The sandbox's side.
    #[error("cannot transfer `{path}`")]
    Sandbox {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: SessionError,
    },
    /// The host's side.
    #[error("cannot transfer `{}`", path.display())]
    Host {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// More than the limits allow.
    #[error("the directory has more entries, bytes or levels than a transfer may have")]
    TooLarge,
    /// A name that is no name.
    #[error("the sandbox has a file whose name cannot be used here: {0:?}")]
    Name(String),
}

/// What was transferred, and what was left out because it is neither file nor directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Files.
    pub files: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Links, pipes, sockets and devices that were left out, by path.
    pub left_out: Vec<String>,
}

impl Sandbox {
    /// Copies a host directory to `target` inside.
    pub async fn upload(&self, source: &Path, target: &str, limits: TreeLimits) -> Result<Transferred, TreeError> {
        let mut done = Transferred::default();
        let mut open = vec![(source.to_owned(), target.trim_end_matches('/').to_owned(), 0)];
        let mut seen = 0;
        while let Some((directory, inside, depth)) = open.pop() {
            let host = |path: &Path| {
                let path = path.to_owned();
                |source| TreeError::Host { path, source }
            };
            for entry in fs::read_dir(&directory).map_err(host(&directory))? {
                let path = entry.map_err(host(&directory))?.path();
                seen += 1;
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let place = format!("{inside}/{name}");
                let metadata = fs::symlink_metadata(&path).map_err(host(&path))?;
                if metadata.is_dir() {
                    open.push((path, place, depth + 1));
                } else if metadata.is_file() {
                    done.bytes += metadata.len();
                    if done.bytes > limits.bytes {
                        return Err(TreeError::TooLarge);
                    }
                    let contents = fs::read(&path).map_err(host(&path))?;
                    let sent = self.write_file(&place, &contents, metadata.permissions().mode() & 0o777).await;
                    sent.map_err(|source| TreeError::Sandbox { path: place, source })?;
                    done.files += 1;
                } else {
                    done.left_out.push(place);
                }
                if seen > limits.entries || depth > limits.depth {
                    return Err(TreeError::TooLarge);
                }
            }
        }
        Ok(done)
    }

    /// Copies a directory of the sandbox to `target` on the host, which must not exist.
    pub async fn download(&self, source: &str, target: &Path, limits: TreeLimits) -> Result<Transferred, TreeError> {
        let mut done = Transferred::default();
        let mut open = vec![(source.trim_end_matches('/').to_owned(), target.to_owned(), 0)];
        let (mut seen, mut paths) = (0, 0_usize);
        while let Some((inside, directory, depth)) = open.pop() {
            // Fails where something is: never into, through or over anything of the host's.
            fs::create_dir(&directory).map_err(|source| TreeError::Host { path: directory.clone(), source })?;
            let entries =
                self.list(&inside).await.map_err(|source| TreeError::Sandbox { path: inside.clone(), source })?;
            for Entry { name, stat } in entries {
                seen += 1;
                if seen > limits.entries || depth > limits.depth {
                    return Err(TreeError::TooLarge);
                }
                let shown = String::from_utf8_lossy(&name).into_owned();
                if name.is_empty() || name.contains(&b'/') || name.contains(&0) || name == b"." || name == b".." {
                    return Err(TreeError::Name(shown));
                }
                // The guest is asked by text; a name that is none cannot be asked for.
                let Ok(name) = std::str::from_utf8(&name) else { return Err(TreeError::Name(shown)) };
                let (place, path) =
                    (format!("{inside}/{name}"), directory.join(std::ffi::OsStr::from_bytes(name.as_bytes())));
                paths = paths.saturating_add(place.len());
                if paths > limits.paths {
                    return Err(TreeError::TooLarge);
                }
                match stat.kind {
                    FileKind::Directory => open.push((place, path, depth + 1)),
                    FileKind::File => {
                        let left = limits.bytes.saturating_sub(done.bytes);
                        let contents = self
                            .read_file(&place, left)
                            .await
                            .map_err(|source| TreeError::Sandbox { path: place, source })?;
                        done.bytes += u64::try_from(contents.len()).unwrap_or(u64::MAX);
                        done.files += 1;
                        save(&path, &contents, stat.permissions).map_err(|source| TreeError::Host { path, source })?;
                    }
                    FileKind::Link | FileKind::Other => done.left_out.push(place),
                }
            }
        }
        Ok(done)
    }
}

/// A new file, without the bits that mean more than permissions.
fn save(path: &Path, contents: &[u8], permissions: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(permissions & 0o777).open(path)?;
    file.write_all(contents)
}
