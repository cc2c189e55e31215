//! What can be wrong with an index or a manifest.

use strangers::Shown;
use thiserror::Error;

use crate::digest::{Digest, DigestError};
use crate::document::{MAX_ENTRIES, MAX_LAYERS};
use crate::platform::Platform;

/// How many of an index' platforms an error names.
const NAMED: usize = 12;

/// Why an index or a manifest names no image that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DocumentError {
    /// Its media type is not one that we asked for.
    #[error("`{found}` is no media type of an image")]
    MediaType {
        /// What the registry said; empty when it said nothing.
        found: Shown,
    },
    /// It has the form that was replaced in 2017.
    #[error("the image has Docker's old form, schema 1")]
    Schema1,
    /// It is not JSON, or not of this form.
    #[error("the document is malformed: {why}")]
    Malformed {
        /// What the parser said.
        why: Shown,
    },
    /// Two readers could understand it in two ways.
    #[error("the document is called `{outside}` and calls itself `{inside}`")]
    Ambiguous {
        /// The media type that it came with.
        outside: Shown,
        /// What its content says.
        inside: Shown,
    },
    /// An index names an index.
    #[error("the index names another index where an image should be")]
    Nested,
    /// The index is too long.
    #[error("the index has {found} entries and may have {MAX_ENTRIES}")]
    TooManyEntries {
        /// How many there are.
        found: usize,
    },
    /// No image is for this platform.
    #[error("there is no image for {wanted}, only for {}", list(.offered))]
    NoPlatform {
        /// What was asked for.
        wanted: Platform,
        /// What there is.
        offered: Vec<Platform>,
    },
    /// It is something that is kept in a registry, but no image.
    #[error("this is no image: its configuration is `{config}`")]
    NotAnImage {
        /// The media type of the configuration.
        config: Shown,
    },
    /// There are too many layers.
    #[error("the image has {found} layers and may have {MAX_LAYERS}")]
    TooManyLayers {
        /// How many there are.
        found: usize,
    },
    /// A layer is to be fetched from elsewhere.
    #[error("a layer is not kept by the registry (`{media_type}`)")]
    ForeignLayer {
        /// The layer's media type.
        media_type: Shown,
    },
    /// A layer is no archive that we know.
    #[error("a layer is of the unknown kind `{media_type}`")]
    LayerType {
        /// The layer's media type.
        media_type: Shown,
    },
    /// A digest in it is none.
    #[error("the document names something by what is no digest")]
    Digest {
        /// Why.
        source: DigestError,
    },
    /// Something that it names is too large.
    #[error("`{digest}` has {size} bytes and may have {limit}")]
    TooLarge {
        /// What is too large.
        digest: Digest,
        /// Its size.
        size: u64,
        /// The most that is allowed.
        limit: u64,
    },
}

impl DocumentError {
    /// What to do next, where something can be done.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoPlatform { offered, .. } => {
                let first = offered.first()?;
                return Some(format!("ask for a platform that there is, as `{first}`, or build the image for yours"));
            }
            Self::MediaType { .. } | Self::Malformed { .. } => {
                "check that this is a registry, and the image one of the OCI or Docker"
            }
            Self::Schema1 => "push the image again with a current tool",
            Self::Ambiguous { .. } => "do not use this image: it may have been made to deceive a scanner",
            Self::Nested => "name the inner index by its digest",
            Self::NotAnImage { .. } => "name an image; charts, signatures and other artifacts cannot be run",
            Self::ForeignLayer { .. } => "use an image whose layers are all in the registry; those of Windows are not",
            Self::LayerType { .. } => "use an image whose layers are archives, plain or compressed with gzip or zstd",
            Self::TooLarge { .. } => "use a smaller image, or raise the limit if it is that of a layer",
            Self::TooManyEntries { .. } | Self::TooManyLayers { .. } => "build the image with fewer",
            Self::Digest { source } => source.hint(),
        };
        Some(hint.to_owned())
    }
}

fn list(platforms: &[Platform]) -> String {
    if platforms.is_empty() {
        return "no platform at all".to_owned();
    }
    let named: Vec<String> = platforms.iter().take(NAMED).map(Platform::to_string).collect();
    let more = if platforms.len() > NAMED { ", …" } else { "" };
    named.join(", ") + more
}
