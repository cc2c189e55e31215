//! Writes a log: the start at once, samples as they complete, the results at the end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::event::EvalError;
use crate::hashed::Hashed;
use crate::name;
use crate::plain::Plain;
use crate::zipped::Zipped;
use crate::{Format, Glance, LogError, ReadError, Reader, SampleName, SampleRecorder};

/// The version of Inspect's log schema.
const VERSION: u32 = 2;
/// What a killed writer leaves beside its log.
const PARTIAL: &str = "partial";
const LEFT: [&str; 3] = [".eval.partial", ".eval.aside.partial", ".json.partial"];

/// What is known when an evaluation begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Inspect's `EvalSpec`.
    pub spec: Value,
    /// Inspect's `EvalPlan`.
    pub plan: Value,
    /// The task's name, for the file's.
    pub task: String,
    /// The evaluation's id, for the file's name if the spec has no `task_id`.
    pub eval_id: String,
    /// When, in RFC 3339, for the file's name.
    pub created: String,
}

/// How an evaluation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did not end.
    Started,
    /// All was done.
    Success,
    /// Somebody stopped it.
    Cancelled,
    /// It failed.
    Error,
}

/// What is known when an evaluation ends.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// How.
    pub status: Status,
    /// Inspect's `EvalResults`.
    pub results: Option<Value>,
    /// Inspect's `EvalStats`.
    pub stats: Value,
    /// Why it failed.
    pub error: Option<EvalError>,
    /// Inspect's list of `EvalSampleReductions`.
    pub reductions: Option<Value>,
    /// What joins the spec's metadata, such as the audit chain's head.
    pub metadata: Map<String, Value>,
}

/// A log that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Where.
    pub path: PathBuf,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
}

/// Writes one log; clones write the same one.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    path: PathBuf,
    start: Start,
    sink: Mutex<Option<Sink>>,
}

/// Where samples go; gone when the log is finished.
enum Sink {
    Eval(Zipped),
    Json(Plain),
}

impl Recorder {
    /// Where a log of this beginning will be, in a directory that is there then; nothing else is made yet.
    pub fn place(directory: &Path, format: Format, start: &Start) -> Result<PathBuf, LogError> {
        // Whoever changes the working directory later does not move the log.
        let directory = &std::path::absolute(directory).map_err(LogError::io("find the directory", directory))?;
        let id = start.spec["task_id"].as_str().filter(|id| !id.is_empty()).unwrap_or(&start.eval_id);
        let path = directory.join(format!("{}.{}", name::stem(&start.created, &start.task, id), format.extension()));
        fs::create_dir_all(directory).map_err(LogError::io("make the directory", &path))?;
        if path.exists() { Err(LogError::Exists(path)) } else { Ok(path) }
    }

    /// Begins a log. `Format::Eval` is there at once; `Format::Json` appears at the end.
    pub fn create(directory: &Path, format: Format, start: Start) -> Result<Self, LogError> {
        Self::create_with(directory, format, start, None)
    }

    /// The same, with samples of an earlier log in it. It appears with all of them, or not at all: whoever is killed here
    /// leaves no log that has less than the earlier one.
    pub fn create_with(
        directory: &Path,
        format: Format,
        start: Start,
        earlier: Option<(&Reader, &[Glance])>,
    ) -> Result<Self, LogError> {
        Self::begin(Self::place(directory, format, &start)?, format, start, earlier)
    }

