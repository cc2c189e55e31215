//! Tokens: a file of our own that nobody else may read, and a comparison that tells nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ring::hmac;

/// The shortest token that is taken: 128 bits in hexadecimal.
const SHORTEST: usize = 32;
const LONGEST: usize = 512;
/// How many tokens there may be, and how large their file.
const MOST: usize = 64;
const MAX_FILE: u64 = 64 << 10;

/// Why a file gives no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read the token file `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others may read it.
    #[error("the token file `{}` is not ours alone: its mode is {mode:03o}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It has no tokens that can be used.
    #[error("the token file `{}`: {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl TokenError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE)",
            Self::Open { .. } => "chmod 600 it, and use a new token: others may know this one",
            Self::Content { .. } => "one token per line, each of 32 to 512 letters, digits and -._~+/=",
        }
    }
}

/// One token, as something that can be compared but not read.
#[derive(Debug)]
pub struct Token(hmac::Tag);

/// All tokens. Each is an owner of its own.
#[derive(Debug)]
pub struct Tokens {
    key: hmac::Key,
    tokens: Vec<Token>,
}

impl Tokens {
    /// Reads them from a file that only its owner, who we are, may read.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mode = metadata.mode() & 0o777;
        if !metadata.is_file() || mode & 0o077 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(TokenError::Open { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
        let wrong = |why: &str| TokenError::Content { path: path.to_owned(), why: why.to_owned() };
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return Err(wrong("it has no token"));
        }
        if lines.len() > MOST || u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_FILE {
            return Err(wrong("it has too many tokens"));
        }
        let fits = |line: &&str| (SHORTEST..=LONGEST).contains(&line.len()) && line.bytes().all(is_letter);
        if !lines.iter().all(fits) {
            return Err(wrong("a token is too short, too long, or has characters that no token has"));
        }
        Self::new(&lines).ok_or_else(|| wrong("there is no randomness to compare with"))
    }

    fn new(tokens: &[&str]) -> Option<Self> {
        let random = ring::rand::SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).ok()?;
        let tokens = tokens.iter().map(|token| Token(hmac::sign(&key, token.as_bytes()))).collect();
        Some(Self { key, tokens })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.tokens.len()
    }

    /// Which token this is. All are compared, under a key that nobody knows, so that time tells nothing.
    pub(crate) fn find(&self, stated: &[u8]) -> Option<usize> {
        let mut found = None;
        for (number, token) in self.tokens.iter().enumerate() {
            if hmac::verify(&self.key, stated, token.0.as_ref()).is_ok() {
                found = Some(number);
            }
        }
        found
    }
}

/// What RFC 6750 lets a bearer token have.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Tokens, TokenError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Tokens::read(&path)
    }

    #[test]
    fn tokens_are_told_apart() {
        let (one, two) = ("a".repeat(32), "b".repeat(40));
        let tokens = read(&format!("{one}\n\n  {two}\n"), 0o600).unwrap();
        let found = [&one, &two, &"c".repeat(32), &"a".repeat(31), &String::new()].map(|t| tokens.find(t.as_bytes()));
        assert_eq!(found, [Some(0), Some(1), None, None, None]);
    }

    #[test]
    fn a_file_that_others_read_gives_no_token() {
        let token = "a".repeat(32);
        assert!(matches!(read(&token, 0o640), Err(TokenError::Open { mode: 0o640, .. })));
        assert!(matches!(read(&token, 0o604), Err(TokenError::Open { .. })));
        assert!(matches!(read("short", 0o600), Err(TokenError::Content { .. })));
        assert!(matches!(read(&format!("{token}!"), 0o600), Err(TokenError::Content { .. })));
        assert!(matches!(read("\n", 0o600), Err(TokenError::Content { .. })));
    }
}
