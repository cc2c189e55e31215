//! What must not be lost goes into the audit chain too.

use std::sync::Arc;

use log::event::What;
use serde_json::{Value, json};

use crate::task::Sample;

/// The chain of one evaluation; clones are the same.
#[derive(Clone)]
pub(crate) struct Audit {
    chain: Arc<log::audit::Audit>,
    sample: Option<(Value, u32)>,
}

impl Audit {
    pub(crate) fn new(chain: log::audit::Audit) -> Self {
        Self { chain: Arc::new(chain), sample: None }
    }

    /// The same chain, for what one sample does.
    pub(crate) fn of(&self, sample: &Sample, epoch: u32) -> Self {
        Self { chain: Arc::clone(&self.chain), sample: Some((sample.id.to_json(), epoch)) }
    }

    pub(crate) fn record(&self, kind: &str, data: Value) -> Result<(), log::audit::AuditError> {
        let data = match &self.sample {
            Some((id, epoch)) => json!({"sample": id, "epoch": epoch, "data": data}),
            None => data,
        };
        self.chain.record(kind, data)
    }

    /// Ends the chain: what samples that were cut off still hear is not part of the run.
    pub(crate) fn end(&self) -> Result<log::audit::Head, log::audit::AuditError> {
        self.chain.end()
    }

    /// Events that belong into the chain: decisions, verdicts, limits, sandboxes, where files are.
    pub(crate) fn hear(&self, what: &What) -> Result<(), log::audit::AuditError> {
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
