//! Signs what a closed log says, and puts it beside the log.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use log::Reader;

use crate::envelope::{Envelope, EnvelopeError};
use crate::gather::{GatherError, gather};
use crate::key::SigningKey;
use crate::statement::{Predicate, Signer, Statement};

/// Why there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// There is nothing to be said.
    #[error("cannot read what the run was")]
    Gather(#[from] GatherError),
    /// There is too much to be said.
    #[error("cannot sign what the run was")]
    Envelope(#[from] EnvelopeError),
    /// The file system says no.
    #[error("cannot write the receipt `{}`", path.display())]
    Io {
        /// The receipt.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Where the receipt of a log is: beside it, as `_LOG.receipt.json`.
///
/// Inspect takes every file for a log whose name begins with a time and ends with `.json`; so this one begins with something else.
pub fn beside(log: &Path) -> PathBuf {
    let mut name = OsString::from("_");
    name.push(log.file_name().unwrap_or_default());
    name.push(ENDING);
    log.with_file_name(name)
}

const ENDING: &str = ".receipt.json";

/// Whether a file is a receipt, by its name: it is not a log, though it ends like one.
pub fn is_receipt(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENDING))
}

/// Signs what a closed log and its chain say. A receipt of an earlier state of the log is replaced, in one step.
pub fn issue(log: &Path, key: &SigningKey) -> Result<PathBuf, IssueError> {
    let reader = Reader::open(log).map_err(GatherError::Log)?;
    let predicate = Predicate {
        issued: log::rfc3339(SystemTime::now()),
        signer: Signer::of(key.public()),
        run: gather(log, &reader)?,
    };
    let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let digest = reader.digest().map_err(GatherError::Log)?;
    let statement = Statement::new(name, digest, predicate);
    let envelope = Envelope::sign(statement.to_bytes(), key)?;
    let path = beside(log);
    write(&path, &envelope.to_bytes()).map_err(|source| IssueError::Io { path: path.clone(), source })?;
    Ok(path)
}

/// Whole or not at all: under another name first, which the next writer of a log here tidies up after a crash.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    let hidden = path.with_file_name(name);
    let mut file = File::options().write(true).create_new(true).open(&hidden)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&hidden, path));
    if written.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    written?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
