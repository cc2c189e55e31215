//! Where images are kept: unpacked layers by what they contain, shared by all images that have them.
//!
//! ```text
//! layers/HEX/      one layer's files, complete: it is renamed here when it is
//! images/HEX.json  what an image is: its layers, bottom first, and its configuration
//! names/NAME       which image a name means now
//! unlisted/HEX     which directories a layer has something in without listing them
//! blobs/HEX        which layer a compressed blob became, so that it is not fetched again
//! work/NUMBER/     somebody is importing; held by a lock that dies with them
//! importers        shared by everybody who imports; the collector waits for nobody, and collects when it has it alone
//! ```
//!
//! Importers work in a directory of their own and rename what is complete, so a killed one leaves nothing half. Whoever
//! uses a layer holds a shared lock on it, and the collector takes only what nobody holds.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::digest::{Digest, Measured};
use crate::private;
use crate::progress::Progress;
use crate::unlisted::{self, Below};
use crate::unpack::{Limits, Rights, Unpacked, remove_tree, unpack};
use crate::{ImageError, compression};

/// A place for images.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    limits: Limits,
}

/// What the store knows of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it is called by its content: of its manifest, or of its configuration where there is no manifest.
    pub digest: Digest,
    /// Its layers, bottom first.
    pub layers: Vec<Digest>,
    /// One more on top, for directories that layers do not list; see `unlisted.rs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directories: Option<Digest>,
    /// What it says about running it.
    pub config: Config,
    /// What lies below its layers and is in no store: `host`, or `dir:` and a path. It is whatever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Bytes of its layers' archives.
    pub size: u64,
}

/// An image that is in use: its layers stay while this is held.
#[derive(Debug)]
pub struct Opened {
    /// What it is.
    pub image: Image,
    /// The directories of its layers, top first, as an overlay wants them.
    pub layers: Vec<PathBuf>,
    _locks: Vec<File>,
}

/// What was collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Layers that no image has.
    pub layers: usize,
    /// What killed importers left.
    pub unfinished: usize,
    /// Nothing was collected: somebody is importing, and what they bring has no name yet.
    pub busy: bool,
}

const PARTS: [&str; 6] = ["layers", "unlisted", "images", "names", "blobs", "work"];
/// The most bytes of names of directories that the layers of an image do not list: in memory they take thrice as much.
const MAX_UNLISTED: usize = 8 << 20;
/// The longest list of layers that a kernel mounts in one piece.
pub(crate) const MAX_LAYERS: usize = 128;

impl Store {
    /// The store of this user: of the machine for root, else below the user's own directory.
    pub fn of_user() -> Result<Self, ImageError> {
        let root = match std::env::var_os("RINGFENCE_STORE") {
            Some(path) => PathBuf::from(path),
            None if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib/ringfence"),
            None => {
                let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
                let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
                data.or(home).ok_or(ImageError::NoPlace)?.join("ringfence")
            }
        };
        Self::open(&root.join("images"))
    }

