//! Images, as data URLs. An address is never handed on: the provider would fetch it, from outside every sandbox.

use crate::error::ModelError;

/// An image in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Image<'a> {
    pub(crate) kind: &'a str,
    /// In base 64.
    pub(crate) data: &'a str,
}

const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Reads `data:image/png;base64,…`.
pub(crate) fn image(url: &str) -> Result<Image<'_>, ModelError> {
    let rest = url.strip_prefix("data:").ok_or(ModelError::Image { why: "it is not a data URL" })?;
    let (head, data) = rest.split_once(',').ok_or(ModelError::Image { why: "its data URL has no data" })?;
    let kind = head.strip_suffix(";base64").ok_or(ModelError::Image { why: "its data URL is not in base 64" })?;
    if !KINDS.contains(&kind) {
        return Err(ModelError::Image { why: "it is of another kind" });
    }
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    if data.is_empty() || data.len() % 4 != 0 || !data.bytes().all(sound) {
        return Err(ModelError::Image { why: "its base 64 is broken" });
    }
    Ok(Image { kind, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_that_are_there_are_sent() {
        assert_eq!(image("data:image/png;base64,AAAA").ok(), Some(Image { kind: "image/png", data: "AAAA" }));
        for odd in [
            "https://example.com/a.png",
            "data:image/png,AAAA",
            "data:image/svg+xml;base64,AAAA",
            "data:image/png;base64,",
            "data:image/png;base64,AAA",
            "data:image/png;base64,AA\n=",
            "file:///etc/passwd",
        ] {
            assert!(image(odd).is_err(), "{odd}");
        }
    }
}
