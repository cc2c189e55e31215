//! Keys in memory: one that signs and is never shown, and one that everybody may have.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key_file::KeyProblem;
use crate::pem;

/// The name of a key: SHA-256 of the public key's 32 bytes, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl KeyId {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is not the name of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key's id is 64 hexadecimal digits in lower case, such as `ringfence key show` prints")]
pub struct NoKeyId;

impl TryFrom<String> for KeyId {
    type Error = NoKeyId;

    fn try_from(text: String) -> Result<Self, NoKeyId> {
        let digits = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits { Ok(Self(text)) } else { Err(NoKeyId) }
    }
}

impl FromStr for KeyId {
    type Err = NoKeyId;

    fn from_str(text: &str) -> Result<Self, NoKeyId> {
        text.strip_prefix("sha256:").unwrap_or(text).to_owned().try_into()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sha256:{}", self.0)
    }
}

/// A key that signatures are checked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Its name.
    pub fn id(&self) -> KeyId {
        let digits =
            Sha256::digest(self.0).iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}"));
        KeyId(digits)
    }

    /// As a PEM text.
    pub fn to_pem(&self) -> String {
        pem::write(pem::Kind::Public, &self.0)
    }

    /// From a PEM text; nothing if it is anything else.
    pub fn from_pem(text: &str) -> Option<Self> {
        pem::read(pem::Kind::Public, text).map(Self)
    }

    /// Whether this signature is that of these bytes, by this key's other half.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }

    /// The 32 bytes in base 64.
    pub(crate) fn to_base64(self) -> String {
        STANDARD.encode(self.0)
    }

    pub(crate) fn from_base64(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

/// A key that signs.
pub struct SigningKey {
    seed: SecretBox<[u8; 32]>,
    public: PublicKey,
}

impl SigningKey {
    /// A new one, from the kernel's random numbers.
    pub(crate) fn random() -> Result<Self, KeyProblem> {
        let mut seed = Box::new([0; 32]);
        SystemRandom::new().fill(seed.as_mut()).map_err(|_| KeyProblem::Random)?;
        Self::of(SecretBox::new(seed))
    }

    /// From 32 secret bytes.
    pub(crate) fn of(seed: SecretBox<[u8; 32]>) -> Result<Self, KeyProblem> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose_secret()).map_err(|_| KeyProblem::Form)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| KeyProblem::Form)?;
        Ok(Self { seed, public: PublicKey(public) })
    }

    /// The half that everybody may have.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// What gives the secret away wherever it is found, for those who take it out of logs.
    pub fn secret(&self) -> SecretString {
        pem::body(pem::Kind::Private, self.seed.expose_secret()).into()
    }

    pub(crate) fn to_pem(&self) -> SecretString {
        pem::write(pem::Kind::Private, self.seed.expose_secret()).into()
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        // The same seed made a pair before, so it does now; an empty signature would be refused by everybody.
        Ed25519KeyPair::from_seed_unchecked(self.seed.expose_secret())
            .map(|pair| pair.sign(bytes).as_ref().to_vec())
            .unwrap_or_default()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SigningKey({})", self.public.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_signs_and_is_not_shown() {
        let key = SigningKey::random().unwrap();
        let signature = key.sign(b"words");
        assert!(key.public().has_signed(b"words", &signature) && !key.public().has_signed(b"wordz", &signature));
        assert!(!SigningKey::random().unwrap().public().has_signed(b"words", &signature));
        let (shown, secret) = (format!("{key:?} {:?}", key.to_pem()), key.secret());
        assert!(!shown.contains(secret.expose_secret()) && shown.contains(key.public().id().as_str()), "{shown}");
        assert_eq!(PublicKey::from_pem(&key.public().to_pem()), Some(key.public()));
    }

    #[test]
    fn ids_of_keys_have_one_form() {
        let id = SigningKey::random().unwrap().public().id();
        assert_eq!(id.to_string().parse::<KeyId>(), Ok(id.clone()));
        assert_eq!(id.as_str().parse::<KeyId>(), Ok(id.clone()));
        for wrong in ["", "sha256:", &id.as_str().to_uppercase(), &id.as_str()[1..]] {
            assert!(wrong.parse::<KeyId>().is_err(), "{wrong}");
        }
    }

    /// RFC 8032, section 7.1, test 1: the seed gives this key, and this signature of nothing.
    #[test]
    fn signatures_are_those_of_rfc_8032() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len() / 2).map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap()).collect()
        };
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let key = SigningKey::of(SecretBox::new(Box::new(seed.try_into().unwrap()))).unwrap();
        assert_eq!(key.public().0.to_vec(), hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
        let signature = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
        assert_eq!(key.sign(b""), hex(signature));
    }
}
