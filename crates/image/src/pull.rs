//! An image from a registry: every blob is fetched into a file of our own, checked, and only then unpacked.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use registry::{Descriptor, Platform, Reference, Registry};

use crate::digest::Digest;
use crate::store::{Image, Store, Work};
use crate::{ImageError, Progress, Step, config};

/// The two crates' digests are the same text.
fn own(digest: &registry::Digest) -> Result<Digest, ImageError> {
    digest
        .to_string()
        .parse()
        .map_err(|error: crate::DigestError| ImageError::Malformed { what: "manifest", why: error.to_string() })
}

/// Pulls what a reference means for this machine, and keeps it under that name.
pub async fn pull(
    store: &Store,
    registry: &Registry,
    name: &str,
    progress: &(dyn Progress + Sync),
) -> Result<Image, ImageError> {
    let reference: Reference = name.parse().map_err(|source| ImageError::Name { name: name.to_owned(), source })?;
    let resolved = registry.resolve(&reference, &Platform::default()).await?;
    let mut work = store.begin()?;
    let mut written = Vec::new();
    let mut file = fetch(store, registry, &reference, &resolved.config, &mut work, &()).await?;
    file.read_to_end(&mut written).map_err(|error| store.failed(error))?;
    let (config, layers) = config::read(&written)?;
    if layers.len() != resolved.layers.len() {
        return Err(ImageError::Malformed {
            what: "manifest",
            why: "it has other layers than its configuration".into(),
        });
    }
    let mut size = 0;
    for (number, (blob, layer)) in resolved.layers.iter().zip(&layers).enumerate() {
        size += blob.size;
        // The configuration, which was checked, says what a layer contains: one that is here need not be fetched.
        if !store.has_layer(layer) {
            progress.begin(Step::Fetching(number + 1, layers.len()), Some(blob.size));
            let file = fetch(store, registry, &reference, blob, &mut work, progress).await?;
            progress.begin(Step::Unpacking(number + 1, layers.len()), Some(blob.size));
            store.import_layer(&mut work, file, layer, progress)?;
        }
    }
    let directories = store.import_directories(&mut work, &layers)?;
    let image = Image { digest: own(&resolved.digest)?, layers, directories, config, base: None, size };
    store.keep(&image, name)?;
    Ok(image)
}

async fn fetch(
    store: &Store,
    registry: &Registry,
    reference: &Reference,
    blob: &Descriptor,
    work: &mut Work,
    progress: &(dyn Progress + Sync),
) -> Result<File, ImageError> {
    let mut file = work.file().map_err(|error| store.failed(error))?;
    registry.blob(reference, blob, &mut file, &|bytes| progress.done(bytes)).await?;
    file.seek(SeekFrom::Start(0)).map_err(|error| store.failed(error))?;
    Ok(file)
}
