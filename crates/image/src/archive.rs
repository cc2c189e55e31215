//! What `docker save` writes: a tar file with a manifest, configurations and layers by name.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use crate::digest::{Digest, too_large};
use crate::entry::{Kind, read_all};
use crate::progress::{Step, Watched};
use crate::store::{Image, Store, Work};
use crate::{ImageError, Progress, config};

const MAX_DOCUMENT: u64 = 4 << 20;
const MAX_FILES: usize = 10_000;
/// How often a link may lead to another.
const MAX_LINKS: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// The members of an archive.
#[derive(Default)]
struct Members {
    files: HashMap<String, File>,
    links: HashMap<String, String>,
}

/// A name as the manifest writes it.
fn plain(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

impl Members {
    fn read(archive: impl Read, work: &mut Work, limit: u64) -> io::Result<Self> {
        let mut members = Self::default();
        let mut left = limit;
        read_all(archive, |entry, content| {
            if members.files.len() + members.links.len() > MAX_FILES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "too many files"));
            }
            let name = plain(&String::from_utf8_lossy(&entry.name));
            match &entry.kind {
                Kind::File => {
                    left = left.checked_sub(entry.size).ok_or_else(too_large)?;
                    let mut file = work.file()?;
                    io::copy(content, &mut file)?;
                    members.files.insert(name, file);
                }
                Kind::Symlink(target) => {
                    let above = name.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
                    members.links.insert(name, plain(&format!("{above}/{}", String::from_utf8_lossy(target))));
                }
                Kind::HardLink(target) => {
                    members.links.insert(name, plain(&String::from_utf8_lossy(target)));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(members)
    }

    fn file(&self, name: &str) -> Result<File, ImageError> {
        let mut name = plain(name);
        for _ in 0..MAX_LINKS {
            if let Some(file) = self.files.get(&name) {
                let copy = file.try_clone().and_then(|mut file| file.seek(SeekFrom::Start(0)).map(|_| file));
                return copy.map_err(|source| ImageError::Read { path: name.into(), source });
            }
            let Some(target) = self.links.get(&name) else { break };
            name.clone_from(target);
        }
        Err(ImageError::Malformed { what: "archive", why: format!("it has no `{name}`") })
    }

    fn document(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let read = self.file(name)?.take(MAX_DOCUMENT).read_to_end(&mut bytes);
        read.map_err(|source| ImageError::Read { path: name.into(), source })?;
        Ok(bytes)
    }
}

/// Imports the only image of an archive, or the one with this tag.
pub(crate) fn import(
    store: &Store,
    path: &Path,
    archive: impl Read,
    tag: Option<&str>,
    name: &str,
    progress: &dyn Progress,
) -> Result<Image, ImageError> {
    let mut work = store.begin()?;
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    let archive = Watched::new(archive, progress);
    let members = Members::read(archive, &mut work, store.archive_limit()).map_err(failed)?;
    let malformed = |why: String| ImageError::Malformed { what: "archive", why };
    let manifest: Vec<Entry> =
        config::parse(&members.document("manifest.json")?).map_err(|error| malformed(error.to_string()))?;
    let fits = |entry: &&Entry| tag.is_none_or(|tag| entry.repo_tags.iter().flatten().any(|known| known == tag));
    let fitting: Vec<&Entry> = manifest.iter().filter(fits).collect();
    let entry = match fitting.as_slice() {
        [] => return Err(ImageError::NoneFits { tag: tag.map(str::to_owned) }),
        [entry] => *entry,
        _ => return Err(ImageError::SeveralFit),
    };
    let written = members.document(&entry.config)?;
    let (config, layers) = config::read(&written)?;
    if layers.len() != entry.layers.len() {
        return Err(malformed("it has other layers than its configuration".into()));
    }
    let mut size = 0;
    for (number, (member, layer)) in entry.layers.iter().zip(&layers).enumerate() {
        let file = members.file(member)?;
        let bytes = file.metadata().map_err(failed)?.len();
        progress.begin(Step::Unpacking(number + 1, layers.len()), Some(bytes));
        size += bytes;
        store.import_layer(&mut work, file, layer, progress)?;
    }
    let directories = store.import_directories(&mut work, &layers)?;
    let image = Image { digest: Digest::of(&written), layers, directories, config, base: None, size };
    store.keep(&image, name)?;
    Ok(image)
}
