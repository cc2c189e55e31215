//! What a path may be, before anything is touched; and the words for what may not.

use log::message::{ToolError, ToolErrorKind};
use profile::{FileToolsInForce, Glob};

use super::names;

/// The longest path, and the longest name in it: what Linux takes, in memory too, so that both modes answer the same.
const MAX_PATH: usize = 4000;
const MAX_NAME: usize = 255;

/// A path within the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// Below the root, without `.` and `..`; empty is the root.
    pub(super) path: String,
    /// The whole path, for messages.
    pub(super) shown: String,
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Change,
    /// Looking into a directory.
    Look,
}

fn error(kind: ToolErrorKind, message: String) -> ToolError {
    ToolError { kind, message }
}

impl Spot {
    /// Reads a path of the model's: absolute, or relative to the root.
    pub(super) fn parse(given: &str, root: &str) -> Result<Self, ToolError> {
        let root = root.trim_end_matches('/');
        if given.contains('\0') {
            return Err(error(ToolErrorKind::Parsing, "a path cannot have a NUL in it".into()));
        }
        let outside = || {
            let message = format!(
                "Access denied: path '{}' is outside the configured filesystem root '{}'. Only paths within the root are allowed.",
                names::shown(given),
                if root.is_empty() { "/" } else { root },
            );
            error(ToolErrorKind::Permission, message)
        };
        let whole = if given.starts_with('/') { given.to_owned() } else { format!("{root}/{given}") };
        let mut parts: Vec<&str> = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                // By the text alone: there are no links that could make it mean something else.
                ".." => drop(parts.pop().ok_or_else(outside)?),
                part => parts.push(part),
            }
        }
        let mut below = parts.into_iter();
        if !root.split('/').filter(|part| !part.is_empty()).all(|part| below.next() == Some(part)) {
            return Err(outside());
        }
        let path = below.collect::<Vec<_>>().join("/");
        if path.len() > MAX_PATH || path.split('/').any(|name| name.len() > MAX_NAME) {
            return Err(error(ToolErrorKind::Parsing, "the path, or a name in it, is too long".into()));
        }
        let shown = match (root, path.as_str()) {
            ("", path) => format!("/{path}"),
            (root, "") => root.to_owned(),
            (root, path) => format!("{root}/{path}"),
        };
        Ok(Self { path, shown: names::shown(&shown) })
    }

    /// The same, if the rules let it be used so.
    pub(super) fn check(given: &str, wanted: Use, rules: &FileToolsInForce) -> Result<Self, ToolError> {
        if wanted == Use::Change && rules.read_only {
            return Err(read_only());
        }
        let spot = Self::parse(given, &rules.root)?;
        let forbidden = match wanted {
            Use::Look => rules.forbids_looking_into(&spot.path),
            Use::Read | Use::Change => rules.forbids(&spot.path),
        };
        forbidden.map_or(Ok(()), |rule| Err(denied(&spot, rule)))?;
        Ok(spot)
    }
}

fn denied(spot: &Spot, rule: Option<&Glob>) -> ToolError {
    let why = match rule {
        Some(glob) => format!("is denied by `{}`", names::shown(&glob.to_string())),
        None => "is not among the allowed paths".into(),
    };
    error(ToolErrorKind::Permission, format!("PolicyDenied: path '{}' {why}", spot.shown))
}

pub(super) fn read_only() -> ToolError {
    error(ToolErrorKind::Permission, "SandboxReadOnly: the file tools may only read".into())
}

pub(super) fn unsupported() -> ToolError {
    let message = "SandboxUnsupported: files are not deleted in sandbox mode";
    error(ToolErrorKind::Permission, message.into())
}

/// The largest file that is held, whatever is configured: it passes through our memory.
const MOST: u64 = 100 << 20;

pub(super) fn max_bytes(rules: &FileToolsInForce) -> u64 {
    rules.max_bytes.0.min(MOST)
}

/// Fails for more bytes than a file may have.
pub(super) fn require_size(bytes: usize, rules: &FileToolsInForce) -> Result<(), ToolError> {
    let most = max_bytes(rules);
    if u64::try_from(bytes).unwrap_or(u64::MAX) <= most { Ok(()) } else { Err(too_large(Some(bytes), most)) }
}

pub(super) fn too_large(bytes: Option<usize>, most: u64) -> ToolError {
    let found = bytes.map_or(String::new(), |bytes| format!("{bytes} bytes > "));
    let message =
        format!("File exceeds maximum size limit: {found}{most} bytes. INSPECT_AGENTS_FS_MAX_BYTES sets the limit.");
    error(ToolErrorKind::Limit, message)
}

