//! An OCI image layout in a directory (image-spec image-layout.md).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::digest::{Digest, Measured};
use crate::store::{Image, Store};
use crate::{ImageError, Progress, Step, config};

/// The longest document of an image.
const MAX_DOCUMENT: u64 = 4 << 20;
/// How deep an index may name another.
const MAX_NESTING: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: std::collections::HashMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// A place where blobs lie by their digests.
struct Layout<'a> {
    root: &'a Path,
}

impl Layout<'_> {
    fn path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    /// A document, checked against its digest.
    fn document(&self, digest: &Digest) -> Result<Vec<u8>, ImageError> {
        let path = self.path(digest);
        let bytes = read(&path)?;
        let found = Digest::of(&bytes);
        if found == *digest {
            Ok(bytes)
        } else {
            Err(ImageError::Mismatch { what: "a document", expected: digest.clone(), found })
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_DOCUMENT {
        return Err(ImageError::Malformed { what: "document", why: format!("{} is too long", path.display()) });
    }
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Document, ImageError> {
    config::parse(bytes).map_err(|error| ImageError::Malformed { what: "manifest", why: error.to_string() })
}

/// Imports the image of a layout; of several, the one with this tag, or the only one for this machine.
pub(crate) fn import(
    store: &Store,
    root: &Path,
    tag: Option<&str>,
    name: &str,
    progress: &dyn Progress,
) -> Result<Image, ImageError> {
    let layout = Layout { root };
    let index = parse(&read(&root.join("index.json"))?)?;
    let digest = choose(&layout, index.manifests, tag, 0)?;
    let manifest = parse(&layout.document(&digest)?)?;
    let described = manifest
        .config
        .ok_or_else(|| ImageError::Malformed { what: "manifest", why: "it has no configuration".into() })?;
    let (config, layers) = config::read(&layout.document(&described.digest)?)?;
    if layers.len() != manifest.layers.len() {
        return Err(ImageError::Malformed {
            what: "manifest",
            why: "it has other layers than its configuration".into(),
        });
    }
    let mut work = store.begin()?;
    let mut size = 0;
    for (number, (blob, layer)) in manifest.layers.iter().zip(&layers).enumerate() {
        let path = layout.path(&blob.digest);
        let failed = |source| ImageError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(failed)?;
        size += file.metadata().map_err(failed)?.len();
        if store.has_layer(layer) {
            continue;
        }
        let found = Measured::new(&file, u64::MAX).finish().map_err(failed)?;
        if found != blob.digest {
            return Err(ImageError::Mismatch { what: "a blob", expected: blob.digest.clone(), found });
        }
        progress.begin(Step::Unpacking(number + 1, layers.len()), Some(blob.size));
        store.import_layer(&mut work, file, layer, progress)?;
        store.remember_blob(&blob.digest, layer)?;
    }
    let directories = store.import_directories(&mut work, &layers)?;
    let image = Image { digest, layers, directories, config, base: None, size };
    store.keep(&image, name)?;
    Ok(image)
}

fn choose(layout: &Layout<'_>, found: Vec<Descriptor>, tag: Option<&str>, depth: usize) -> Result<Digest, ImageError> {
    const TAG: &str = "org.opencontainers.image.ref.name";
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |descriptor: &Descriptor| {
        let tagged =
            depth > 0 || tag.is_none_or(|tag| descriptor.annotations.get(TAG).is_some_and(|found| found == tag));
        let here = descriptor.platform.as_ref().is_none_or(|one| one.os == "linux" && one.architecture == own);
        tagged && here
    };
    let mut fitting: Vec<Descriptor> = found.into_iter().filter(fits).collect();
    let chosen = match (fitting.pop(), fitting.is_empty()) {
        (Some(chosen), true) => chosen,
        (None, _) => return Err(ImageError::NoneFits { tag: tag.map(str::to_owned) }),
        (Some(_), false) => return Err(ImageError::SeveralFit),
    };
    if chosen.media_type.ends_with("image.index.v1+json") || chosen.media_type.ends_with("manifest.list.v2+json") {
        if depth >= MAX_NESTING {
            return Err(ImageError::Malformed { what: "index", why: "it names indexes without end".into() });
        }
        let index = parse(&layout.document(&chosen.digest)?)?;
        return choose(layout, index.manifests, tag, depth + 1);
    }
    Ok(chosen.digest)
}