    /// A store in this directory, made if it is not there.
    pub fn open(root: &Path) -> Result<Self, ImageError> {
        let failed = |source| ImageError::Store { path: root.to_owned(), source };
        let make = |path: &Path| match fs::DirBuilder::new().mode(0o700).recursive(true).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        };
        // Before anything is made there, and again when it is known where it is.
        let there = root.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
        private::check_way(there).map_err(failed)?;
        make(root).map_err(failed)?;
        private::check_way(root).map_err(failed)?;
        let metadata = fs::symlink_metadata(root).map_err(failed)?;
        // Whoever else may write here would choose what runs.
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a directory of ours alone")));
        }
        for part in PARTS {
            make(&root.join(part)).map_err(failed)?;
        }
        Ok(Self { root: root.to_owned(), limits: Limits::default() })
    }

    /// The same with other limits for what is imported.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub(crate) fn failed(&self, source: io::Error) -> ImageError {
        ImageError::Store { path: self.root.clone(), source }
    }

    pub(crate) fn archive_limit(&self) -> u64 {
        self.limits.bytes
    }

    fn layer(&self, digest: &Digest) -> PathBuf {
        self.root.join("layers").join(digest.hex())
    }

    /// Whether a layer is here and complete.
    pub(crate) fn has_layer(&self, digest: &Digest) -> bool {
        self.layer(digest).is_dir()
    }

    /// A place to work in, nobody else's; gone when dropped, or at the next collection if we are killed.
    pub(crate) fn begin(&self) -> Result<Work, ImageError> {
        let importing = self.importers()?;
        // The collector is quick.
        flock(&importing, FlockOperation::LockShared).map_err(|errno| self.failed(errno.into()))?;
        self.work(Some(importing))
    }

    /// The lock that importers share, and that the collector has alone.
    fn importers(&self) -> Result<File, ImageError> {
        let path = self.root.join("importers");
        File::options().create(true).append(true).open(path).map_err(|error| self.failed(error))
    }

    fn work(&self, importing: Option<File>) -> Result<Work, ImageError> {
        let base = self.root.join("work");
        for number in 0..1_000_000_u32 {
            let path = base.join(format!("{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(self.failed(error)),
            }
            let lock = File::open(&path).map_err(|error| self.failed(error))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && path.is_dir() {
                let Limits { image_bytes: bytes_left, image_entries: entries_left, .. } = self.limits;
                return Ok(Work { path, next: 0, bytes_left, entries_left, _lock: lock, _importing: importing });
            }
        }
        Err(self.failed(io::Error::from(io::ErrorKind::StorageFull)))
    }

    /// Unpacks one layer's archive, compressed or not, and keeps it. `expected` is what its configuration calls it.
    pub(crate) fn import_layer(
        &self,
        work: &mut Work,
        archive: File,
        expected: &Digest,
        progress: &dyn Progress,
    ) -> Result<(), ImageError> {
        if self.has_layer(expected) {
            return Ok(());
        }
        let broken = |source| ImageError::Layer { digest: expected.clone(), source };
        let directory = work.fresh("layer");
        fs::DirBuilder::new().mode(0o755).create(&directory).map_err(|error| self.failed(error))?;
        let plain = compression::decode(archive, progress).map_err(broken)?;
        // What other layers of the same image took is not left for this one.
        let limit = self.limits.bytes.min(work.bytes_left);
        let mut measured = Measured::new(plain, limit);
        let most = self.limits.entries.min(work.entries_left);
        let Unpacked { unlisted, entries } = unpack(&mut measured, &directory, most, Rights::own()).map_err(broken)?;
        work.entries_left -= entries;
        work.bytes_left -= limit - measured.unused().map_err(broken)?;
        let found = measured.finish().map_err(broken)?;
        if found != *expected {
            return Err(ImageError::Mismatch { what: "a layer", expected: expected.clone(), found });
        }
        let note = self.root.join("unlisted").join(expected.hex());
        if !unlisted.is_empty() {
            self.write(&note, &unlisted)?;
        }
        self.keep_layer(&directory, expected)?;
        // A collector that came between takes the note of a layer that it does not see yet.
        if !unlisted.is_empty() && !note.exists() {
            self.write(&note, &unlisted)?;
        }
        Ok(())
    }

    /// Gives a complete layer its name.
    fn keep_layer(&self, directory: &Path, digest: &Digest) -> Result<(), ImageError> {
        let file = File::open(directory).map_err(|error| self.failed(error))?;
        // Before its name says that it is complete, it is.
        rustix::fs::syncfs(&file).map_err(|errno| self.failed(errno.into()))?;
        match renameat_with(CWD, directory, CWD, self.layer(digest), RenameFlags::NOREPLACE) {
            // Somebody else was first; theirs is the same.
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(self.failed(errno.into())),
        }
    }

    /// The layer of directories that these layers, bottom first, need on top of them.
    pub(crate) fn import_directories(&self, work: &mut Work, layers: &[Digest]) -> Result<Option<Digest>, ImageError> {
        let mut below = Vec::new();
        let mut all_listed = true;
        let mut bytes = 0;
        for digest in layers.iter().rev() {
            let note = fs::read(self.root.join("unlisted").join(digest.hex())).unwrap_or_default();
            bytes += note.len();
            if bytes > MAX_UNLISTED {
                let why = "too many directories that layers have something in are not listed".into();
                return Err(ImageError::Malformed { what: "list of layers", why });
            }
            all_listed = all_listed && note.is_empty();
            let opened = Below::new(&self.layer(digest), unlisted::read(&note));
            below.push(opened.map_err(|error| self.failed(error))?);
        }
        if all_listed {
            return Ok(None);
        }
        let directory = work.fresh("layer");
        fs::DirBuilder::new().mode(0o755).create(&directory).map_err(|error| self.failed(error))?;
        let made = unlisted::make(&below, &directory, Rights::own()).map_err(|error| self.failed(error))?;
        if let Some(digest) = &made {
            self.keep_layer(&directory, digest)?;
        }
        Ok(made)
    }

    /// Remembers which layer a blob became.
    pub(crate) fn remember_blob(&self, blob: &Digest, layer: &Digest) -> Result<(), ImageError> {
        self.write(&self.root.join("blobs").join(blob.hex()), layer.to_string().as_bytes())
    }

    /// Keeps an image whose layers are all here, under a name.
    pub(crate) fn keep(&self, image: &Image, name: &str) -> Result<(), ImageError> {
        // A name that is cut would be another's.
        if file_name(name).len() > 250 {
            return Err(ImageError::Malformed { what: "name", why: "it is too long".into() });
        }
        let text = serde_json::to_vec_pretty(image).unwrap_or_default();
        self.write(&self.root.join("images").join(format!("{}.json", image.digest.hex())), &text)?;
        self.write(&self.root.join("names").join(file_name(name)), image.digest.to_string().as_bytes())
    }

    /// Whole or not at all.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
        let mut work = self.begin()?;
        let temporary = work.fresh("file");
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, path)).map_err(|error| self.failed(error))
    }

    /// The image that a name, or a digest, means. A name with a digest means that digest, whatever brought it here.
    pub fn find(&self, name: &str) -> Result<Image, ImageError> {
        let unknown = || ImageError::Unknown { name: name.to_owned() };
        let digest = if let Ok(digest) = name.parse::<Digest>() {
            digest
        } else {
            // The name itself first: a digest may be that of an index, and the store knows only what was chosen of it.
            let known = fs::read_to_string(self.root.join("names").join(file_name(name))).ok();
            let pinned = name.split_once('@').map(|(_, digest)| digest.to_owned());
            known.or(pinned).and_then(|text| text.parse().ok()).ok_or_else(unknown)?
        };
        let text = fs::read(self.root.join("images").join(format!("{}.json", digest.hex()))).map_err(|_| unknown())?;
        let image: Image = serde_json::from_slice(&text).map_err(|error| self.failed(error.into()))?;
        if image.digest == digest { Ok(image) } else { Err(unknown()) }
    }

    /// Opens an image for use.
    pub fn use_image(&self, image: &Image) -> Result<Opened, ImageError> {
        let (mut layers, mut locks) = (Vec::new(), Vec::new());
        for digest in image.directories.iter().chain(image.layers.iter().rev()) {
            let path = self.layer(digest);
            let lock = File::open(&path).map_err(|_| ImageError::Unknown { name: digest.to_string() })?;
            flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|errno| self.failed(errno.into()))?;
            // The collector may have been faster than the lock.
            if !path.is_dir() {
                return Err(ImageError::Unknown { name: digest.to_string() });
            }
            locks.push(lock);
            layers.push(path);
        }
        Ok(Opened { image: image.clone(), layers, _locks: locks })
    }

    /// Every name with its image.
    pub fn list(&self) -> Result<Vec<(String, Image)>, ImageError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.root.join("names")).map_err(|error| self.failed(error))?.flatten() {
            let Some(name) = entry.file_name().to_str().and_then(name_of_file) else { continue };
            if let Ok(image) = self.find(&name) {
                found.push((name, image));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Forgets a name; what no other name means goes with the next collection.
    pub fn remove(&self, name: &str) -> Result<(), ImageError> {
        fs::remove_file(self.root.join("names").join(file_name(name)))
            .map_err(|_| ImageError::Unknown { name: name.to_owned() })
    }

    /// Removes what no name needs and nobody uses, and what killed importers left.
    pub fn collect(&self) -> Result<Collected, ImageError> {
        let importers = self.importers()?;
        if flock(&importers, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(Collected { busy: true, ..Collected::default() });
        }
        // What a fork that was killed began with: nobody else asks for it.
        for (name, _) in self.list()? {
            let owner = name.strip_prefix("fork-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                self.remove(&name)?;
            }
        }
        let named: Vec<Image> = self.list()?.into_iter().map(|(_, image)| image).collect();
        let mut collected = Collected { unfinished: self.remove_unlocked("work", |_| true)?, ..Collected::default() };
        let in_images = |entry: &str| named.iter().any(|image| entry == format!("{}.json", image.digest.hex()));
        for entry in fs::read_dir(self.root.join("images")).map_err(|error| self.failed(error))?.flatten() {
            if !entry.file_name().to_str().is_some_and(in_images) {
                fs::remove_file(entry.path()).map_err(|error| self.failed(error))?;
            }
        }
        let needed = |hex: &str| {
            let mut layers = named.iter().flat_map(|image| image.layers.iter().chain(&image.directories));
            layers.any(|layer| layer.hex() == hex)
        };
        collected.layers = self.remove_unlocked("layers", |hex| !needed(hex))?;
        for entry in fs::read_dir(self.root.join("blobs")).map_err(|error| self.failed(error))?.flatten() {
            let layer = fs::read_to_string(entry.path()).ok().and_then(|text| text.parse::<Digest>().ok());
            if layer.is_none_or(|layer| !self.has_layer(&layer)) {
                let _ = fs::remove_file(entry.path());
            }
        }
        for entry in fs::read_dir(self.root.join("unlisted")).map_err(|error| self.failed(error))?.flatten() {
            if !self.root.join("layers").join(entry.file_name()).is_dir() {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(collected)
    }

    /// Removes directories that nobody holds. They are moved out of sight first, so that nobody finds half of one.
    fn remove_unlocked(&self, part: &str, unneeded: impl Fn(&str) -> bool) -> Result<usize, ImageError> {
        let mut removed = 0;
        let mut work = self.work(None)?;
        for entry in fs::read_dir(self.root.join(part)).map_err(|error| self.failed(error))?.flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(&unneeded) || entry.path() == work.path {
                continue;
            }
            let Ok(lock) = File::open(entry.path()) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let aside = work.fresh("removed");
            fs::rename(entry.path(), &aside).map_err(|error| self.failed(error))?;
            removed += 1;
        }
        drop(work);
        Ok(removed)
    }
}

/// A directory that somebody works in.
pub(crate) struct Work {
    path: PathBuf,
    next: u32,
    /// What may still be unpacked here, of all layers together.
    bytes_left: u64,
    entries_left: u64,
    _lock: File,
    /// Held by importers: what they brought is not collected before it has a name.
    _importing: Option<File>,
}

impl Work {
    /// A name that is not there yet.
    pub(crate) fn fresh(&mut self, what: &str) -> PathBuf {
        self.next += 1;
        self.path.join(format!("{what}-{}", self.next))
    }

    /// A new file of ours, for reading and writing.
    pub(crate) fn file(&mut self) -> io::Result<File> {
        File::options().read(true).write(true).create_new(true).open(self.fresh("file"))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else { return };
        if let Ok(parent) = File::open(parent) {
            let _ = remove_tree(parent.as_fd(), name);
        }
    }
}

/// A name as a file's name: one byte of it may be a slash, and none may be special.
fn file_name(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':') && !text.is_empty() {
            text.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
            text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    text
}

fn name_of_file(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (hex, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_files_and_back() {
        for name in ["debian:12", "localhost:5000/a/b:c", "..", ".hidden", "a@sha256:00", "ä b"] {
            let file = file_name(name);
            assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
            assert_eq!(name_of_file(&file).as_deref(), Some(name));
        }
    }
}
