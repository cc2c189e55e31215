//! One canonical form for host names, so that no two parsers can disagree about one.
//!
//! Attackers live in the gap between "what the rule says" and "what the connection means":
//! upper case, a trailing dot, an IDN look-alike, an address written as a name. All of that is
//! settled here, once; a [`HostName`] needs no further checks.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Serialize, Serializer};

/// Longest name in presentation form without the trailing dot (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;
/// Longest input worth handing to the IDN mapping; its cost grows with the text.
const MAX_INPUT: usize = 1024;

/// A canonical DNS host name: lower case, no trailing dot, letters-digits-hyphen labels (IDN as
/// A-labels), at least two labels, never an IP address in any notation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Why a text is not a [`HostName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostNameError {
    /// Nothing there.
    #[error("a host name is empty")]
    Empty,
    /// Longer than DNS allows.
    #[error("a host name is longer than {MAX_NAME} characters")]
    TooLong,
    /// One label only.
    #[error("a host name needs at least two labels")]
    SingleLabel,
    /// An address in any notation.
    #[error("an IP address is not a host name")]
    IpLiteral,
    /// A label that is not letters, digits and inner hyphens.
    #[error("a label is not made of letters, digits and inner hyphens")]
    NotLdh,
    /// A label that is empty or longer than 63 octets.
    #[error("a label is empty or longer than 63 characters")]
    LabelLength,
    /// Not a valid internationalised name.
    #[error("not a valid internationalised name")]
    Idn,
}

impl HostNameError {
    /// What the user can do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::IpLiteral => "list addresses in `allow_cidr`",
            Self::SingleLabel => "write the full name, such as api.example.org: search domains are never used",
            Self::Empty | Self::TooLong | Self::NotLdh | Self::LabelLength | Self::Idn => {
                "write a plain DNS name, without scheme, port or path, such as api.example.org"
            }
        }
    }
}

impl HostName {
    /// Reads a name as a person writes it: any case, IDN, an optional trailing dot.
    pub fn parse(text: &str) -> Result<Self, HostNameError> {
        if text.is_empty() {
            return Err(HostNameError::Empty);
        }
        if text.len() > MAX_INPUT {
            return Err(HostNameError::TooLong);
        }
        if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Err(HostNameError::IpLiteral);
        }
        if text.is_ascii() {
            return Self::canonical(text);
        }
        // Hyphens::Allow: real names have "--" in places that UTS 46 reserves; `canonical` checks the edges.
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), AsciiDenyList::STD3, Hyphens::Allow, DnsLength::Ignore)
            .map_err(|_| HostNameError::Idn)?;
        Self::canonical(&ascii)
    }

    fn canonical(ascii: &str) -> Result<Self, HostNameError> {
        let name = ascii.strip_suffix('.').unwrap_or(ascii).to_ascii_lowercase();
        if name.is_empty() {
            return Err(HostNameError::Empty);
        }
        if name.len() > MAX_NAME {
            return Err(HostNameError::TooLong);
        }
        let mut labels = 0;
        for label in name.split('.') {
            check_label(label)?;
            labels += 1;
        }
        // `inet_aton` reads 0x7f.1, 017700000001 and 2130706433 as addresses; so do many programs. A name whose
        // last label is a number is never a public DNS name (https://url.spec.whatwg.org/#ends-in-a-number-checker).
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(HostNameError::IpLiteral);
        }
        if labels < 2 {
            return Err(HostNameError::SingleLabel);
        }
        Ok(Self(name))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name lies strictly below `base` (`a.b.org` below `b.org`).
    pub fn is_below(&self, base: &Self) -> bool {
        self.0.strip_suffix(&base.0).is_some_and(|rest| rest.ends_with('.'))
    }
}

fn check_label(label: &str) -> Result<(), HostNameError> {
    if label.is_empty() || label.len() > 63 {
        return Err(HostNameError::LabelLength);
    }
    let ldh = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !ldh || label.starts_with('-') || label.ends_with('-') {
        return Err(HostNameError::NotLdh);
    }
    if label.starts_with("xn--") {
        // An A-label must be what its own Unicode form encodes to; otherwise two spellings would name one host.
        let (_, valid) = Uts46::new().to_unicode(label.as_bytes(), AsciiDenyList::STD3, Hyphens::Allow);
        valid.map_err(|_| HostNameError::Idn)?;
    }
    Ok(())
}

fn is_number(label: &str) -> bool {
    let decimal = label.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal =
        label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    decimal || hexadecimal
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_name_are_one_name() {
        for (text, canonical) in [
            ("Example.ORG", "example.org"),
            ("example.org.", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("example。org", "example.org"),
            ("ｅｘａｍｐｌｅ.org", "example.org"),
            ("r3---sn-abc.example.org", "r3---sn-abc.example.org"),
            ("0x.example.org", "0x.example.org"),
            ("1.2.3.4.example.org", "1.2.3.4.example.org"),
        ] {
            assert_eq!(HostName::parse(text).as_ref().map(HostName::as_str), Ok(canonical), "{text}");
        }
    }

    #[test]
    fn idn_homograph_is_another_name() {
        // The first letter is CYRILLIC SMALL LETTER ER.
        let look_alike = HostName::parse("рypi.example.org").unwrap();
        assert_ne!(look_alike, HostName::parse("pypi.example.org").unwrap());
    }

    #[test]
    fn addresses_in_any_notation_are_not_names() {
        for text in [
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "017700000001",
            "[::1]",
            "::1",
            "::ffff:1.2.3.4",
            "1.2.3.4.",
            "127。0。0。1",
            "１２７.0.0.1",
            "example.0x7f",
            "example.1",
        ] {
            assert_eq!(HostName::parse(text), Err(HostNameError::IpLiteral), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_plain_name_is_refused() {
        use HostNameError::{Empty, Idn, LabelLength, NotLdh, SingleLabel, TooLong};
        for (text, error) in [
            ("", Empty),
            (".", Empty),
            ("localhost", SingleLabel),
            ("example", SingleLabel),
            ("example..org", LabelLength),
            (".example.org", LabelLength),
            ("example.org..", LabelLength),
            ("-a.example.org", NotLdh),
            ("a-.example.org", NotLdh),
            ("a_b.example.org", NotLdh),
            ("a b.example.org", NotLdh),
            ("a\0.example.org", NotLdh),
            ("https://example.org", NotLdh),
            ("example.org:443", NotLdh),
            ("*.example.org", NotLdh),
            ("user@example.org", NotLdh),
            ("xn--a.example.org", Idn),
            ("xn--.example.org", NotLdh),
            ("a\u{200d}b.example.org", Idn),
            (&format!("{}.org", "a".repeat(64)), LabelLength),
            (&format!("{}org", "a.".repeat(126)), TooLong),
            (&"é".repeat(600), TooLong),
        ] {
            assert_eq!(HostName::parse(text), Err(error), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parse_after_print_is_identity(text in "\\PC{0,40}\\.\\PC{0,20}") {
            if let Ok(name) = HostName::parse(&text) {
                prop_assert_eq!(HostName::parse(name.as_str()), Ok(name.clone()));
                prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'));
            }
        }
    }
}
