//! What proves to a server who we are: a header, and what must not be repeated of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};

/// Whether a header says who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// It came of a login.
    Known,
    /// A token that anybody gets.
    Nobody,
}

/// An `Authorization` header. `Debug` does not show it.
#[derive(Debug)]
pub(crate) struct Authorization {
    pub(crate) header: HeaderValue,
    pub(crate) identity: Identity,
    secrets: Vec<SecretString>,
}

impl Authorization {
    /// A name and a password.
    pub(crate) fn basic(name: &str, password: &SecretString) -> Option<Self> {
        let encoded = STANDARD.encode(format!("{name}:{}", password.expose_secret()));
        Self::new("Basic", encoded, vec![password.clone()], Identity::Known)
    }

    /// A token.
    pub(crate) fn bearer(token: String, identity: Identity) -> Option<Self> {
        Self::new("Bearer", token, Vec::new(), identity)
    }

    fn new(scheme: &str, value: String, mut secrets: Vec<SecretString>, identity: Identity) -> Option<Self> {
        // A space or a comma would begin another word of the header.
        let plain = value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') && !value.is_empty();
        let mut header = HeaderValue::from_str(&format!("{scheme} {value}")).ok().filter(|_| plain)?;
        header.set_sensitive(true);
        secrets.push(SecretString::from(value));
        Some(Self { header, identity, secrets })
    }

    /// What a server was told by it, and may repeat.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        self.secrets.iter().map(SecretString::expose_secret).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_encoded_and_not_shown() {
        let basic = Authorization::basic("Aladdin", &SecretString::from("open sesame")).unwrap();
        assert_eq!(basic.header.to_str().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let debug = format!("{basic:?}");
        assert!(!debug.contains("QWxh") && !debug.contains("sesame"), "{debug}");
        assert_eq!(basic.secrets(), ["open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]);
    }

    #[test]
    fn what_is_no_token_is_none() {
        for token in ["", "a b", "a\r\nX: y", "a,b", "ä"] {
            assert!(Authorization::bearer(token.to_owned(), Identity::Nobody).is_none(), "{token:?}");
        }
    }
}
