//! Printing and parsing a host pattern or an allow rule gives the same value; names consist of letters, digits, `-` and `.`.

use profile::{AllowRule, HostName, HostPattern};

/// Checks one input.
pub fn host_pattern(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(name) = text.parse::<HostName>() {
        assert_eq!(name.as_str().parse::<HostName>().as_ref(), Ok(&name));
        let ldh = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        assert!(name.as_str().bytes().all(ldh));
        assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
        assert!(name.as_str().contains('.') && name.as_str().len() <= 253);
    }
    if let Ok(pattern) = text.parse::<HostPattern>() {
        assert_eq!(pattern.to_string().parse::<HostPattern>().as_ref(), Ok(&pattern));
        assert!(pattern.covers(&pattern));
    }
    if let Ok(rule) = text.parse::<AllowRule>() {
        assert_eq!(rule.to_string().parse::<AllowRule>().as_ref(), Ok(&rule));
    }
}
