//! Digests: the names of all content.
//!
//! Only SHA-256 in its one canonical spelling: two spellings of one name would be two entries in a store.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use strangers::Shown;
use thiserror::Error;

const PREFIX: &str = "sha256:";
const BYTES: usize = 32;

/// A SHA-256 digest; as text `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; BYTES]);

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DigestError {
    /// It does not begin with `sha256:`.
    #[error("`{found}` does not begin with `sha256:`")]
    Algorithm {
        /// What was given.
        found: Shown,
    },
    /// There are not 64 digits.
    #[error("a sha256 digest has 64 digits, not {found}")]
    Length {
        /// How many bytes follow the algorithm.
        found: usize,
    },
    /// A character is none of `0` to `9` and `a` to `f`.
    #[error("`{found}` is no lower-case hexadecimal digit")]
    Digit {
        /// The character.
        found: Shown,
    },
}

impl DigestError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Algorithm { .. } => "only sha256 is understood: write `sha256:` and 64 hexadecimal digits",
            Self::Length { .. } => "copy the whole digest: abbreviations are not accepted",
            Self::Digit { .. } => "write the digits `0` to `9` and `a` to `f`, in lower case",
        }
    }
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut digester = Digester::new();
        digester.update(bytes);
        digester.finish()
    }

    /// The 64 digits alone: a safe name for a file.
    pub fn hex(&self) -> String {
        const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let digit = |half: u8| DIGITS[usize::from(half & 0xf)];
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix(PREFIX).ok_or_else(|| DigestError::Algorithm { found: Shown::new(text) })?;
        if hex.len() != 2 * BYTES {
            return Err(DigestError::Length { found: hex.len() });
        }
        let mut bytes = [0; BYTES];
        for (at, character) in hex.char_indices() {
            // `to_digit` also takes upper case.
            let lower = character.is_ascii_digit() || ('a'..='f').contains(&character);
            let value = character.to_digit(16).filter(|_| lower).and_then(|value| u8::try_from(value).ok());
            let value = value.ok_or_else(|| DigestError::Digit { found: Shown::new(&character.to_string()) })?;
            bytes[at / 2] = (bytes[at / 2] << 4) | value;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Digests bytes as they come. As a writer it never fails.
#[derive(Debug, Clone, Default)]
pub struct Digester(Sha256);

impl Digester {
    /// Nothing digested yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl io::Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(format!("{:?}", Digest::of(b"")), EMPTY);
        assert_eq!(serde_json::to_string(&Digest::of(b"")).unwrap(), format!("\"{EMPTY}\""));
    }

    #[test]
    fn bytes_in_pieces_have_the_digest_of_the_whole() {
        let mut digester = Digester::new();
        digester.write_all(b"two ").unwrap();
        digester.write_all(b"pieces").unwrap();
        assert_eq!(digester.finish(), Digest::of(b"two pieces"));
    }

    #[test]
    fn other_spellings_are_refused() {
        let algorithm = |found: &str| Err(DigestError::Algorithm { found: Shown::new(found) });
        assert_eq!("".parse::<Digest>(), algorithm(""));
        assert_eq!("sha512:00".parse::<Digest>(), algorithm("sha512:00"));
        assert_eq!("SHA256:00".parse::<Digest>(), algorithm("SHA256:00"));
        assert_eq!(EMPTY[..70].parse::<Digest>(), Err(DigestError::Length { found: 63 }));
        assert_eq!(format!("{EMPTY} ").parse::<Digest>(), Err(DigestError::Length { found: 65 }));
        let upper = EMPTY.replace('e', "E");
        assert_eq!(upper.parse::<Digest>(), Err(DigestError::Digit { found: Shown::new("E") }));
        let wide = format!("sha256:{}", "ä".repeat(32));
        assert_eq!(wide.parse::<Digest>(), Err(DigestError::Digit { found: Shown::new("ä") }));
    }

    proptest! {
        #[test]
        fn a_digest_is_read_as_it_is_written(bytes in any::<[u8; BYTES]>()) {
            let digest = Digest(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            let json = serde_json::to_string(&digest).unwrap();
            prop_assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        }

        #[test]
        fn only_its_own_spelling_is_a_digest(text in "(sha256:)?[0-9a-fA-F:]{60,66}|.{0,80}") {
            if let Ok(digest) = text.parse::<Digest>() {
                prop_assert_eq!(digest.to_string(), text);
            }
        }
    }
}
