//! One byte form per plan, so that its hash means the same everywhere.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Plan;

impl Plan {
    /// The plan as JSON by RFC 8785: no white space, keys sorted. It holds no fractions, so numbers are plain.
    pub fn canonical_json(&self) -> String {
        let mut out = String::new();
        // A plan is made of maps with text keys, texts and numbers: none of them can fail to serialise.
        write_canonical(&serde_json::to_value(self).unwrap_or_default(), &mut out);
        out
    }

    /// The SHA-256 of the canonical JSON, in hexadecimal.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.canonical_json());
        digest.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            // Sorted here: `serde_json` keeps insertion order when any crate in the build asks it to.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_white_space_is_gone() {
        let value: Value = serde_json::from_str(r#"{"b": [1, {"z": null, "a": "\u00e9\n"}], "a": true}"#).unwrap();
        let mut out = String::new();
        write_canonical(&value, &mut out);
        assert_eq!(out, "{\"a\":true,\"b\":[1,{\"a\":\"é\\n\",\"z\":null}]}");
    }
}
