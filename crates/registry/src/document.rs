//! Reads indexes and manifests: hostile JSON in, checked descriptors out. Pure; fetching and digests are `resolve.rs`'.
//!
//! A document that could be read as an index and as a manifest is refused (CVE-2021-41190): whoever scanned it may have
//! read the other one.

use bounded::Budget;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use strangers::Shown;

use crate::digest::Digest;
use crate::document_error::DocumentError;
use crate::media::{self, Kind, LayerKind};
use crate::platform::Platform;

/// The most that an index or a manifest may have, in bytes.
pub const MAX_DOCUMENT: u64 = 4 << 20;
/// The most that a configuration may have, in bytes.
pub const MAX_CONFIG: u64 = 4 << 20;
/// The most layers that an image may have.
pub const MAX_LAYERS: usize = 128;
/// The most entries that an index may have.
pub const MAX_ENTRIES: usize = 1000;

/// What names a blob or a document: its kind, its digest, its size.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// A document that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Index(Vec<Entry>),
    Manifest(Manifest),
}

/// An image of an index, as far as it matters before it is chosen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    platform: Platform,
    media_type: String,
    digest: String,
    size: u64,
}

/// What a manifest names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<Vec<RawDescriptor>>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    fs_layers: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    media_type: String,
    digest: String,
    size: u64,
    urls: Option<Vec<IgnoredAny>>,
    platform: Option<RawPlatform>,
}

#[derive(Deserialize)]
struct RawPlatform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

/// Reads a document that came with this media type. No layer may be larger than `max_layer`.
pub(crate) fn read(media_type: &str, body: &[u8], max_layer: u64) -> Result<Document, DocumentError> {
    let kind = match media::kind(media_type) {
        Kind::Other => return Err(DocumentError::MediaType { found: Shown::new(media_type) }),
        kind => kind,
    };
    let raw: RawDocument = bounded::read(body, &Budget::for_text(body))
        .map_err(|error| DocumentError::Malformed { why: Shown::new(&error.to_string()) })?;
    if kind == Kind::Schema1 || raw.schema_version == Some(1) || raw.fs_layers.is_some() {
        return Err(DocumentError::Schema1);
    }
    if raw.schema_version != Some(2) {
        return Err(DocumentError::Malformed { why: Shown::new("`schemaVersion` is not 2") });
    }
    if let Some(inside) = raw.media_type.filter(|inside| inside != media_type) {
        return Err(DocumentError::Ambiguous { outside: Shown::new(media_type), inside: Shown::new(&inside) });
    }
    match (kind, raw.manifests, raw.config, raw.layers) {
        (Kind::Index, Some(manifests), None, None) => index(manifests),
        (Kind::Manifest, None, Some(config), Some(layers)) => manifest(config, layers, max_layer),
        (Kind::Index, None, ..) | (Kind::Manifest, _, None, _) | (Kind::Manifest, _, _, None) => {
            Err(DocumentError::Malformed { why: Shown::new("`manifests`, or `config` and `layers`, is missing") })
        }
        _ => Err(DocumentError::Ambiguous { outside: Shown::new(media_type), inside: Shown::new("both kinds") }),
    }
}

fn index(manifests: Vec<RawDescriptor>) -> Result<Document, DocumentError> {
    if manifests.len() > MAX_ENTRIES {
        return Err(DocumentError::TooManyEntries { found: manifests.len() });
    }
    // Attestations, signatures and whatever else may stand in an index are for others to read.
    let entries = manifests.into_iter().filter_map(|raw| {
        let platform = raw.platform.as_ref()?;
        let platform = Platform::new(&platform.os, &platform.architecture, platform.variant.as_deref()).ok()?;
        let is_image = media::kind(&raw.media_type) != Kind::Other;
        is_image.then_some(Entry { platform, media_type: raw.media_type, digest: raw.digest, size: raw.size })
    });
    Ok(Document::Index(entries.collect()))
}

/// Chooses the first image for a platform.
pub(crate) fn choose(entries: Vec<Entry>, wanted: &Platform) -> Result<Descriptor, DocumentError> {
    let Some(at) = entries.iter().position(|entry| entry.platform == *wanted) else {
        let mut offered: Vec<Platform> = entries.into_iter().map(|entry| entry.platform).collect();
        offered.sort();
        offered.dedup();
        return Err(DocumentError::NoPlatform { wanted: wanted.clone(), offered });
    };
    let entry = &entries[at];
    let digest = entry.digest.parse().map_err(|source| DocumentError::Digest { source })?;
    if entry.size > MAX_DOCUMENT {
        return Err(DocumentError::TooLarge { digest, size: entry.size, limit: MAX_DOCUMENT });
    }
    Ok(Descriptor { media_type: entry.media_type.clone(), digest, size: entry.size })
}

fn manifest(config: RawDescriptor, layers: Vec<RawDescriptor>, max_layer: u64) -> Result<Document, DocumentError> {
    if !media::is_config(&config.media_type) {
        return Err(DocumentError::NotAnImage { config: Shown::new(&config.media_type) });
    }
    if layers.len() > MAX_LAYERS {
        return Err(DocumentError::TooManyLayers { found: layers.len() });
    }
    let config = descriptor(config, MAX_CONFIG)?;
    let layers = layers.into_iter().map(|layer| {
        let kind = media::layer_kind(&layer.media_type);
        let elsewhere = layer.urls.as_ref().is_some_and(|urls| !urls.is_empty());
        let media_type = Shown::new(&layer.media_type);
        match kind {
            LayerKind::Foreign => Err(DocumentError::ForeignLayer { media_type }),
            LayerKind::Archive if elsewhere => Err(DocumentError::ForeignLayer { media_type }),
            LayerKind::Archive => descriptor(layer, max_layer),
            LayerKind::Other => Err(DocumentError::LayerType { media_type }),
        }
    });
    Ok(Document::Manifest(Manifest { config, layers: layers.collect::<Result<_, _>>()? }))
}

fn descriptor(raw: RawDescriptor, limit: u64) -> Result<Descriptor, DocumentError> {
    let digest = raw.digest.parse().map_err(|source| DocumentError::Digest { source })?;
    if raw.size > limit {
        return Err(DocumentError::TooLarge { digest, size: raw.size, limit });
    }
    Ok(Descriptor { media_type: raw.media_type, digest, size: raw.size })
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
