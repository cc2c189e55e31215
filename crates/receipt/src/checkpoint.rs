//! Checkpoints: the audit chain's head, signed after each finished sample.
//!
//! A killed run has no receipt. Its chain has a digest of each finished sample, and a checkpoint signs the chain up to a line,
//! so samples that an evaluation keeps can be compared with what the signer saw. Checkpoints are appended to a file beside
//! the log, one DSSE envelope per line, each an in-toto Statement of a predicate type of its own: none can pass for a receipt.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use log::audit::{self, Audit, AuditError, Head};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::file::{flags, open};
use crate::key::{KeyId, PublicKey, SigningKey};
use crate::statement::{Digests, STATEMENT, Signer, Subject};

/// A name, not an address. It changes with the format.
const PREDICATE: &str = "https://ringfence.dev/checkpoint/v1";
/// Only this much of the file's end is read: the last few dozen checkpoints.
const TAIL: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: [Subject; 1],
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Predicate {
    eval_id: String,
    count: u64,
    issued: String,
    signer: Signer,
}

impl Statement {
    fn to_bytes(&self) -> Vec<u8> {
        // Made of maps with text keys, texts and numbers: it cannot fail.
        log::canonical(&serde_json::to_value(self).unwrap_or_default()).into_bytes()
    }
}

/// A line of the chain that a trusted key has signed, with all lines before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The key.
    pub keyid: KeyId,
    /// The chain's head after that line.
    pub head: Head,
    /// Whether the chain has digests of the log's header. Chains of earlier versions have none.
    pub binds_header: bool,
}

/// Where the checkpoints of a log are: beside it.
pub fn checkpoints_beside(log: &Path) -> PathBuf {
    log.with_extension("checkpoint.jsonl")
}

/// Signs the head of a log's chain, and appends it to the log's checkpoints.
pub fn add_checkpoint(log: &Path, eval_id: &str, head: &Head, key: &SigningKey) -> io::Result<()> {
    let name = Audit::beside(log).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let statement = Statement {
        kind: STATEMENT.into(),
        subject: [Subject { name, digest: Digests { sha256: head.hash.clone() } }],
        predicate_type: PREDICATE.into(),
        predicate: Predicate {
            eval_id: eval_id.to_owned(),
            count: head.count,
            issued: log::rfc3339(SystemTime::now()),
            signer: Signer::of(key.public()),
        },
    };
    let envelope = Envelope::sign(statement.to_bytes(), key).map_err(io::Error::other)?;
    let mut file = File::options()
        .append(true)
        .create(true)
        .custom_flags(flags(OFlags::NOFOLLOW))
        .open(checkpoints_beside(log))?;
    // One write: a killed writer leaves a whole line or half a last one, which readers pass over.
    file.write_all(&envelope.to_bytes())
}

/// The last checkpoint by one of these keys that the log's chain agrees with; `None` if there is none.
pub fn last_checkpoint(log: &Path, keys: &[PublicKey]) -> Result<Option<Checkpoint>, AuditError> {
    let path = checkpoints_beside(log);
    let signed = signed(log, &path, keys).map_err(|source| AuditError::Io {
        action: "read the checkpoints of",
        path: Audit::beside(log),
        source,
    })?;
    let (mut eval_id, mut last, mut binds_header) = (None, None, false);
    audit::walk_killed(&Audit::beside(log), &mut |head, kind, data| {
        if head.count == 1 && kind == "start" {
            eval_id = data["eval_id"].as_str().map(str::to_owned);
            binds_header = data["header"].is_object();
        }
        let fits = |(_, of, signed): &&(KeyId, String, Head)| signed == head && Some(of) == eval_id.as_ref();
        if let Some((keyid, _, head)) = signed.iter().find(fits) {
            last = Some(Checkpoint { keyid: keyid.clone(), head: head.clone(), binds_header });
        }
    })?;
    Ok(last)
}

/// The heads in the file's tail that one of the keys has signed, each with its key and evaluation.
fn signed(log: &Path, path: &Path, keys: &[PublicKey]) -> io::Result<Vec<(KeyId, String, Head)>> {
    let mut file = match open(path) {
        Ok((file, _)) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let chain = Audit::beside(log).file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(tail.split_inclusive(|byte| *byte == b'\n').filter_map(|line| read(line, &chain, keys)).collect())
}

/// One line; `None` if it is anything but a checkpoint of this chain by one of the keys, in its one form.
fn read(line: &[u8], chain: &str, keys: &[PublicKey]) -> Option<(KeyId, String, Head)> {
    let envelope = Envelope::parse(line).ok()?;
    let key = keys.iter().find(|key| envelope.is_signed_by(key))?;
    let statement: Statement = serde_json::from_slice(envelope.payload()).ok()?;
    let [subject] = &statement.subject;
    let is_ours = statement.kind == STATEMENT
        && statement.predicate_type == PREDICATE
        && subject.name == chain
        && statement.predicate.signer.key().as_ref() == Some(key)
        && statement.to_bytes() == envelope.payload();
    let head = Head { count: statement.predicate.count, hash: subject.digest.sha256.clone() };
    is_ours.then(|| (key.id(), statement.predicate.eval_id.clone(), head))
}
