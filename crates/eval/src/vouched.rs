//! Who vouches for the samples that an evaluation keeps from an earlier log. The command decides that, since it knows the
//! keys; here it is written down, and samples are compared with what was signed.

use log::audit::Head;
use serde_json::{Value, json};

/// Who vouches for an earlier log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Vouched {
    /// Nothing was asked for: the new log is not signed either.
    #[default]
    Nobody,
    /// A trusted key signed the log's receipt.
    Receipt {
        /// The key's id, in hexadecimal.
        keyid: String,
    },
    /// The run was killed. A trusted key signed its chain up to `head`; only samples whose digests are in that part are kept.
    Checkpoint {
        /// The key's id, in hexadecimal.
        keyid: String,
        /// The signed head.
        head: Head,
    },
    /// No trusted key vouches for it: the operator accepted it (`--trust-unsigned`).
    Operator,
}

impl Vouched {
    /// As the log, its chain and its receipt have it. `unsigned` says that something in the earlier log was itself accepted
    /// without a signature.
    pub fn to_json(&self, unsigned: bool) -> Value {
        let mut told = match self {
            Self::Nobody => json!({"by": "nobody"}),
            Self::Receipt { keyid } => json!({"by": "receipt", "keyid": keyid}),
            Self::Checkpoint { keyid, .. } => json!({"by": "checkpoint", "keyid": keyid}),
            Self::Operator => json!({"by": "operator"}),
        };
        if unsigned {
            told["unsigned"] = json!(true);
        }
        told
    }
}
