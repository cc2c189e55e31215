//! Checks log, chain, receipt and signature against each other, without asking anybody.

use std::io;
use std::path::{Path, PathBuf};

use log::audit::{self, Audit, AuditError, Head};
use log::{Expectation, ReadError, Reader};
use serde_json::{Map, Value, json};

use crate::envelope::{Envelope, EnvelopeError, LARGEST};
use crate::file::{open, read};
use crate::gather::{GatherError, gather, head};
use crate::issue::beside;
use crate::key::{KeyId, PublicKey};
use crate::missing::{Finished, Missing};
use crate::run::Run;
use crate::statement::{Statement, StatementError};

/// Whom the one who checks believes.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Whoever has this key's other half.
    Key(PublicKey),
    /// Whoever has the other half of the key of this name.
    Id(KeyId),
    /// Nobody is named: a receipt is held against the key that it brings itself.
    Nobody,
}

/// Whether there has to be a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// Always; also meant by everybody who names a key.
    Receipt,
    /// When the log says so.
    AsTheLogSays,
}

/// What was found right.
#[derive(Debug)]
pub struct Checked {
    /// Where the chain ends.
    pub chain: Head,
    /// Whether the log has an end, and therefore says where its chain ends.
    pub complete: bool,
    /// The plan's hash, as the log states it.
    pub plan: String,
    /// What is asserted, where there is a receipt.
    pub receipt: Option<Asserted>,
    /// What the log says of its receipt; nothing in logs of earlier versions.
    pub expectation: Option<Expectation>,
    /// Finished samples that the chain has and the log has not.
    pub missing: Missing,
}

/// What is asserted, and by whom.
#[derive(Debug)]
pub struct Asserted {
    /// What.
    pub statement: Box<Statement>,
    /// By the holder of this key.
    pub keyid: KeyId,
    /// Whether the one who checks named that key.
    pub trusted: bool,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The log cannot be read, or is not as it was written.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The chain is not whole, or not the log's.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The log ended without naming its chain.
    #[error("the log `{}` does not say where its audit chain ends", .0.display())]
    Unnamed(PathBuf),
    /// The log says something odd of its receipt.
    #[error("the log does not say clearly whether it has a receipt")]
    Expectation(#[source] serde_json::Error),
    /// There is none.
    #[error("the receipt `{}` is missing: {why}", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// Who says that there should be one.
        why: &'static str,
    },
    /// There is one, and the log says that there is none.
    #[error("there is a receipt, but the log says that there is none: {0}")]
    Unexpected(String),
    /// It cannot be read.
    #[error("cannot read the receipt `{}`", path.display())]
    Read {
        /// The receipt.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not an envelope of ours.
    #[error("the receipt is not as it was written")]
    Envelope(#[from] EnvelopeError),
    /// It does not hold a statement of ours.
    #[error("the receipt is not as it was written")]
    Statement(#[from] StatementError),
    /// Another key signed it.
    #[error("the receipt is signed by key {found}, not by {expected}")]
    OtherKey {
        /// Who was to sign.
        expected: KeyId,
        /// Who claims to have signed.
        found: KeyId,
    },
    /// The key that it brings is not the one that it names.
    #[error("the receipt does not bring the key that it names")]
    NoKey,
    /// The signature is wrong.
    #[error("the receipt's signature is not that of key {0}")]
    Signature(KeyId),
    /// It is about another file.
    #[error("the receipt is about another log: {0}")]
    Subject(String),
    /// What it says cannot be read again.
    #[error("what the receipt says cannot be found in the log")]
    Gather(#[source] GatherError),
    /// It says something else than the log.
    #[error("the receipt says something else than the log and its chain: {}", .0.join(", "))]
    Differ(Vec<String>),
}

impl CheckError {
    /// Whether the log is simply not there for us, which says nothing about it.
    pub fn is_absent(&self) -> bool {
        let Self::Log(ReadError::Io { source, .. }) = self else { return false };
        matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory)
    }
}

/// Checks everything that there is of a run.
pub fn check(log: &Path, trust: &Trust, require: Require) -> Result<Checked, CheckError> {
    let reader = Reader::open(log)?;
    reader.check()?;
    let stated = head(reader.header());
    if stated.is_none() && reader.is_complete() {
        return Err(CheckError::Unnamed(log.to_path_buf()));
    }
    let expectation = Expectation::of(reader.header()).map_err(CheckError::Expectation)?;
    let receipt = receipt(log, &reader, trust, require, expectation.as_ref())?;
    // With a receipt it is read a second time; what a chain says is small.
    let beside = Audit::beside(log);
    let mut finished = Finished::default();
    let chain = match &stated {
        Some(stated) => audit::walk(&beside, Some(stated), &mut |kind, data| finished.see(kind, data))?,
        // Half a line is what a killed writer leaves.
        None => audit::walk_killed(&beside, &mut |_, kind, data| finished.see(kind, data))?,
    };
    let missing = finished.missing(&reader)?;
    let plan = reader.header().get("eval").and_then(|eval| eval.pointer("/metadata/ringfence/plan_hash"));
    let plan = plan.and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Checked { chain, complete: reader.is_complete(), plan, receipt, expectation, missing })
}

fn receipt(
    log: &Path,
    reader: &Reader,
    trust: &Trust,
    require: Require,
    expectation: Option<&Expectation>,
) -> Result<Option<Asserted>, CheckError> {
    let path = beside(log);
    let file = match open(&path) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = match (expectation, trust, require) {
                (Some(Expectation::Signed { .. }), ..) => "the log says that there is one",
                (_, Trust::Key(_) | Trust::Id(_), _) | (_, _, Require::Receipt) => "it was asked for",
                (_, Trust::Nobody, Require::AsTheLogSays) => return Ok(None),
            };
            return Err(CheckError::Missing { path, why });
        }
        Err(source) => return Err(CheckError::Read { path, source }),
    };
    let bytes = read(file, LARGEST as u64).map_err(|source| CheckError::Read { path, source })?;
    let envelope = Envelope::parse(&bytes)?;
    let statement = Statement::parse(envelope.payload())?;
    if let Some(Expectation::None { reason }) = expectation {
        return Err(CheckError::Unexpected(reason.clone()));
    }
    let keyid = signed(&envelope, &statement, trust, expectation)?;
    compare(log, reader, &statement)?;
    let trusted = !matches!(trust, Trust::Nobody);
    Ok(Some(Asserted { statement: Box::new(statement), keyid, trusted }))
}

