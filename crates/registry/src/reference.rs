//! References: how people name images, read once into a form that leaves nothing open.
//!
//! The grammar is that of the OCI distribution specification with Docker's short names. Where Docker is lenient in a way
//! that makes two readers see two hosts, this is not.

use std::fmt;
use std::str::FromStr;

use strangers::Shown;
use url::Url;

use crate::digest::Digest;
use crate::places::is_loopback;
use crate::reference_error::ReferenceError;

/// What a name without a registry means.
pub(crate) const DOCKER_HUB: &str = "docker.io";
/// Where the API of `docker.io` is served.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
const DEFAULT_TAG: &str = "latest";
const MAX_TEXT: usize = 1024;
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;
const MAX_HOST: usize = 253;

/// An image in a registry: `ubuntu:24.04`, `ghcr.io/owner/name@sha256:…`.
///
/// Without a registry it is on `docker.io`, there without a slash in `library/`. Without a tag and a digest the tag is
/// `latest`; with a digest, the digest alone decides and a tag is a remark.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
    /// The proof that the registry is one host to every reader, and where it is asked.
    origin: Url,
}

impl Reference {
    /// The registry, `host` or `host:port`, in lower case.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository in the registry, as `library/ubuntu`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if one was given or no digest was.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one was given.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The root of the registry's addresses: plain HTTP for this machine itself, HTTPS for all others.
    pub(crate) fn origin(&self) -> &Url {
        &self.origin
    }

    /// The address of something in the repository: `manifests/latest`, `blobs/sha256:…`.
    pub(crate) fn address(&self, rest: &str) -> Url {
        let mut address = self.origin.clone();
        address.set_path(&format!("/v2/{}/{rest}", self.repository));
        address
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(ReferenceError::TooLong { limit: MAX_TEXT });
        }
        if text.contains("://") {
            return Err(ReferenceError::Scheme { text: Shown::new(text) });
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(ReferenceError::Digest)?)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a port.
        let last = rest.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match rest[last..].split_once(':') {
            Some((name, tag)) => (&rest[..last + name.len()], Some(read_tag(tag)?)),
            None => (rest, None),
        };
        let tag = tag.or_else(|| digest.is_none().then(|| DEFAULT_TAG.to_owned()));
        let (registry, origin, path) = match name.split_once('/') {
            Some((first, path)) if is_registry(first) => {
                let (registry, origin) = read_registry(first)?;
                (registry, origin, path)
            }
            _ => {
                let (registry, origin) = read_registry(DOCKER_HUB)?;
                (registry, origin, name)
            }
        };
        let official = registry == DOCKER_HUB && !path.contains('/');
        let repository = if official { format!("library/{path}") } else { path.to_owned() };
        check_repository(path, &repository)?;
        Ok(Self { registry, repository, tag, digest, origin })
    }
}

/// Docker's rule: a registry has a dot or a port, or is this machine. That `Name/x` is one too, to Docker, is left out:
/// it would be another image than `name/x`.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first.eq_ignore_ascii_case("localhost")
}

/// The registry's canonical name, and where it is asked.
fn read_registry(text: &str) -> Result<(String, Url), ReferenceError> {
    let refused = || ReferenceError::Registry { registry: Shown::new(text) };
    let numeric = text.starts_with('[');
    let end = if numeric { text.find(']').ok_or_else(refused)? + 1 } else { 0 };
    let (host, port) = match text[end..].split_once(':') {
        Some((host, port)) => (&text[..end + host.len()], Some(read_port(port)?)),
        None => (text, None),
    };
    let is_address = numeric && host.len() == end;
    if !is_address && !is_host_name(host) {
        return Err(refused());
    }
    let host = if host == "index.docker.io" { DOCKER_HUB.to_owned() } else { host.to_ascii_lowercase() };
    let asked = if host == DOCKER_HUB { DOCKER_HUB_HOST } else { &host };
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    let url = |scheme: &str| Url::parse(&format!("{scheme}://{asked}{port}/")).map_err(|_| refused());
    let secure = url("https")?;
    let canonical = secure.host_str().ok_or_else(refused)?;
    // `0x7f.1` and `127.1` are 127.0.0.1 to a URL: what is shown must be what is asked.
    if !numeric && canonical != asked {
        return Err(refused());
    }
    let shown = if numeric { canonical.to_owned() } else { host.clone() };
    let origin = if is_loopback(&secure) { url("http")? } else { secure };
    Ok((format!("{shown}{port}"), origin))
}

fn is_host_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    host.len() <= MAX_HOST && host.split('.').all(is_label)
}

fn read_port(text: &str) -> Result<u16, ReferenceError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let port = text.parse().ok().filter(|_| digits);
    port.ok_or_else(|| ReferenceError::Port { port: Shown::new(text) })
}

fn read_tag(text: &str) -> Result<String, ReferenceError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = text.bytes().next().is_some_and(is_word);
    let rest = text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-');
    let good = begins && rest && text.len() <= MAX_TAG;
    good.then(|| text.to_owned()).ok_or_else(|| ReferenceError::Tag { tag: Shown::new(text) })
}

/// Checks a repository; `given` is what was written of it.
fn check_repository(given: &str, repository: &str) -> Result<(), ReferenceError> {
    if repository.len() > MAX_REPOSITORY {
        return Err(ReferenceError::TooLong { limit: MAX_REPOSITORY });
    }
    // Docker reads this as the number of a local image, never as a name.
    if given.len() == 64 && given.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(ReferenceError::ImageId);
    }
    if let Some(part) = repository.split('/').find(|part| !is_path_part(part)) {
        let upper = part.contains(|letter: char| letter.is_ascii_uppercase());
        let upper = upper && is_path_part(&part.to_ascii_lowercase());
        let (name, part) = (Shown::new(given), Shown::new(part));
        return Err(if upper { ReferenceError::UpperCase { name } } else { ReferenceError::Name { part } });
    }
    Ok(())
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_path_part(part: &str) -> bool {
    let is_alphanumeric = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    part.starts_with(is_alphanumeric)
        && part.ends_with(is_alphanumeric)
        && part.split(is_alphanumeric).all(is_separator)
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
