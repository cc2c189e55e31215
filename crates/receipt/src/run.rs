//! What a receipt says of a run: nothing that cannot be read again in the closed log and its audit chain.

use std::collections::BTreeMap;

use log::Status;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a run was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The task.
    pub task: String,
    /// The evaluation's id.
    pub eval_id: String,
    /// How it ended.
    pub status: Status,
    /// When it began, in RFC 3339.
    pub started: String,
    /// When it ended.
    pub completed: String,
    /// Everybody who answered or was to, in order.
    pub models: Vec<String>,
    /// What was asked for, planned and seen.
    pub profile: Profiles,
    /// SHA-256 of the plan's canonical JSON.
    pub plan_hash: String,
    /// What the sandboxes were made of.
    pub images: Vec<Image>,
    /// How many samples.
    pub samples: Samples,
    /// Where samples come from that an earlier run finished: what was decided for them is in that one's chain.
    pub kept: Option<Kept>,
    /// The log that was judged again: what was decided in the run is in that one's chain.
    pub scored: Option<Scored>,
    /// What became of queries and connections.
    pub network: Network,
    /// Answers to calls, by decision.
    pub approvals: BTreeMap<String, u64>,
    /// Samples that a limit ended, by its kind.
    pub limits: BTreeMap<String, u64>,
    /// How often something was taken out of what is written, by how it was found.
    pub redactions: BTreeMap<String, u64>,
    /// What remains although everything is enforced.
    pub residual: Vec<Residual>,
    /// Versions of programs and formats.
    pub versions: BTreeMap<String, Value>,
    /// What was found out about the host.
    pub host: Value,
    /// Where the audit chain ends.
    pub audit: Chain,
}

/// The profile, three times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// What the task asked for.
    pub requested: String,
    /// What was compiled into the plan.
    pub planned: String,
    /// What probes found from inside.
    pub observed: Observed,
}

/// What probes found from inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Observed {
    /// Nobody looked.
    NotProbed,
    /// Somebody did.
    Probed {
        /// The profile that holds.
        profile: String,
        /// Probes that found what they should.
        passed: u64,
        /// Probes that found something else.
        failed: u64,
        /// Probes that prove nothing.
        unknown: u64,
    },
}

impl Observed {
    /// Where it stands in the metadata of a log. Absent means that nobody looked.
    pub const FIELD: &'static str = "ringfence_observed";
}

/// What a sandbox was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// `agent`, or the service's name.
    pub of: String,
    /// Where it comes from.
    pub reference: String,
    /// `digest`, `at_start`, or `unpinned`: whatever was there.
    pub pin: String,
    /// The digests that the reference names; none where it is unpinned.
    pub digests: Vec<String>,
}

/// How many samples, with epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// To be done; absent where the log has no results.
    pub total: Option<u64>,
    /// In the log.
    pub done: u64,
    /// Of these, with an error.
    pub failed: u64,
}

/// An earlier log of the same evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Its name.
    pub log: String,
    /// Its digest, in hexadecimal.
    pub sha256: String,
    /// How many samples are from it.
    pub samples: u64,
    /// Who vouched for them; absent in receipts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vouched: Option<Vouched>,
    /// How many of them no key ever vouched for: an operator accepted them, for this log or for one before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsigned: u64,
    /// Which they are: the first 10000, in the order of the chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<KeptSample>,
    /// SHA-256 over the canonical JSON of all entries of the list, also of those that it leaves out, each with a line break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_sha256: Option<String>,
    /// How many results of samples were finished before and are not kept: these samples ran again, here or in a log that this one
    /// goes on from.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Which they are: the first 10000, in the order of the chain, which has them all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_list: Vec<DroppedSample>,
}

/// A finished sample of the earlier run whose result is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DroppedSample {
    /// Its id, a text or a number.
    pub id: Value,
    /// Its epoch.
    pub epoch: u64,
    /// SHA-256 of the sample as the earlier chain has it, in hexadecimal; where that has no record of it, as the log has it.
    pub sha256: String,
    /// `missing`: it is not in the earlier log, or cannot be read there. `unsigned`: no checkpoint covers it. `unrecorded`: the
    /// log has it, and the chain has not.
    pub why: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A sample that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptSample {
    /// Its id, a text or a number.
    pub id: Value,
    /// Its epoch.
    pub epoch: u64,
    /// SHA-256 of the sample as it is written, in hexadecimal.
    pub sha256: String,
    /// Whether no key ever vouched for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
}

/// Who vouched for what was taken over from another log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vouched {
    /// In which way.
    pub by: VouchedBy,
    /// The key, in hexadecimal, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyid: Option<String>,
    /// Whether something in that log was itself accepted without a signature.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
}

/// In which way a log, or its samples, are vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VouchedBy {
    /// A key that the operator trusts signed the log's receipt.
    Receipt,
    /// Such a key signed the chain of a killed run, which has the samples' digests.
    Checkpoint,
    /// No trusted key: the operator accepted it.
    Operator,
    /// Nothing was asked for, since the new log is not signed either.
    Nobody,
}

/// A log that was judged again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scored {
    /// Its name.
    pub log: String,
    /// Its digest, in hexadecimal.
    pub sha256: String,
    /// Who vouched for it; absent in receipts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vouched: Option<Vouched>,
}

/// What became of queries and connections, by the gateway's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Queries for names.
    pub queries: Verdicts,
    /// Connections.
    pub connections: Verdicts,
    /// Samples with more records than are kept; the totals have them all.
    pub cut: u64,
    /// The gateway's own sums over all sandboxes.
    pub totals: Totals,
}

/// What became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    /// It went on.
    pub allowed: u64,
    /// The rules, or a check, ended it.
    pub refused: u64,
    /// It was allowed, and the other side was not there.
    pub failed: u64,
}

/// Sums over all sandboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Queries that were answered.
    pub queries: u64,
    /// Connections that went on.
    pub connections: u64,
    /// Queries and connections that were refused.
    pub refused: u64,
    /// Bytes that left.
    pub sent: u64,
    /// Bytes that came.
    pub received: u64,
    /// Records that were lost.
    pub records_lost: u64,
}

/// What remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// Its stable name.
    pub id: String,
    /// In words.
    pub text: String,
}

/// Where the audit chain ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The file beside the log.
    pub file: String,
    /// How many lines it has.
    pub count: u64,
    /// The hash of the last one.
    pub hash: String,
}
