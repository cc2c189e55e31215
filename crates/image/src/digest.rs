//! What content is called: by its SHA-256.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not sha256: and 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.0.update(bytes);
        hasher.finish()
    }

    /// The digits alone: a file name.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match text.strip_prefix("sha256:") {
            Some(hex) if is_hex(hex) => Ok(Self(text.to_owned())),
            _ => Err(DigestError(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Computes a digest as bytes come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn finish(self) -> Digest {
        let mut text = String::from("sha256:");
        for byte in self.0.finalize() {
            let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
            text.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        Digest(text)
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads at most so many bytes, and knows their digest at the end.
pub(crate) struct Measured<R> {
    inner: R,
    hasher: Hasher,
    left: u64,
}

impl<R: Read> Measured<R> {
    pub(crate) fn new(inner: R, limit: u64) -> Self {
        Self { inner, hasher: Hasher::default(), left: limit }
    }

    /// Reads what is left; says how many bytes of the limit are not used.
    pub(crate) fn unused(&mut self) -> io::Result<u64> {
        io::copy(self, &mut io::sink())?;
        Ok(self.left)
    }

    /// Reads what is left, and gives the digest of everything.
    pub(crate) fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hasher.finish())
    }
}

/// What an image says it is too large by.
pub(crate) fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "larger than the limit")
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(u64::try_from(count).unwrap_or(u64::MAX)).ok_or_else(too_large)?;
        self.hasher.write_all(&buffer[..count])?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_what_sha256sum_says() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse::<Digest>().unwrap().hex().len(), 64);
        for text in ["", "sha256:", "sha512:00", &empty.to_uppercase(), &empty[..70], "sha256:../../../etc/passwd"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_is_a_limit() {
        assert!(Measured::new(&b"12345"[..], 5).finish().is_ok());
        assert_eq!(Measured::new(&b"123456"[..], 5).finish().unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
