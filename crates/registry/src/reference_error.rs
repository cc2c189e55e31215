//! What can be wrong with a reference, and what to write instead.

use strangers::Shown;
use thiserror::Error;

use crate::digest::DigestError;

/// Why a text names no image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReferenceError {
    /// Nothing was given.
    #[error("the name of an image is empty")]
    Empty,
    /// The text, or the repository in it, is longer than any registry takes.
    #[error("the name of an image is longer than {limit} bytes")]
    TooLong {
        /// The most that is allowed.
        limit: usize,
    },
    /// It is a web address.
    #[error("`{text}` is a web address, not the name of an image")]
    Scheme {
        /// What was given.
        text: Shown,
    },
    /// The registry is no host name or address.
    #[error("`{registry}` is no registry")]
    Registry {
        /// What stands in its place.
        registry: Shown,
    },
    /// The port is none.
    #[error("`{port}` is no port")]
    Port {
        /// What stands in its place.
        port: Shown,
    },
    /// The name has upper-case letters.
    #[error("`{name}` has upper-case letters")]
    UpperCase {
        /// The name.
        name: Shown,
    },
    /// A part between slashes is not one.
    #[error("`{part}` cannot be a part of an image's name")]
    Name {
        /// The part.
        part: Shown,
    },
    /// It is the number of a local image.
    #[error("64 hexadecimal digits are the number of a local image, not a name")]
    ImageId,
    /// The tag is none.
    #[error("`{tag}` is no tag")]
    Tag {
        /// What stands in its place.
        tag: Shown,
    },
    /// The digest is none.
    #[error("what follows `@` is no digest")]
    Digest(#[source] DigestError),
}

impl ReferenceError {
    /// What to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Empty => "write a name as `ubuntu:24.04` or `ghcr.io/owner/name:tag`".to_owned(),
            Self::TooLong { .. } => "check that this is the name of an image".to_owned(),
            Self::Scheme { text } => {
                let rest = text.as_str().split_once("://").map_or("", |(_, rest)| rest);
                format!("leave the scheme out: `{}`", rest.trim_end_matches('/'))
            }
            Self::Registry { .. } => {
                "write a registry as `host`, `host:port`, `127.0.0.1:5000` or `[::1]:5000`".to_owned()
            }
            Self::Port { .. } => "a port is a number from 1 to 65535".to_owned(),
            Self::UpperCase { name } => format!("write `{}`", name.as_str().to_ascii_lowercase()),
            Self::Name { .. } => {
                "a name has lower-case letters and digits, separated by single `/`, `.`, `_`, by `__` or dashes"
                    .to_owned()
            }
            Self::ImageId => {
                "write the name under which a registry has the image, or put `sha256:` and `@` before it".to_owned()
            }
            Self::Tag { .. } => {
                "a tag has at most 128 letters, digits, `_`, `.` and `-`, and begins with none of the last two"
                    .to_owned()
            }
            Self::Digest(source) => source.hint().to_owned(),
        }
    }
}
