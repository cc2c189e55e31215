//! Keys as texts: PEM around the few bytes that RFC 8410 has for ed25519, so that other programs read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// PKCS #8, version 1: an ed25519 private key follows.
const PRIVATE: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// `SubjectPublicKeyInfo`: an ed25519 public key follows.
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Which of the two keys a text is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Private,
    Public,
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Self::Private => "PRIVATE KEY",
            Self::Public => "PUBLIC KEY",
        }
    }

    fn prefix(self) -> &'static [u8] {
        match self {
            Self::Private => &PRIVATE,
            Self::Public => &PUBLIC,
        }
    }
}

/// The one line between the first and the last.
pub(crate) fn body(kind: Kind, key: &[u8; 32]) -> String {
    STANDARD.encode([kind.prefix(), key].concat())
}

/// The whole text.
pub(crate) fn write(kind: Kind, key: &[u8; 32]) -> String {
    let label = kind.label();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", body(kind, key))
}

/// The key in a text; nothing if it is anything else. White space at the ends of lines is forgiven.
pub(crate) fn read(kind: Kind, text: &str) -> Option<[u8; 32]> {
    let label = kind.label();
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let (first, body, last) = (lines.next()?, lines.next()?, lines.next()?);
    if lines.next().is_some() || first != format!("-----BEGIN {label}-----") || last != format!("-----END {label}-----")
    {
        return None;
    }
    STANDARD.decode(body).ok()?.strip_prefix(kind.prefix())?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_rfc_8410_shows_them() {
        // Its examples, section 10.
        let private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        for (kind, text) in [(Kind::Private, private), (Kind::Public, public)] {
            assert_eq!(write(kind, &read(kind, text).unwrap()), text);
        }
        assert!(read(Kind::Public, private).is_none() && read(Kind::Private, public).is_none());
        assert!(read(Kind::Public, &public.replace("MCow", "MCoo")).is_none());
        assert!(read(Kind::Public, &format!("{public}{public}")).is_none());
    }
}