pub(super) fn not_found(spot: &Spot) -> ToolError {
    let message = format!("File '{}' not found. Please check the file path and ensure the file exists.", spot.shown);
    error(ToolErrorKind::FileNotFound, message)
}

pub(super) fn is_a_directory(spot: &Spot) -> ToolError {
    error(ToolErrorKind::IsADirectory, format!("'{}' is a directory", spot.shown))
}

pub(super) fn not_a_directory(spot: &Spot) -> ToolError {
    error(ToolErrorKind::Unknown, format!("'{}' is not a directory, or something above it is not", spot.shown))
}

pub(super) fn not_text(spot: &Spot) -> ToolError {
    error(ToolErrorKind::UnicodeDecode, format!("File '{}' is not UTF-8 text", spot.shown))
}

#[cfg(test)]
mod tests {
    use profile::{Bytes, FileMode, Preflight};
    use proptest::prelude::*;

    use super::*;

    fn rules(root: &str) -> FileToolsInForce {
        FileToolsInForce {
            mode: FileMode::Store,
            root: root.into(),
            read_only: false,
            max_bytes: Bytes(10),
            preflight: Preflight::Auto,
            allow: Vec::new(),
            deny: vec![".git".parse().unwrap(), "*.pem".parse().unwrap()],
        }
    }

    #[test]
    fn paths_stay_within_the_root() {
        for (given, path) in [
            ("a.txt", "a.txt"),
            ("/repo/a.txt", "a.txt"),
            ("./a//b/", "a/b"),
            ("a/../b", "b"),
            ("/repo", ""),
            ("", ""),
            ("../repo/x", "x"),
            ("/tmp/../repo/x", "x"),
        ] {
            assert_eq!(Spot::parse(given, "/repo").map(|spot| spot.path), Ok(path.into()), "{given}");
            assert_eq!(Spot::parse(given, "/repo/").map(|spot| spot.path), Ok(path.into()), "{given}");
        }
        for given in ["..", "../x", "/etc/passwd", "/repository", "a/../../b", "/", "../../../.."] {
            let refused = Spot::parse(given, "/repo").unwrap_err();
            assert_eq!(refused.kind, ToolErrorKind::Permission, "{given}");
            assert!(refused.message.contains("outside the configured filesystem root '/repo'"), "{}", refused.message);
        }
        assert_eq!(Spot::parse("/etc/passwd", "/").unwrap().shown, "/etc/passwd");
        assert_eq!(Spot::parse("a\0b", "/repo").unwrap_err().kind, ToolErrorKind::Parsing);
        assert_eq!(Spot::parse(&"n".repeat(256), "/repo").unwrap_err().kind, ToolErrorKind::Parsing);
        assert_eq!(Spot::parse("a\x1b[31m\n", "/repo").unwrap().shown, "/repo/a\\x1b[31m\\n");
    }

    #[test]
    fn deny_beats_allow_and_read_only_beats_both() {
        let mut rules = rules("/repo");
        let message = |given: &str, wanted: Use, rules: &FileToolsInForce| {
            Spot::check(given, wanted, rules).map_err(|error| error.message).unwrap_err()
        };
        assert!(Spot::check("src/a", Use::Change, &rules).is_ok());
        for given in [".git/config", "x/../.git", "deep/key.pem"] {
            assert!(message(given, Use::Read, &rules).starts_with("PolicyDenied: "), "{given}");
        }
        rules.allow = vec![vec!["**/*.pem".parse().unwrap(), "src".parse().unwrap()]];
        assert!(message("deep/key.pem", Use::Read, &rules).contains("denied by `*.pem`"));
        assert!(message("docs/a", Use::Read, &rules).contains("not among the allowed"));
        assert!(Spot::check("src/a", Use::Read, &rules).is_ok());
        rules.read_only = true;
        assert!(message("src/a", Use::Change, &rules).starts_with("SandboxReadOnly: "));
        assert!(Spot::check("src/a", Use::Read, &rules).is_ok());
        rules.allow = vec![Vec::new()];
        assert!(message("", Use::Look, &rules).starts_with("PolicyDenied: "), "an empty list allows nothing");
        assert!(require_size(10, &rules).is_ok());
        assert!(require_size(11, &rules).unwrap_err().message.contains("INSPECT_AGENTS_FS_MAX_BYTES"));
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_root(given in "[a./\\\\\n é]{0,24}") {
            if let Ok(spot) = Spot::parse(&given, "/a/b") {
                prop_assert!(spot.path.split('/').all(|part| part != ".." && part != "."));
                prop_assert!(!spot.path.starts_with('/'));
                let again = format!("/a/b/{}", spot.path);
                prop_assert_eq!(Spot::parse(&again, "/a/b").unwrap().path, spot.path);
            }
        }
    }
}
