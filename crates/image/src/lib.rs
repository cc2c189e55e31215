//! Images: from layouts, archives and daemons into a store of unpacked layers, ready to be stacked.
//!
//! An image is a stranger's: names are resolved inside its directory by the kernel, devices are never made, everything is
//! counted, and what does not have the digest it claims is not kept.

mod archive;
mod compression;
mod config;
mod digest;
mod directories;
mod entry;
mod layout;
mod private;
mod progress;
mod pull;
mod save;
mod source;
mod store;
mod unlisted;
mod unpack;

use std::io;
use std::path::PathBuf;

pub use config::Config;
pub use digest::{Digest, DigestError};
pub use progress::{Progress, Step};
pub use pull::pull;
pub use save::{Below, save};
pub use source::{Source, SourceError, import};
pub use store::{Collected, Image, Opened, Store};
pub use unpack::Limits;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Neither a home nor a data directory is set.
    #[error("there is no place for images: neither HOME nor XDG_DATA_HOME is set")]
    NoPlace,
    /// The store itself cannot be used.
    #[error("cannot use the image store {}", path.display())]
    Store {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A source cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A document is not what it should be.
    #[error("the image's {what} is malformed: {why}")]
    Malformed {
        /// Which.
        what: &'static str,
        /// How.
        why: String,
    },
    /// A layer cannot be unpacked.
    #[error("cannot unpack the layer {digest}")]
    Layer {
        /// Which.
        digest: Digest,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Content is not what it claims to be.
    #[error("{what} is {found}, and should be {expected}")]
    Mismatch {
        /// What.
        what: &'static str,
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// It is for another machine.
    #[error("the image is for {found}, and this machine is {own}")]
    OtherPlatform {
        /// What it is for.
        found: String,
        /// What this is.
        own: String,
    },
    /// No image of the source fits.
    #[error("the source has no image{} for this machine", tag.as_ref().map(|tag| format!(" `{tag}`")).unwrap_or_default())]
    NoneFits {
        /// The tag that was asked for.
        tag: Option<String>,
    },
    /// More than one image of the source fits.
    #[error("the source has several images that fit")]
    SeveralFit,
    /// The store has no such image.
    #[error("there is no image `{name}` in the store")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// What was asked for is not the name of an image.
    #[error("`{name}` does not name an image of a registry")]
    Name {
        /// What was asked for.
        name: String,
        /// Why not.
        #[source]
        source: registry::ReferenceError,
    },
    /// Neither is it in the store, nor could it be pulled.
    #[error("there is no image `{name}` in the store")]
    Absent {
        /// What was asked for.
        name: String,
        /// Why it could not be pulled.
        #[source]
        source: Box<ImageError>,
    },
    /// The registry, or the way to it, said no.
    #[error("cannot pull the image")]
    Pull(#[from] registry::PullError),
    /// The user's logins cannot be read.
    #[error("cannot read the logins for registries")]
    Credentials(#[from] registry::CredentialsError),
    /// The daemon said no.
    #[error("the Docker daemon does not give the image `{name}`: {why}")]
    Daemon {
        /// Which image.
        name: String,
        /// What it said.
        why: String,
    },
}

impl ImageError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Pull(error) => return error.hint(),
            Self::Credentials(error) => return Some(error.hint()),
            Self::Name { source, .. } => return Some(source.hint()),
            Self::Absent { source, .. } => return source.hint(),
            Self::Unknown { .. } => Some("see `ringfence image list`; import or pull it first"),
            Self::SeveralFit | Self::NoneFits { .. } => Some("name one by its tag: oci:PATH:TAG or archive:FILE:TAG"),
            Self::NoPlace => Some("set HOME, or RINGFENCE_STORE to a directory"),
            Self::Mismatch { .. } => Some("the source is damaged, or somebody changed it"),
            _ => None,
        };
        hint.map(str::to_owned)
    }
}
