//! Who vouches for a log that a command goes on from.
//!
//! What is signed with the operator's key must not rest on what anyone could have written. So where a key signs, a log is
//! gone on from only if a trusted key signed it: its receipt, or for a killed run a checkpoint of its chain. What the log says
//! of its own receipt does not count. `--trust-unsigned` is the operator's word for any other log.

use std::path::Path;

use ::eval::Vouched;
use profile::Problems;
use receipt::{Checked, KeyId, PublicKey, VouchedBy};

use super::eval_obstacle::Obstacle;
use super::receipts::{self, Signer};
use crate::trust_args::TrustArguments;

/// Whom the operator believes.
pub(super) struct Trusting {
    /// The key that signs here, and those that were named. Empty means that nothing is signed and no key was named.
    keys: Vec<PublicKey>,
    unsigned: bool,
}

/// A log that was checked.
pub(super) struct Vouching {
    pub(super) vouched: Vouched,
    /// Whether the log says that something in it was accepted without a signature.
    pub(super) unsigned: bool,
}

impl Trusting {
    pub(super) fn new(signer: &Signer, arguments: &TrustArguments) -> Result<Self, Problems> {
        let mut keys: Vec<PublicKey> = signer.public().into_iter().collect();
        for path in &arguments.trust_key {
            let key = PublicKey::read(path).map_err(|error| receipts::problems(&error))?;
            keys.push(key);
        }
        Ok(Self { keys, unsigned: arguments.trust_unsigned })
    }

    /// Whether no key signs here and none was named.
    pub(super) fn is_nobody(&self) -> bool {
        self.keys.is_empty()
    }

    /// Who vouches for a log that was found as it was written. `digest` is that of the file whose samples are used: the one that
    /// was checked may have been put there later.
    pub(super) fn vouching(&self, log: &Path, digest: &str, checked: &Checked) -> Result<Vouching, Obstacle> {
        let vouching = |vouched, unsigned| Ok(Vouching { vouched, unsigned });
        let is_trusted = |id: &KeyId| self.keys.iter().any(|key| key.id() == *id);
        // The signature was checked with the key of that id, which is the key's digest.
        if let Some(asserted) = checked.receipt.as_ref().filter(|asserted| is_trusted(&asserted.keyid)) {
            let [subject] = &asserted.statement.subject;
            if subject.digest.sha256 != digest {
                let changed = "it has changed while it was checked".to_owned();
                return Err(Obstacle::Unsound(receipt::CheckError::Subject(changed)));
            }
            let run = &asserted.statement.predicate.run;
            let accepted = |vouched: &receipt::Vouched| vouched.unsigned || vouched.by == VouchedBy::Operator;
            let kept = run.kept.as_ref().is_some_and(|kept| kept.unsigned > 0);
            let scored = run.scored.as_ref().and_then(|scored| scored.vouched.as_ref()).is_some_and(accepted);
            let keyid = asserted.keyid.as_str().to_owned();
            return vouching(Vouched::Receipt { keyid }, kept || scored);
        }
        let mut is_older = false;
        if !checked.complete && !self.keys.is_empty() {
            let found = receipt::last_checkpoint(log, &self.keys);
            let found = found.map_err(|error| Obstacle::Unsound(receipt::CheckError::Audit(error)))?;
            match found {
                Some(receipt::Checkpoint { keyid, head, binds_header: true }) => {
                    return vouching(Vouched::Checkpoint { keyid: keyid.as_str().to_owned(), head }, false);
                }
                found => is_older = found.is_some(),
            }
        }
        if self.keys.is_empty() {
            return vouching(Vouched::Nobody, false);
        }
        if self.unsigned {
            return vouching(Vouched::Operator, false);
        }
        let why = match &checked.receipt {
            Some(asserted) => format!("is signed by key {}, which you do not trust", asserted.keyid),
            None if checked.complete => "has no receipt".to_owned(),
            None if is_older => {
                "is of a killed run of an earlier version, whose signed audit chain does not bind its header".to_owned()
            }
            None => "is of a killed run, and no checkpoint of a trusted key fits it".to_owned(),
        };
        Err(Obstacle::Unconfirmed {
            what: format!("the log `{}` {why}, and what goes on from it would be signed", log.display()),
            hint:
                "name its signer's public key by --trust-key FILE, or say --trust-unsigned, which the new log records"
                    .into(),
        })
    }
}
