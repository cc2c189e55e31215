//! The in-toto Statement (version 1) of a run. It has exactly one form, to the byte.
//!
//! <https://github.com/in-toto/attestation/blob/v1.1.0/spec/v1/statement.md>

use bounded::Budget;
use serde::{Deserialize, Serialize};

use crate::envelope::VALUES;
use crate::key::{KeyId, PublicKey};
use crate::run::Run;

pub(crate) const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// A name, not an address: nothing is there. It changes with the format.
const PREDICATE: &str = "https://ringfence.dev/receipt/v1";

/// What is said of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    /// The log.
    pub subject: [Subject; 1],
    #[serde(rename = "predicateType")]
    predicate_type: String,
    /// What is said.
    pub predicate: Predicate,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its name, without directories.
    pub name: String,
    /// Its digests.
    pub digest: Digests,
}

/// Digests of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// In hexadecimal.
    pub sha256: String,
}

/// What is said of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicate {
    /// When, in RFC 3339, by the clock of whoever says it.
    pub issued: String,
    /// Who says it.
    pub signer: Signer,
    /// What the run was.
    pub run: Run,
}

/// Who says it: without a list of keys that somebody trusts, no more than a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signer {
    /// The key's name.
    pub keyid: KeyId,
    /// Its 32 bytes, in base 64.
    pub public_key: String,
}

impl Signer {
    pub(crate) fn of(key: PublicKey) -> Self {
        Self { keyid: key.id(), public_key: key.to_base64() }
    }

    /// The key, if its name is its own.
    pub(crate) fn key(&self) -> Option<PublicKey> {
        PublicKey::from_base64(&self.public_key).filter(|key| key.id() == self.keyid)
    }
}

/// Why a payload is not a statement of ours.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// It is not JSON, or has other fields.
    #[error("what was signed is not a receipt of this version")]
    Form(#[source] serde_json::Error),
    /// It is another kind of statement.
    #[error("what was signed is a statement of another kind: `{0}`")]
    Kind(String),
    /// It was not written in its one form.
    #[error("what was signed is not in its one form")]
    NotCanonical,
}

impl Statement {
    pub(crate) fn new(name: String, sha256: String, predicate: Predicate) -> Self {
        let subject = [Subject { name, digest: Digests { sha256 } }];
        Self { kind: STATEMENT.into(), subject, predicate_type: PREDICATE.into(), predicate }
    }

    /// Reads one; whether it is true is not looked at.
    pub fn parse(payload: &[u8]) -> Result<Self, StatementError> {
        let statement: Self =
            bounded::read(payload, &Budget::new(VALUES + payload.len() as u64)).map_err(StatementError::Form)?;
        for (found, right) in [(&statement.kind, STATEMENT), (&statement.predicate_type, PREDICATE)] {
            if found != right {
                return Err(StatementError::Kind(found.clone()));
            }
        }
        if statement.to_bytes() == payload { Ok(statement) } else { Err(StatementError::NotCanonical) }
    }

    /// Its one form: canonical JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Made of maps with text keys, texts and numbers: it cannot fail.
        log::canonical(&serde_json::to_value(self).unwrap_or_default()).into_bytes()
    }
}
