//! An earlier log that an evaluation goes on from: what of it is finished is kept, the rest runs.
//!
//! The log may come from anyone. Nothing of it is used before its audit chain was found whole and its own. Where a checkpoint
//! vouches for a killed run, a sample is kept only if its digest is in the signed part of the chain.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
    /// Whether it is in the signed part of the chain, where a checkpoint vouches for it.
    covered: bool,
}

/// What a chain says of samples.
#[derive(Default)]
struct Records {
    finished: HashMap<(SampleName, u32), Recorded>,
    /// Results that the log before that one had, and that one did not keep.
    dropped: BTreeSet<(SampleName, u32, String, String)>,
}

/// Parts of a log's header that are decided on when an evaluation goes on from it, by the name that an error has for them. The last
/// one is all of it.
const BOUND: [(&str, &str); 8] = [
    ("model", "/model"),
    ("invocation", "/metadata/ringfence/invocation"),
    ("approval policy", "/metadata/ringfence/approval"),
    ("evaluation set", "/eval_set_id"),
    ("part of the set", "/metadata/ringfence/set_key"),
    ("task id", "/task_id"),
    ("scorers", "/scorers"),
    ("header", ""),
];

/// Binds a log's header to its chain: the digests of its parts, and of the whole. A killed run's header is not signed, but its
/// chain is.
pub(crate) fn header_digests(spec: &Value) -> Value {
    let digest = |pointer| {
        let part = spec.pointer(pointer).unwrap_or(&Value::Null);
        json!(crate::task::sha256(log::canonical(part).as_bytes()))
    };
    Value::Object(BOUND.iter().map(|(what, pointer)| ((*what).to_owned(), digest(pointer))).collect())
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

/// Why a finished sample is not kept.
mod why {
    /// It is not in the log, or what is there cannot be read.
    pub(super) const MISSING: &str = "missing";
    /// No checkpoint covers it.
    pub(super) const UNSIGNED: &str = "unsigned";
    /// The log has it, and the chain has no record of it: one of the two was changed, or the run was killed in between.
    pub(super) const UNRECORDED: &str = "unrecorded";
}

/// A sample that was finished before, and whose result is not kept: it runs again, or did so in the earlier log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its id.
    pub id: SampleName,
    /// Its epoch.
    pub epoch: u32,
    /// SHA-256 of the sample, as the chain has it, or else the log.
    pub(crate) sha256: String,
    /// `missing`, `unsigned` or `unrecorded`.
    pub why: String,
}

/// What is finished of a task.
pub(crate) struct Found {
    pub(crate) kept: Vec<Kept>,
    /// Those of the earlier log, and before them those that it has from the one before.
    pub(crate) dropped: Vec<Dropped>,
}

