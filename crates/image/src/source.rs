//! Where images come from, as users write it.

use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::store::{Image, Store};
use crate::{ImageError, Progress, Step, archive, layout};

/// A source of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An OCI layout in a directory.
    Layout(PathBuf, Option<String>),
    /// A file of `docker save`.
    Archive(PathBuf, Option<String>),
    /// An image of the local Docker daemon.
    Daemon(String),
    /// Something in a registry, or in the store.
    Name(String),
}

/// Why a text names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Nothing after the kind.
    #[error("`{0}` names nothing")]
    Empty(String),
    /// Not an image that is imported.
    #[error("`{0}` is used as it is, and not imported")]
    NotImported(String),
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let tagged = |rest: &str| {
            // A path may hold a colon; a tag holds no slash.
            match rest.rsplit_once(':') {
                Some((path, tag)) if !tag.contains('/') && !tag.is_empty() && !PathBuf::from(rest).exists() => {
                    (PathBuf::from(path), Some(tag.to_owned()))
                }
                _ => (PathBuf::from(rest), None),
            }
        };
        if text == "host" || text.starts_with("dir:") {
            return Err(SourceError::NotImported(text.to_owned()));
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        if rest.is_empty() {
            return Err(SourceError::Empty(text.to_owned()));
        }
        Ok(match kind {
            "oci" => {
                let (path, tag) = tagged(rest);
                Self::Layout(path, tag)
            }
            "archive" => {
                let (path, tag) = tagged(rest);
                Self::Archive(path, tag)
            }
            "docker" => Self::Daemon(rest.to_owned()),
            _ => Self::Name(text.to_owned()),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = |tag: &Option<String>| tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
        match self {
            Self::Layout(path, name) => write!(f, "oci:{}{}", path.display(), tag(name)),
            Self::Archive(path, name) => write!(f, "archive:{}{}", path.display(), tag(name)),
            Self::Daemon(name) => write!(f, "docker:{name}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Imports an image from this machine, under its own name.
pub fn import(store: &Store, source: &Source, progress: &dyn Progress) -> Result<Image, ImageError> {
    let name = source.to_string();
    match source {
        Source::Layout(path, tag) => layout::import(store, path, tag.as_deref(), &name, progress),
        Source::Archive(path, tag) => {
            let file = File::open(path).map_err(|source| ImageError::Read { path: path.clone(), source })?;
            progress.begin(Step::Reading, file.metadata().ok().map(|metadata| metadata.len()));
            archive::import(store, path, BufReader::new(file), tag.as_deref(), &name, progress)
        }
        Source::Daemon(image) => {
            let stream = saved_by_daemon(image)?;
            progress.begin(Step::Reading, None);
            archive::import(store, &PathBuf::from(&name), stream, None, &name, progress)
        }
        Source::Name(name) => store.find(name),
    }
}

/// Asks the daemon to save an image, as `docker save` does, and gives what it writes.
fn saved_by_daemon(image: &str) -> Result<impl std::io::Read + use<>, ImageError> {
    let failed = |why: String| ImageError::Daemon { name: image.to_owned(), why };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:@".contains(&byte);
    if !image.bytes().all(plain) {
        return Err(failed("its name has other characters than letters, digits and -._/:@".into()));
    }
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
    let path =
        host.strip_prefix("unix://").ok_or_else(|| failed(format!("DOCKER_HOST {host} is not a local socket")))?;
    let connected = UnixStream::connect(path).and_then(|stream| {
        stream.set_read_timeout(Some(Duration::from_mins(2)))?;
        // HTTP/1.0: the answer ends with the connection.
        (&stream).write_all(format!("GET /images/{image}/get HTTP/1.0\r\nHost: docker\r\n\r\n").as_bytes())?;
        Ok(stream)
    });
    let mut answer = BufReader::new(connected.map_err(|error| failed(error.to_string()))?);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16 << 10 {
        if (&mut answer).take(4096).read_until(b'\n', &mut head).map_err(|error| failed(error.to_string()))? == 0 {
            break;
        }
    }
    let status = String::from_utf8_lossy(&head);
    if status.split(' ').nth(1) == Some("200") {
        return Ok(answer);
    }
    let mut body = Vec::new();
    let _ = answer.take(1000).read_to_end(&mut body);
    let said = String::from_utf8_lossy(&body).chars().filter(|c| !c.is_control()).take(300).collect::<String>();
    Err(failed(said))
}
