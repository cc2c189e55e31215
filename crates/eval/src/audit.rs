//! What must not be lost goes into the audit chain too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use log::audit::{AuditError, Head};
use log::event::What;
use serde_json::{Value, json};

use crate::task::Sample;

/// Signs the chain's head while a run goes on, so that the finished samples of a killed run can be checked.
pub trait Checkpoint: Send + Sync {
    /// Signs this head of the chain of `log`. An error ends the run: a log that cannot be vouched for as planned is not
    /// written on.
    fn sign(&self, log: &Path, eval_id: &str, head: &Head) -> std::io::Result<()>;
}

/// The run whose chain is signed.
struct Signed {
    checkpoint: Arc<dyn Checkpoint>,
    log: PathBuf,
    eval_id: String,
    /// Held while a head is signed, so that later checkpoints have later heads.
    turn: Mutex<()>,
}

/// The chain of one evaluation; clones are the same.
#[derive(Clone)]
pub(crate) struct Audit {
    chain: Arc<log::audit::Audit>,
    signed: Option<Arc<Signed>>,
    sample: Option<(Value, u32)>,
}

impl Audit {
    pub(crate) fn new(chain: log::audit::Audit) -> Self {
        Self { chain: Arc::new(chain), signed: None, sample: None }
    }

    /// The same, with its head signed by [`Audit::checkpoint`].
    pub(crate) fn signed_by(self, checkpoint: Option<Arc<dyn Checkpoint>>, log: PathBuf, eval_id: &str) -> Self {
        let eval_id = eval_id.to_owned();
        let signed = checkpoint.map(|checkpoint| Arc::new(Signed { checkpoint, log, eval_id, turn: Mutex::new(()) }));
        Self { signed, ..self }
    }

    /// Signs the chain as it is now; nothing where no key signs.
    pub(crate) fn checkpoint(&self) -> Result<(), AuditError> {
        let Some(signed) = &self.signed else { return Ok(()) };
        let _turn = signed.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let head = self.chain.head();
        let failed = |source| AuditError::Io { action: "sign", path: log::audit::Audit::beside(&signed.log), source };
        signed.checkpoint.sign(&signed.log, &signed.eval_id, &head).map_err(failed)
    }

    /// Records the digest of a finished sample, and signs the chain with it.
    pub(crate) fn finished(&self, sha256: &str) -> Result<(), AuditError> {
        self.record("sample", json!({"sha256": sha256}))?;
        self.checkpoint()
    }

    /// The same chain, for what one sample does.
    pub(crate) fn of(&self, sample: &Sample, epoch: u32) -> Self {
        Self { sample: Some((sample.id.to_json(), epoch)), ..self.clone() }
    }

    /// The same for a sample of an earlier log.
    pub(crate) fn of_name(&self, id: &log::SampleName, epoch: u32) -> Self {
        Self { sample: Some((json!(id), epoch)), ..self.clone() }
    }

    pub(crate) fn record(&self, kind: &str, data: Value) -> Result<(), AuditError> {
        let data = match &self.sample {
            Some((id, epoch)) => json!({"sample": id, "epoch": epoch, "data": data}),
            None => data,
        };
        self.chain.record(kind, data)
    }

    /// Ends the chain: what samples that were cut off still hear is not part of the run.
    pub(crate) fn end(&self) -> Result<Head, AuditError> {
        self.chain.end()
    }

    /// Events that belong into the chain: decisions, verdicts, limits, sandboxes, where files are.
    pub(crate) fn hear(&self, what: &What) -> Result<(), AuditError> {
        match what {
            What::Approval { call, approver, decision, explanation, metadata, .. } => {
                let mut data = metadata.clone().unwrap_or_default();
                data.insert("tool".into(), json!(call.function));
                data.insert("approver".into(), json!(approver));
                data.insert("decision".into(), json!(decision));
                data.insert("explanation".into(), json!(explanation));
                self.record("approval", Value::Object(data))
            }
            What::SampleLimit { kind, limit, .. } => self.record("limit", json!({"type": kind, "limit": limit})),
            What::Info { data, .. } => match data.get("kind").and_then(Value::as_str) {
                // What a call held is in the log; the chain has that it was made.
                Some(kind @ "provider_tool") => {
                    let mut data = data.clone();
                    if let Value::Object(fields) = &mut data {
                        fields.retain(|field, _| field != "arguments" && field != "result");
                    }
                    self.record(kind, data)
                }
                Some(
                    kind @ ("network"
                    | "network_totals"
                    | "sandbox"
                    | "service"
                    | "file_tools"
                    | "web_search"
                    | "provider_tool_totals"),
                ) => self.record(kind, data.clone()),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