/// How much of a task is finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Samples that are kept.
    pub kept: usize,
    /// All samples, with epochs.
    pub total: usize,
    /// Results that are not kept.
    pub dropped: Vec<Dropped>,
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
            let start = audit::first(&Audit::beside(self.reader.path()))?.map(|(_, data)| data).unwrap_or_default();
            let is_said = header_digests(self.spec());
            // A chain without them is of an earlier version: nothing vouches for its header.
            if let Some((what, _)) = BOUND.into_iter().find(|(what, _)| start["header"][what] != is_said[what]) {
                return Err(EarlierError::OtherHeader { path: self.reader.path().to_path_buf(), what });
            }
        }
        Ok(Self { vouched, ..self })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.reader.path()
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

    /// How many samples of this task are finished, how many there are, and which results are not kept.
    pub fn finished_of(&self, task: &Task) -> Result<Finished, EarlierError> {
        let Found { kept, dropped } = self.kept(task)?;
        let total = task.dataset.samples.len() * task.epochs.count as usize;
        Ok(Finished { kept: kept.len(), total, dropped })
    }

    /// What the chain says of these samples.
    fn recorded(&self, wanted: &[(SampleName, u32)]) -> Result<Records, EarlierError> {
        // Only of samples that are asked for: a chain may name any number of others.
        let wanted: HashSet<&(SampleName, u32)> = wanted.iter().collect();
        let signed = match &self.vouched {
            Vouched::Checkpoint { head, .. } => head,
            _ => &self.head,
        };
        let (mut found, mut reached) = (Records::default(), self.head.count == 0);
        audit::walk_killed(&Audit::beside(self.reader.path()), &mut |head, kind, data| {
            let covered = head.count <= signed.count;
            reached |= head == signed;
            let name = SampleName::deserialize(&data["sample"]);
            let epoch = data["epoch"].as_u64().and_then(|epoch| u32::try_from(epoch).ok());
            let (Ok(name), Some(epoch)) = (name, epoch) else { return };
            let key = (name, epoch);
            let text = |key: &str| data["data"][key].as_str().unwrap_or_default().chars().take(64).collect::<String>();
            match kind {
                "sample" if wanted.contains(&key) => {
                    let unsigned = data["data"]["unsigned"] == true;
                    // What is not covered takes no place of what is.
                    if covered || !found.finished.get(&key).is_some_and(|known| known.covered) {
                        found.finished.insert(key, Recorded { sha256: text("sha256"), unsigned, covered });
                    }
                }
                "dropped" if wanted.contains(&key) => {
                    found.dropped.insert((key.0, key.1, text("sha256"), text("why")));
                }
                _ => {}
            }
        })?;
        // The file has changed since it was checked.
        if reached { Ok(found) } else { Err(EarlierError::OtherChain(self.reader.path().to_path_buf())) }
    }

    /// What is finished of a task: complete, its own, and without an error. What cannot be read runs again, and so does what
    /// the checkpoint of a killed run does not cover. What of that was finished is named.
    pub(crate) fn kept(&self, task: &Task) -> Result<Found, EarlierError> {
        let samples = &task.dataset.samples;
        let every = (1..=task.epochs.count).flat_map(|epoch| (0..samples.len()).map(move |index| (index, epoch)));
        let (places, wanted): (Vec<usize>, Vec<(SampleName, u32)>) = every
            .filter_map(|(index, epoch)| Some((index, (SampleName::from(&samples.get(index)?.id), epoch))))
            .unzip();
        let found = self.reader.glances(&wanted)?;
        let Records { mut finished, dropped } = self.recorded(&wanted)?;
        let mut dropped: Vec<Dropped> =
            dropped.into_iter().map(|(id, epoch, sha256, why)| Dropped { id, epoch, sha256, why }).collect();
        // Without a checkpoint such samples are kept: chains of earlier versions have no records of them.
        let by_checkpoint = matches!(self.vouched, Vouched::Checkpoint { .. });
        let mut recorded: Vec<Option<Recorded>> = Vec::with_capacity(wanted.len());
        for (name, glance) in std::iter::zip(&wanted, &found) {
            let one = finished.remove(name);
            let why = match (glance, &one) {
                (None, Some(one)) => Some((why::MISSING, &one.sha256)),
                // One that failed in the log and not in the chain was exchanged: failed ones have records too.
                (Some(glance), Some(one)) if !one.covered && (!glance.failed || glance.sha256 != one.sha256) => {
                    Some((why::UNSIGNED, &one.sha256))
                }
                (Some(glance), None) if by_checkpoint && !glance.failed => Some((why::UNRECORDED, &glance.sha256)),
                _ => None,
            };
            if let Some((why, sha256)) = why {
                let (id, epoch) = name.clone();
                dropped.push(Dropped { id, epoch, sha256: sha256.clone(), why: why.to_owned() });
            }
            recorded.push(one.filter(|one| one.covered));
        }
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
        Ok(Found { kept: kept.collect(), dropped })
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// What the new log and its chain say about it.
    pub(crate) fn told(&self, Found { kept, dropped }: &Found) -> Value {
        let name = self.reader.path().file_name().unwrap_or_default().to_string_lossy();
        let mut told = Map::new();
        told.insert("log".into(), json!(name));
        told.insert("sha256".into(), json!(self.digest));
        told.insert("status".into(), json!(self.status()));
        told.insert("audit".into(), json!({"count": self.head.count, "hash": self.head.hash}));
        told.insert("samples".into(), json!(kept.len()));
        let inherited = self.vouched != Vouched::Operator && kept.iter().any(|one| one.unsigned);
        told.insert("vouched".into(), self.vouched.to_json(inherited));
        if !dropped.is_empty() {
            told.insert("dropped".into(), json!(dropped.len()));
        }
        Value::Object(told)
    }
}
