//! An earlier log that an evaluation goes on from: what of it is finished is kept, the rest runs.
//!
//! The log may come from anyone. Nothing of it is used before its audit chain was found whole and its own. Where a checkpoint
//! vouches for a killed run, a sample is kept only if its digest is in the signed part of the chain.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use log::audit::{self, Audit, AuditError, Head};
use log::event::Score;
use log::message::Usage;
use log::{Glance, ReadError, Reader, SampleName, Status};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::invocation::Invocation;
use crate::score::Judged;
use crate::solve::Spent;
use crate::task::Task;
use crate::vouched::Vouched;

/// Why a log cannot be gone on from.
#[derive(Debug, Error)]
pub enum EarlierError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Somebody writes it at this moment.
    #[error("the log `{}` is still being written", .0.display())]
    Alive(PathBuf),
    /// Another program's.
    #[error("the log `{}` is not of an evaluation by ringfence", .0.display())]
    NotOurs(PathBuf),
    /// It does not say how it was asked for.
    #[error("the log `{}` does not say how its evaluation was asked for: {why}", path.display())]
    Invocation {
        /// The log.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Its audit chain is missing or not whole.
    #[error("the audit chain of the log is not what it must be")]
    Chain(#[from] AuditError),
    /// It has ended, and does not say where its chain ends.
    #[error("the log `{}` does not say where its audit chain ends", .0.display())]
    NoHead(PathBuf),
    /// The chain is of another evaluation.
    #[error("the audit chain beside the log `{}` is of another evaluation", .0.display())]
    OtherChain(PathBuf),
    /// A sample is not the one whose digest the chain has.
    #[error("the sample `{id}` (epoch {epoch}) of the log `{}` was changed after it was recorded", path.display())]
    Altered {
        /// The log.
        path: PathBuf,
        /// The sample.
        id: String,
        /// Its epoch.
        epoch: u32,
    },
    /// The signed part of the chain does not belong to the log's header.
    #[error("the log `{}` says something else of its {what} than its signed audit chain", path.display())]
    OtherHeader {
        /// The log.
        path: PathBuf,
        /// What of it.
        what: &'static str,
    },
}

impl EarlierError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read(_) => "name a log: a file that ends with .eval or .json",
            Self::Alive(_) => "wait until it has ended, or end it",
            Self::NotOurs(_) => "only logs of `ringfence eval` can be gone on from; run the task with `ringfence eval`",
            Self::Invocation { .. } => "run the task anew with `ringfence eval`",
            Self::Altered { .. } | Self::OtherHeader { .. } => {
                "nothing of the log is kept; bring back the log as it was written, or run the task anew with `ringfence eval`"
            }
            Self::Chain(_) | Self::NoHead(_) | Self::OtherChain(_) => {
                "keep the log's .audit.jsonl beside it, unchanged; without it nothing of the log is kept: run the task anew \
                 with `ringfence eval`"
            }
        }
    }
}

/// An earlier log, opened and found whole.
pub struct Earlier {
    reader: Reader,
    digest: String,
    head: Head,
    invocation: Invocation,
    vouched: Vouched,
}

/// What a chain says of a finished sample.
struct Recorded {
    sha256: String,
    /// Whether no key ever vouched for it.
    unsigned: bool,
}

/// Binds a log's header to its chain: the digest of how the evaluation was asked for, as the header has it.
pub(crate) fn invocation_digest(spec: &Value) -> String {
    crate::task::sha256(log::canonical(&spec["metadata"]["ringfence"]["invocation"]).as_bytes())
}

fn usage(value: &Value) -> Option<BTreeMap<String, Usage>> {
    if value.is_null() { Some(BTreeMap::new()) } else { Deserialize::deserialize(value).ok() }
}

/// A finished sample of an earlier log.
pub(crate) struct Kept {
    /// Its place among the samples of the task.
    pub(crate) index: usize,
    pub(crate) glance: Glance,
    pub(crate) judged: Judged,
    pub(crate) spent: Spent,
    /// Whether no key ever vouched for it.
    pub(crate) unsigned: bool,
}

