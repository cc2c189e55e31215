//! Any bytes are a request head, the beginning of one, or an error; an accepted head names the allowed host exactly once.

use egress::{Shown, Upgrades, read_head};

const NAME: &str = "www.example.org";

/// Checks one input.
pub fn http_head(bytes: &[u8]) {
    if let Some(shown) = Shown::by_http(bytes) {
        let texts = shown.host.iter().chain(&shown.forwarded).chain(&shown.request).chain(&shown.bytes);
        assert!(texts.clone().count() <= 9);
        for text in texts {
            assert!(text.len() <= 255 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
        }
    }
    let head = read_head(bytes, NAME, Upgrades::WebSocket);
    let Ok(Some(head)) = head else { return };
    let text = std::str::from_utf8(&bytes[..head.length]).unwrap_or_default().to_ascii_lowercase();
    if text.is_empty() {
        return; // bytes above ASCII in a value; the lines below are for the rest
    }
    let hosts: Vec<&str> = text.split("\r\n").filter_map(|line| line.strip_prefix("host:")).map(str::trim).collect();
    assert!(matches!(hosts.as_slice(), [host] if host.trim_end_matches(":80") == NAME), "{text}");
    assert!(!text.starts_with("connect "));
    for line in text.split("\r\n").filter_map(|line| line.strip_prefix("x-forwarded-host:")) {
        assert!(line.split(',').all(|host| host.trim().trim_end_matches(":80") == NAME), "{text}");
    }
    assert!(!(text.contains("\r\ncontent-length:") && text.contains("\r\ntransfer-encoding:")));
    // The next request begins where this one ends.
    assert_eq!(read_head(&bytes[..head.length], NAME, Upgrades::WebSocket), Ok(Some(head)));
}
