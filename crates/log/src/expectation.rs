//! What a log says of its receipt, which is signed after the log is closed and lies beside it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Whether there is to be a receipt. Written before the log is closed, so that a receipt that was taken away is missed.
///
/// Absent, in a log of an earlier version, means that nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// One that is signed by this key.
    Signed {
        /// SHA-256 of the public key, in hexadecimal.
        keyid: String,
    },
    /// None.
    None {
        /// Why.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    expected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Expectation {
    /// Where it stands in the metadata of a log.
    pub const FIELD: &'static str = "ringfence_receipt";

    /// As it is written.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Signed { keyid } => json!({"expected": true, "keyid": keyid}),
            Self::None { reason } => json!({"expected": false, "reason": reason}),
        }
    }

    /// What a log's header says; nothing if it is silent, an error if it says something else.
    pub fn of(header: &Map<String, Value>) -> Result<Option<Self>, serde_json::Error> {
        let metadata = header.get("eval").and_then(|eval| eval.get("metadata"));
        let Some(stated) = metadata.and_then(|metadata| metadata.get(Self::FIELD)) else { return Ok(None) };
        let odd = || serde::de::Error::custom("neither a key that signs nor a reason");
        match Written::deserialize(stated)? {
            Written { expected: true, keyid: Some(keyid), reason: None } => Ok(Some(Self::Signed { keyid })),
            Written { expected: false, keyid: None, reason: Some(reason) } => Ok(Some(Self::None { reason })),
            Written { .. } => Err(odd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(stated: &Value) -> Map<String, Value> {
        json!({"eval": {"metadata": {Expectation::FIELD: stated}}}).as_object().unwrap().clone()
    }

    #[test]
    fn what_a_log_says_of_its_receipt_comes_back() {
        for said in [Expectation::Signed { keyid: "ab".into() }, Expectation::None { reason: "no key".into() }] {
            assert_eq!(Expectation::of(&header(&said.to_json())).unwrap(), Some(said));
        }
        assert_eq!(Expectation::of(&Map::new()).unwrap(), None);
        let odd = [
            json!(null),
            json!({}),
            json!({"expected": true}),
            json!({"expected": false, "keyid": "ab", "reason": "x"}),
        ];
        for odd in odd {
            assert!(Expectation::of(&header(&odd)).is_err(), "{odd}");
        }
    }
}