impl Earlier {
    /// Opens a log and checks it against its chain.
    pub fn open(path: &Path) -> Result<Self, EarlierError> {
        let reader = Reader::open(path)?;
        let own = || path.to_path_buf();
        let header = reader.header();
        let spec = header.get("eval").unwrap_or(&Value::Null);
        let ours = &spec["metadata"]["ringfence"];
        if !ours.is_object() {
            return Err(EarlierError::NotOurs(own()));
        }
        // A living writer holds a lock on what it writes.
        if reader.status() == Status::Started
            && let Err(TryLockError::WouldBlock) = File::open(path).map_or(Ok(()), |file| file.try_lock_shared())
        {
            return Err(EarlierError::Alive(own()));
        }
        let wrong = |why| EarlierError::Invocation { path: own(), why };
        let invocation = Invocation::read(&ours["invocation"]).map_err(wrong)?;
        let chain = Audit::beside(path);
        let stated = Head::deserialize(&spec["metadata"]["ringfence_audit"]).ok();
        let head = match (reader.status(), stated) {
            (Status::Started, None) => audit::verify_killed(&chain)?,
            (_, Some(stated)) => audit::verify(&chain, Some(&stated))?,
            (_, None) => return Err(EarlierError::NoHead(own())),
        };
        let first = audit::first(&chain)?;
        let is_own = |(kind, data): (String, Value)| {
            kind == "start" && data["eval_id"] == spec["eval_id"] && data["plan"] == ours["plan_hash"]
        };
        if !first.is_some_and(is_own) {
            return Err(EarlierError::OtherChain(own()));
        }
        // Of the file that was opened, whatever lies at its path by now.
        let digest = reader.digest()?;
        Ok(Self { reader, digest, head, invocation, vouched: Vouched::Nobody })
    }

    /// The same, vouched for. A checkpoint must be of this log's chain and header.
    pub fn vouched_by(self, vouched: Vouched) -> Result<Self, EarlierError> {
        if let Vouched::Checkpoint { .. } = vouched {
            let own = || self.reader.path().to_path_buf();
            let start = audit::first(&Audit::beside(self.reader.path()))?.map(|(_, data)| data).unwrap_or_default();
            let spec = self.spec();
            let pairs = [
                (start["model"] == spec["model"], "model"),
                (start["invocation"] == invocation_digest(spec), "invocation"),
            ];
            if let Some((_, what)) = pairs.into_iter().find(|(same, _)| !same) {
                return Err(EarlierError::OtherHeader { path: own(), what });
            }
        }
        Ok(Self { vouched, ..self })
    }

    /// SHA-256 of the file that was opened, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How it was asked for.
    pub fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// How it is kept.
    pub fn format(&self) -> log::Format {
        self.reader.format()
    }

    /// How it ended.
    pub fn status(&self) -> Status {
        self.reader.status()
    }

    fn spec(&self) -> &Value {
        self.reader.header().get("eval").unwrap_or(&Value::Null)
    }

    fn own(&self) -> &Value {
        &self.spec()["metadata"]["ringfence"]
    }

    /// The hash of its plan.
    pub fn plan_hash(&self) -> &str {
        self.own()["plan_hash"].as_str().unwrap_or_default()
    }

    /// Who was asked about calls, as its log has it.
    pub fn approval(&self) -> &Value {
        &self.own()["approval"]
    }

    /// The model that answered.
    pub fn model(&self) -> &str {
        self.spec()["model"].as_str().unwrap_or_default()
    }

    /// The set that it is a part of: the set's id, and which part.
    pub fn set(&self) -> Option<(&str, &str)> {
        Some((self.spec()["eval_set_id"].as_str()?, self.own()["set_key"].as_str()?))
    }

