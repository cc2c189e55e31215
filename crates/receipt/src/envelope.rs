//! A DSSE envelope: a payload, what kind it is, and one signature of both. It has exactly one form, to the byte.
//!
//! <https://github.com/secure-systems-lab/dsse/blob/v1.0.2/envelope.md>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bounded::Budget;
use serde::{Deserialize, Serialize};

use crate::key::{KeyId, PublicKey, SigningKey};

/// The largest envelope that is read or written.
pub(crate) const LARGEST: usize = 8 << 20;
/// Memory for the values of an envelope or a statement, beside their texts.
pub(crate) const VALUES: u64 = 16 << 20;
/// What a payload is: an in-toto Statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A payload that somebody signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    payload: Vec<u8>,
    keyid: KeyId,
    signature: Vec<u8>,
}

/// Why some bytes are not an envelope of ours.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is too large.
    #[error("it is larger than {LARGEST} bytes")]
    TooLarge,
    /// It is not JSON, or has other fields.
    #[error("it is not an envelope")]
    Form(#[source] serde_json::Error),
    /// It holds something else.
    #[error("it does not hold an in-toto statement")]
    PayloadType,
    /// There is not exactly one signature.
    #[error("it has {0} signatures instead of one")]
    Signatures(usize),
    /// A field is not base 64 in its one form.
    #[error("its {0} is not base 64")]
    Base64(&'static str),
    /// White space, other escapes, another order, a field twice, something behind it.
    #[error("it is not in its one form")]
    NotCanonical,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    keyid: KeyId,
    sig: String,
}

/// DSSE's pre-authentication encoding: what is signed. Lengths make it impossible to move bytes from one part to the other.
fn encoded(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

impl Envelope {
    /// Signs a payload.
    pub fn sign(payload: Vec<u8>, key: &SigningKey) -> Result<Self, EnvelopeError> {
        let signature = key.sign(&encoded(&payload));
        let envelope = Self { payload, keyid: key.public().id(), signature };
        if envelope.to_bytes().len() > LARGEST { Err(EnvelopeError::TooLarge) } else { Ok(envelope) }
    }

    /// Reads one. Whose signature it has, and whether it is right, is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        if bytes.len() > LARGEST {
            return Err(EnvelopeError::TooLarge);
        }
        let Written { payload, payload_type, signatures } =
            bounded::read(bytes, &Budget::new(VALUES + bytes.len() as u64)).map_err(EnvelopeError::Form)?;
        if payload_type != PAYLOAD_TYPE {
            return Err(EnvelopeError::PayloadType);
        }
        let count = signatures.len();
        let Ok([Signature { keyid, sig }]) = <[Signature; 1]>::try_from(signatures) else {
            return Err(EnvelopeError::Signatures(count));
        };
        let decode = |name, text: &str| STANDARD.decode(text).map_err(|_| EnvelopeError::Base64(name));
        let envelope = Self { payload: decode("payload", &payload)?, keyid, signature: decode("signature", &sig)? };
        if envelope.to_bytes() == bytes { Ok(envelope) } else { Err(EnvelopeError::NotCanonical) }
    }

    /// Its one form: no white space, keys in order, a line break at the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let written = Written {
            payload: STANDARD.encode(&self.payload),
            payload_type: PAYLOAD_TYPE.into(),
            signatures: vec![Signature { keyid: self.keyid.clone(), sig: STANDARD.encode(&self.signature) }],
        };
        // Texts in a list: it cannot fail.
        let mut bytes = serde_json::to_vec(&written).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// What was signed.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whose signature it claims to have.
    pub fn keyid(&self) -> &KeyId {
        &self.keyid
    }

    /// Whether this key signed it, under its own name.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.id() == self.keyid && key.has_signed(&encoded(&self.payload), &self.signature)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn envelope() -> (SigningKey, Vec<u8>) {
        let key = SigningKey::random().unwrap();
        let bytes = Envelope::sign(b"{\"a\":1}".to_vec(), &key).unwrap().to_bytes();
        (key, bytes)
    }

    #[test]
    fn what_is_signed_is_what_dsse_says() {
        // Its protocol's example, with our type.
        assert_eq!(encoded(b"hello world"), b"DSSEv1 28 application/vnd.in-toto+json 11 hello world");
        let (key, bytes) = envelope();
        let read = Envelope::parse(&bytes).unwrap();
        assert!(read.is_signed_by(&key.public()) && !read.is_signed_by(&SigningKey::random().unwrap().public()));
        assert_eq!(read.payload(), b"{\"a\":1}");
    }

    #[test]
    fn an_envelope_has_one_form() {
        let (_, bytes) = envelope();
        let text = String::from_utf8(bytes).unwrap();
        let signature = text.split_once("\"signatures\":[").unwrap().1.split_once(']').unwrap().0.to_owned();
        let others = [
            text.trim_end().to_owned(),
            format!("{text}\n"),
            text.replace("\":", "\": "),
            text.replacen('{', "{\"more\":1,", 1),
            text.replacen("{\"payload\"", "{\"payload\":\"\",\"payload\"", 1),
            text.replace("application", "\\u0061pplication"),
            text.replace("in-toto", "other"),
            text.replace("\"signatures\":[", &format!("\"signatures\":[{signature},")),
            text.replace(&signature, ""),
            text.replace("==\"", "\""),
        ];
        for other in others {
            assert_ne!(other, text);
            assert!(Envelope::parse(other.as_bytes()).is_err(), "{other}");
        }
        assert!(matches!(Envelope::parse(&vec![b' '; LARGEST + 1]), Err(EnvelopeError::TooLarge)));
    }

    proptest! {
        #[test]
        fn whatever_is_read_as_an_envelope_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(envelope) = Envelope::parse(&bytes) {
                prop_assert_eq!(envelope.to_bytes(), bytes);
            }
        }

        #[test]
        fn an_edited_envelope_is_no_envelope_or_not_signed(
            at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 0..4), cut in 0_usize..4,
        ) {
            let (key, good) = envelope();
            let at = at.index(good.len());
            let end = (at + cut).min(good.len());
            let mut edited = good.clone();
            edited.splice(at..end, bytes);
            prop_assume!(edited != good);
            prop_assert!(!Envelope::parse(&edited).is_ok_and(|envelope| envelope.is_signed_by(&key.public())));
        }
    }
}