/// Who signed it: the key that the log expects, that the receipt names and brings, and, if one is named, that one.
fn signed(
    envelope: &Envelope,
    statement: &Statement,
    trust: &Trust,
    expectation: Option<&Expectation>,
) -> Result<KeyId, CheckError> {
    let found = envelope.keyid();
    let wanted = match trust {
        Trust::Key(key) => Some(key.id()),
        Trust::Id(id) => Some(id.clone()),
        Trust::Nobody => None,
    };
    if let Some(expected) = wanted.filter(|wanted| wanted != found) {
        return Err(CheckError::OtherKey { expected, found: found.clone() });
    }
    let brought = statement.predicate.signer.key().filter(|key| key.id() == *found).ok_or(CheckError::NoKey)?;
    if !envelope.is_signed_by(if let Trust::Key(key) = trust { key } else { &brought }) {
        return Err(CheckError::Signature(found.clone()));
    }
    match expectation {
        Some(Expectation::Signed { keyid }) if keyid != found.as_str() => {
            Err(CheckError::Differ(vec![format!("the log was to be signed by key sha256:{keyid}")]))
        }
        _ => Ok(found.clone()),
    }
}

/// Whether it is about this log, and says what is there.
fn compare(log: &Path, reader: &Reader, statement: &Statement) -> Result<(), CheckError> {
    let [subject] = &statement.subject;
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    if subject.name != name {
        return Err(CheckError::Subject(format!("`{}`", subject.name)));
    }
    let digest = reader.digest()?;
    if subject.digest.sha256 != digest {
        return Err(CheckError::Subject(format!("its digest is {}, that of the log {digest}", subject.digest.sha256)));
    }
    let found = gather(log, reader).map_err(|error| match error {
        GatherError::Log(error) => CheckError::Log(error),
        GatherError::Audit(error) => CheckError::Audit(error),
        other => CheckError::Gather(other),
    })?;
    let differ = differences(&statement.predicate.run, &found);
    if differ.is_empty() { Ok(()) } else { Err(CheckError::Differ(differ)) }
}

/// The fields that are not the same.
fn differences(asserted: &Run, found: &Run) -> Vec<String> {
    let fields = |run: &Run| json!(run).as_object().cloned().unwrap_or_default();
    let (asserted, found): (Map<String, Value>, Map<String, Value>) = (fields(asserted), fields(found));
    // Held against each other as they are written: that is what was signed.
    let same = |key: &String| asserted.get(key).map(log::canonical) == found.get(key).map(log::canonical);
    asserted.keys().filter(|key| !same(key)).cloned().collect()
}