    /// The task's id, the same in all logs that go on from each other; none that could not be one of ours.
    pub(crate) fn task_id(&self) -> Option<&str> {
        let id = self.spec()["task_id"].as_str()?;
        (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
    }

    /// How many samples of this task are finished, and how many there are.
    pub fn finished_of(&self, task: &Task) -> Result<(usize, usize), EarlierError> {
        Ok((self.kept(task)?.len(), task.dataset.samples.len() * task.epochs.count as usize))
    }

    /// The digests that the chain has of these samples; those in its signed part only, where a checkpoint vouches for it.
    fn recorded(&self, wanted: &[(SampleName, u32)]) -> Result<HashMap<(SampleName, u32), Recorded>, EarlierError> {
        // Only of samples that are asked for: a chain may name any number of others.
        let wanted: HashSet<&(SampleName, u32)> = wanted.iter().collect();
        let signed = match &self.vouched {
            Vouched::Checkpoint { head, .. } => head,
            _ => &self.head,
        };
        let (mut found, mut reached) = (HashMap::new(), self.head.count == 0);
        audit::walk_killed(&Audit::beside(self.reader.path()), &mut |head, kind, data| {
            if head.count > signed.count {
                return;
            }
            reached |= head == signed;
            let name = SampleName::deserialize(&data["sample"]);
            let epoch = data["epoch"].as_u64().and_then(|epoch| u32::try_from(epoch).ok());
            if let ("sample", Ok(name), Some(epoch)) = (kind, name, epoch) {
                let key = (name, epoch);
                let sha256 = data["data"]["sha256"].as_str().unwrap_or_default().to_owned();
                if wanted.contains(&key) {
                    found.insert(key, Recorded { sha256, unsigned: data["data"]["unsigned"] == true });
                }
            }
        })?;
        // The file has changed since it was checked.
        if reached { Ok(found) } else { Err(EarlierError::OtherChain(self.reader.path().to_path_buf())) }
    }

    /// What is finished of a task: complete, its own, and without an error. What cannot be read runs again, and so does what
    /// the checkpoint of a killed run does not cover.
    pub(crate) fn kept(&self, task: &Task) -> Result<Vec<Kept>, EarlierError> {
        let samples = &task.dataset.samples;
        let every = (1..=task.epochs.count).flat_map(|epoch| (0..samples.len()).map(move |index| (index, epoch)));
        let (places, wanted): (Vec<usize>, Vec<(SampleName, u32)>) = every
            .filter_map(|(index, epoch)| Some((index, (SampleName::from(&samples.get(index)?.id), epoch))))
            .unzip();
        let found = self.reader.glances(&wanted)?;
        let mut recorded = self.recorded(&wanted)?;
        let recorded: Vec<Option<Recorded>> = wanted.iter().map(|name| recorded.remove(name)).collect();
        for (glance, recorded) in std::iter::zip(&found, &recorded) {
            if let (Some(glance), Some(recorded)) = (glance, recorded)
                && glance.sha256 != recorded.sha256
            {
                let (path, id) = (self.reader.path().to_path_buf(), glance.id.to_string());
                return Err(EarlierError::Altered { path, id, epoch: glance.epoch });
            }
        }
        let all = std::iter::zip(places, std::iter::zip(found, recorded));
        let kept = all.filter_map(|(index, (glance, recorded))| {
            let glance = glance.filter(|glance| !glance.failed)?;
            let unsigned = match (&self.vouched, recorded) {
                (Vouched::Checkpoint { .. }, None) => return None,
                (Vouched::Operator, _) => true,
                (_, recorded) => recorded.is_some_and(|recorded| recorded.unsigned),
            };
            let scores = match &glance.scores() {
                Value::Null => BTreeMap::new(),
                scores => BTreeMap::<String, Score>::deserialize(scores).ok()?,
            };
            let mut spent = Spent::default();
            spent.by_model = usage(&glance.model_usage())?;
            spent.by_role = usage(&glance.role_usage())?;
            let sample = samples.get(index)?;
            let judged = Judged::new(sample.id.clone(), glance.epoch, &scores, &sample.metadata, &task.metrics);
            Some(Kept { index, glance, judged, spent, unsigned })
        });
        Ok(kept.collect())
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// What the new log and its chain say about it.
    pub(crate) fn told(&self, kept: &[Kept]) -> Value {
        let name = self.reader.path().file_name().unwrap_or_default().to_string_lossy();
        let mut told = Map::new();
        told.insert("log".into(), json!(name));
        told.insert("sha256".into(), json!(self.digest));
        told.insert("status".into(), json!(self.status()));
        told.insert("audit".into(), json!({"count": self.head.count, "hash": self.head.hash}));
        told.insert("samples".into(), json!(kept.len()));
        let inherited = self.vouched != Vouched::Operator && kept.iter().any(|one| one.unsigned);
        told.insert("vouched".into(), self.vouched.to_json(inherited));
        Value::Object(told)
    }
}
