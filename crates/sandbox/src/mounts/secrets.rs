//! Names and contents of files that give keys away. Pure: the search reads, this judges.

use std::ffi::OsStr;
use std::path::Path;

use rustix::fs::FileType;

/// For refusals of what gives keys away.
pub(super) const HINT: &str =
    "mount only what the agent needs; the operator can allow it on the command line with --dangerously-mount-secrets";

/// Names that hold credentials wherever they stand.
const CREDENTIALS: [&str; 8] = [".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".git-credentials"];
/// The same below a directory `.config`.
const BELOW_CONFIG: [&str; 3] = ["gcloud", "gh", "ringfence"];
/// The usual names of SSH's private keys.
const PRIVATE_KEYS: [&str; 6] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"];
/// Ends of PEM's first line, whatever the kind of key, encrypted or not (RFC 7468).
const PEM_PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

/// Judges the beginning of a file: what it holds, if that is a secret.
pub(super) type Judge = fn(&[u8]) -> Option<&'static str>;

/// What a name says of a file.
pub(super) enum Suspect {
    /// Nothing.
    Nothing,
    /// It gives keys away.
    Secret(&'static str),
    /// Its contents say it.
    Contents(Judge),
}

/// Judges a file or directory by its path, whose last name is `name`.
pub(super) fn judge(path: &Path, name: &OsStr, kind: FileType) -> Suspect {
    // A link is followed inside the sandbox, where the host's files are not.
    if !matches!(kind, FileType::Directory | FileType::RegularFile) {
        return Suspect::Nothing;
    }
    let Some(text) = name.to_str() else { return Suspect::Nothing };
    let is_in_config = || path.parent().and_then(Path::file_name) == Some(OsStr::new(".config"));
    if CREDENTIALS.contains(&text) || (BELOW_CONFIG.contains(&text) && is_in_config()) {
        return Suspect::Secret("holds credentials");
    }
    if kind != FileType::RegularFile {
        return Suspect::Nothing;
    }
    if PRIVATE_KEYS.contains(&text) {
        return Suspect::Secret("is a private key");
    }
    match text {
        ".npmrc" => Suspect::Contents(npm_token),
        ".pypirc" => Suspect::Contents(package_password),
        _ => match Path::new(text).extension().and_then(OsStr::to_str) {
            Some("pem" | "key") => Suspect::Contents(private_key),
            _ => Suspect::Nothing,
        },
    }
}

fn private_key(contents: &[u8]) -> Option<&'static str> {
    let found = contents.windows(PEM_PRIVATE_KEY.len()).any(|window| window == PEM_PRIVATE_KEY);
    found.then_some("is a private key")
}

/// A value of its own; a reference to a variable (`${NPM_TOKEN}`) gives nothing away.
fn npm_token(contents: &[u8]) -> Option<&'static str> {
    states(contents, |key| key.contains("_auth") || key.contains("_password")).then_some("holds a token")
}

fn package_password(contents: &[u8]) -> Option<&'static str> {
    states(contents, |key| key == "password").then_some("holds a password")
}

/// Whether a line `KEY = VALUE` with such a key has a value that is not a reference to a variable.
fn states(contents: &[u8], is_secret: impl Fn(&str) -> bool) -> bool {
    String::from_utf8_lossy(contents).lines().any(|line| {
        let entry = line.split_once('=').or_else(|| line.split_once(": "));
        entry.is_some_and(|(key, value)| {
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            !key.starts_with(['#', ';']) && is_secret(key) && !value.is_empty() && !value.starts_with("${")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_secret(path: &str, kind: FileType, contents: &[u8]) -> bool {
        let path = Path::new(path);
        match judge(path, path.file_name().unwrap(), kind) {
            Suspect::Nothing => false,
            Suspect::Secret(_) => true,
            Suspect::Contents(judge) => judge(contents).is_some(),
        }
    }

    #[test]
    fn credentials_are_known_by_name_and_keys_by_what_they_hold() {
        use FileType::{Directory, RegularFile, Symlink};
        let pem = b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n";
        for (path, kind, contents) in [
            ("/w/.ssh", Directory, &b""[..]),
            ("/w/.netrc", RegularFile, b""),
            ("/w/.config/gcloud", Directory, b""),
            ("/w/.config/ringfence", Directory, b""),
            ("/w/keys/id_ed25519", RegularFile, b""),
            ("/w/server.key", RegularFile, pem),
            ("/w/bundle.pem", RegularFile, b"-----BEGIN ENCRYPTED PRIVATE KEY-----"),
            ("/w/.npmrc", RegularFile, b"//r.example.org/:_authToken=abc"),
            ("/w/.pypirc", RegularFile, b"[main]\npassword = x\n"),
        ] {
            assert!(is_secret(path, kind, contents), "{path}");
        }
        for (path, kind, contents) in [
            ("/w/.config", Directory, &b""[..]),
            ("/w/gcloud", Directory, b""),
            ("/w/ringfence", Directory, b""),
            ("/w/.ssh", Symlink, b""),
            ("/w/id_ed25519.pub", RegularFile, b""),
            ("/w/cacert.pem", RegularFile, b"-----BEGIN CERTIFICATE-----"),
            ("/w/answer.key", RegularFile, b"1: a\n2: b\n"),
            ("/w/.npmrc", RegularFile, b"//r.example.org/:_authToken=${NPM_TOKEN}\nregistry=https://r.example.org/"),
            ("/w/.pypirc", RegularFile, b"[main]\nusername = x\n# password = y\n"),
        ] {
            assert!(!is_secret(path, kind, contents), "{path}");
        }
    }
}
