//! What a sandbox changed becomes an image: one more layer on what it began with.

use std::io::{self, Read, Seek as _, SeekFrom};

use crate::config::Config;
use crate::digest::{Digest, Measured};
use crate::progress::{Step, Watched};
use crate::store::{Image, MAX_LAYERS, Store};
use crate::{ImageError, Progress};

/// What a sandbox began with.
#[derive(Debug, Clone, Copy)]
pub enum Below<'a> {
    /// An image of the store.
    Image(&'a Image),
    /// `host`, or `dir:` and a path.
    Unpinned(&'a str),
}

/// Keeps a layer's archive, laid on what is below it, as an image of this name.
pub fn save(
    store: &Store,
    name: &str,
    below: Below<'_>,
    archive: impl Read,
    progress: &dyn Progress,
) -> Result<Image, ImageError> {
    let mut work = store.begin()?;
    let mut file = work.file().map_err(|error| store.failed(error))?;
    progress.begin(Step::Reading, None);
    let mut archive = Measured::new(Watched::new(archive, progress), store.archive_limit());
    let unfinished = |source| ImageError::Read { path: "what the sandbox changed".into(), source };
    let size = io::copy(&mut archive, &mut file).map_err(unfinished)?;
    let layer = archive.finish().map_err(unfinished)?;
    file.seek(SeekFrom::Start(0)).map_err(|error| store.failed(error))?;
    progress.begin(Step::Unpacking(1, 1), Some(size));
    store.import_layer(&mut work, file, &layer, progress)?;
    let (mut layers, config, base, before): (Vec<_>, _, _, _) = match below {
        // What lay on top of its layers for their directories' sake lies below what was written.
        Below::Image(image) => {
            let layers = image.layers.iter().chain(&image.directories).cloned().collect();
            (layers, image.config.clone(), image.base.clone(), image.size)
        }
        Below::Unpinned(base) => (Vec::new(), Config::default(), Some(base.to_owned()), 0),
    };
    layers.push(layer);
    if layers.len() > MAX_LAYERS {
        return Err(ImageError::Malformed { what: "snapshot", why: format!("it has more than {MAX_LAYERS} layers") });
    }
    // There is no manifest to be called by: everything that makes it this image is.
    let said = serde_json::to_vec(&(&layers, &config, &base)).unwrap_or_default();
    let image = Image { digest: Digest::of(&said), layers, directories: None, config, base, size: before + size };
    store.keep(&image, name)?;
    Ok(image)
}