    /// Begins a log with a name of its own, which nothing may have yet.
    pub fn create_at(path: &Path, format: Format, start: Start) -> Result<Self, LogError> {
        let path = std::path::absolute(path).map_err(LogError::io("find the directory", path))?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(LogError::io("make the directory", &path))?;
        }
        if path.exists() { Err(LogError::Exists(path)) } else { Self::begin(path, format, start, None) }
    }

    fn begin(
        path: PathBuf,
        format: Format,
        start: Start,
        earlier: Option<(&Reader, &[Glance])>,
    ) -> Result<Self, LogError> {
        let directory = path.parent().unwrap_or(&path).to_path_buf();
        tidy(&directory);
        // Hidden, and without an ending that Inspect takes for a log.
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hidden = directory.join(format!(".{name}.{PARTIAL}"));
        let begin = |source| LogError::Io { action: "write the beginning", path: path.clone(), source };
        let sink = match format {
            Format::Eval => {
                let content = json!({"version": VERSION, "eval": start.spec, "plan": start.plan});
                let mut zipped = Zipped::begin(&directory, &path, &hidden, &content).map_err(begin)?;
                if let Some((reader, kept)) = earlier {
                    reader.each(kept, |index, content| {
                        let Some(glance @ Glance { id, epoch, sha256, .. }) = kept.get(index) else { return Ok(()) };
                        let mut content = content.map_err(keep(reader))?;
                        let squeezed =
                            Zipped::squeeze(&directory, |out| copy_same(&mut content, sha256, out)).map_err(begin)?;
                        zipped.add(name::entry(id, *epoch), squeezed, glance.summary()).map_err(begin)
                    })?;
                }
                zipped.appear().map_err(begin)?;
                Sink::Eval(zipped)
            }
            Format::Json => {
                let mut plain = Plain::create(&directory, &path, &hidden).map_err(begin)?;
                if let Some((reader, kept)) = earlier {
                    reader.each(kept, |index, content| {
                        let Some(Glance { id, epoch, sha256, .. }) = kept.get(index) else { return Ok(()) };
                        let mut content = content.map_err(keep(reader))?;
                        let copied = plain.sample(name::entry(id, *epoch), |out| copy_same(&mut content, sha256, out));
                        copied.map_err(begin)
                    })?;
                }
                Sink::Json(plain)
            }
        };
        let sink = Mutex::new(Some(sink));
        Ok(Self { shared: Arc::new(Shared { directory, path, start, sink }) })
    }

    /// Where the log is, or will be.
    pub fn path(&self) -> PathBuf {
        self.shared.path.clone()
    }

    /// Begins a sample. One that is recorded again takes the place of the earlier one.
    pub fn sample(&self, id: SampleName, epoch: u32) -> Result<SampleRecorder, LogError> {
        name::check(&id)?;
        SampleRecorder::new(Arc::clone(&self.shared), id, epoch)
    }

    /// Ends the log. If that fails, it can be tried again; until then the log reads as `started`.
    pub fn finish(&self, end: End) -> Result<Finished, LogError> {
        let shared = &self.shared;
        let reductions = end.reductions.clone();
        let header = header(&shared.start, end);
        let mut sink = shared.lock();
        match sink.as_mut().ok_or_else(|| LogError::Finished(shared.path.clone()))? {
            Sink::Eval(zipped) => zipped.finish(&header, reductions.as_ref()),
            Sink::Json(plain) => plain.finish(&header, reductions.as_ref()),
        }
        .map_err(shared.error("write the end"))?;
        *sink = None;
        let digest = digest(&shared.path).map_err(shared.error("read the digest"))?;
        Ok(Finished { path: shared.path.clone(), digest })
    }
}

impl Shared {
    pub(crate) fn error(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError {
        LogError::io(action, &self.path)
    }

    /// A lock that somebody panicked with is still good: sinks change only when a write has succeeded.
    fn lock(&self) -> MutexGuard<'_, Option<Sink>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a complete sample into the log.
    pub(crate) fn sample(
        &self,
        id: &SampleName,
        epoch: u32,
        summary: Value,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), LogError> {
        let finished = || LogError::Finished(self.path.clone());
        let is_eval = matches!(self.lock().as_ref().ok_or_else(finished)?, Sink::Eval(_));
        let result = if is_eval {
            // Compressed before the lock is taken: samples complete side by side.
            let squeezed = Zipped::squeeze(&self.directory, write).map_err(self.error("write a sample"))?;
            match self.lock().as_mut().ok_or_else(finished)? {
                Sink::Eval(zipped) => zipped.sample(name::entry(id, epoch), squeezed, summary),
                Sink::Json(_) => Ok(()),
            }
        } else {
            match self.lock().as_mut().ok_or_else(finished)? {
                Sink::Json(plain) => plain.sample(name::entry(id, epoch), write),
                Sink::Eval(_) => Ok(()),
            }
        };
        result.map_err(self.error("write a sample"))
    }
}

/// Inspect's `EvalLog` without samples.
fn header(start: &Start, end: End) -> Map<String, Value> {
    let mut spec = start.spec.clone();
    if !end.metadata.is_empty()
        && let Value::Object(spec) = &mut spec
    {
        let mut metadata = spec.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.extend(end.metadata);
        spec.insert("metadata".into(), Value::Object(metadata));
    }
    let fields = [
        ("version", Some(json!(VERSION))),
        ("status", Some(json!(end.status))),
        ("eval", Some(spec)),
        ("plan", Some(start.plan.clone())),
        ("results", end.results),
        ("stats", Some(end.stats)),
        ("error", end.error.map(|error| json!(error))),
    ];
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Copies a sample that was looked at before; fails if it has changed since, as the log may be another program's to write.
fn copy_same(content: &mut dyn io::Read, sha256: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut hash = Sha256::new();
    io::copy(&mut Hashed { inner: content, hash: &mut hash }, out)?;
    if crate::hex(&hash.finalize()) == sha256 {
        Ok(())
    } else {
        Err(io::Error::other("a sample of the earlier log has changed while it was copied"))
    }
}

fn keep(reader: &Reader) -> impl FnOnce(io::Error) -> LogError {
    |source| LogError::Keep(ReadError::Io { path: reader.path().to_path_buf(), source })
}

/// SHA-256 of a file, in hexadecimal; it is read in pieces.
pub fn digest(path: &Path) -> io::Result<String> {
    digest_of(&mut File::open(path)?)
}

/// The same of anything that is read.
pub(crate) fn digest_of(file: &mut dyn io::Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(crate::hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// Removes what killed writers left. A living one holds a lock; one that is just beginning may not hold it yet.
fn tidy(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours =
            name.to_str().is_some_and(|name| name.starts_with('.') && LEFT.iter().any(|end| name.ends_with(end)));
        let old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().filter(|age| *age > Duration::from_mins(1));
        if ours && old().is_some() && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
