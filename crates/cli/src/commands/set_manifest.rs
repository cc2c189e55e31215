//! `eval-set.json`: what a set is made of, written whole or not at all.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use eval::Job;
use serde::{Deserialize, Serialize};

/// Its name in the log directory.
pub(super) const NAME: &str = "eval-set.json";
const SCHEMA: &str = "ringfence.eval-set/1";
/// The largest that is read.
const MOST_BYTES: u64 = 64 << 20;

/// A set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema: String,
    /// Inspect's `eval_set_id`.
    pub(super) id: String,
    /// One task with one model each, in the order in which they were named.
    evaluations: Vec<Entry>,
}

/// One task with one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Which part it is.
    pub(super) key: String,
    task: String,
    file: String,
    model: String,
    profile: String,
    plan: String,
    /// As its log has it; `open` before it has ended.
    pub(super) status: String,
    /// The name of its log.
    pub(super) log: Option<String>,
}

impl Entry {
    pub(super) fn of(job: &Job, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            task: job.task.name.clone(),
            file: job.invocation.task_path.clone(),
            model: job.models.agent().name().to_owned(),
            profile: job.plan.profile.to_string(),
            plan: job.plan.hash(),
            status: "open".into(),
            log: None,
        }
    }
}

impl Manifest {
    /// The one of a directory, or a new one.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let file = match File::open(directory.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { schema: SCHEMA.into(), id: eval::unique_name(), evaluations: Vec::new() });
            }
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut text)?;
        let manifest: Self = serde_json::from_slice(&text)?;
        if manifest.schema == SCHEMA {
            Ok(manifest)
        } else {
            Err(io::Error::other(format!("it is not of the kind {SCHEMA}")))
        }
    }

    /// Takes entries in, in the place of those of the same parts.
    pub(super) fn take(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            match self.evaluations.iter_mut().find(|known| known.key == entry.key) {
                Some(known) => *known = entry,
                None => self.evaluations.push(entry),
            }
        }
    }

    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(&directory.join(NAME), &text)
    }
}

/// Gives a file another content, in one step.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".eval-set.").suffix(".partial").tempfile_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(rights)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
