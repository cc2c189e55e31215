//! The path of a request, which leads to nothing outside of the site.

use std::path::PathBuf;

/// A decoded path that has no `..` and no empty or strange segment: safe to append to the root of the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SitePath(Vec<String>);

impl SitePath {
    /// Reads the path of a target, in origin form or (RFC 9112, 3.2.2) absolute form; none when it is refused.
    pub(super) fn parse(target: &str) -> Option<Self> {
        let path = path_and_query(target).0.strip_prefix('/')?;
        // Decoded before it is split: `%2e%2e` and `%2f` are what they stand for.
        let decoded = String::from_utf8(decode(path)?).ok()?;
        let segments = decoded.split('/').filter(|segment| !segment.is_empty() && *segment != ".");
        let segments: Vec<String> = segments.map(str::to_owned).collect();
        let fine = segments.iter().all(|segment| segment != ".." && !segment.contains('\0'));
        fine.then_some(Self(segments))
    }

    /// Below a root.
    pub(super) fn relative(&self) -> PathBuf {
        self.0.iter().collect()
    }

    /// As a link to an entry below this path.
    pub(super) fn link_to(&self, entry: &[u8]) -> String {
        let segments = self.0.iter().map(String::as_bytes).chain([entry]);
        segments.flat_map(|segment| ["/".to_owned(), encode(segment)]).collect()
    }
}

/// Splits a target into its path and its query.
pub(super) fn path_and_query(target: &str) -> (&str, &str) {
    let origin = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => target,
    };
    origin.split_once('?').unwrap_or((origin, ""))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hexadecimal(bytes.next()?)? << 4 | hexadecimal(bytes.next()?)? } else { byte });
    }
    Some(decoded)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn encode(segment: &[u8]) -> String {
    let encoded = segment.iter().map(|&byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(target: &str) -> Option<String> {
        SitePath::parse(target).map(|path| path.relative().display().to_string())
    }

    #[test]
    fn paths_are_decoded_and_stay_below_the_root() {
        let found = |target: &str, path: &str| assert_eq!(relative(target).as_deref(), Some(path), "{target}");
        found("/", "");
        found("/simple/a%20b/?x=/../y", "simple/a b");
        found("//etc//./passwd", "etc/passwd");
        found("/a...b/..c", "a...b/..c");
        found("http://www.example.org/a?b", "a");
        found("http://www.example.org", "");
        found("/proxy?to=http://www.example.org/x", "proxy");
    }

    #[test]
    fn traversal_is_refused_in_every_spelling() {
        for target in [
            "/..",
            "/../x",
            "/a/../../x",
            "/%2e%2e/x",
            "/%2E./x",
            "/a%2f..%2fx",
            "/a%00",
            "/%",
            "/%4",
            "/%zz",
            "/%+1",
            "/%ff",
            "*",
            "",
            "http://www.example.org/../x",
        ] {
            assert_eq!(relative(target), None, "{target}");
        }
    }

    #[test]
    fn links_survive_their_way_back() {
        let path = SitePath::parse("/simple/a%20b").unwrap();
        let link = path.link_to(b"<x> 100%.whl");
        assert_eq!(link, "/simple/a%20b/%3Cx%3E%20100%25.whl");
        assert_eq!(relative(&link).as_deref(), Some("simple/a b/<x> 100%.whl"));
    }
}
