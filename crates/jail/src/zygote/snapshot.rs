//! What sandboxes wrote, kept: frozen layers that others begin with.
//!
//! A frozen layer is a sandbox's writable layer as it lies, attached in the workshop. Nothing is copied until very many
//! lie on each other; then they become one.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, MoveMountFlags, UnmountFlags, mount, move_mount, unmount};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::create::Range;
use super::home::{Rights, WORKSHOP};
use super::image::{Bench, root_layers, usr_layers};
use super::protocol::Image;
use super::{During as _, Trouble};
use crate::layer::{Archive, Copy, Stack, walk};
use crate::syscalls;

/// Above this many, looking up a name in all of them costs more than copying them once.
const MOST_LAYERS: usize = 25;
/// Parts of a writable layer, and where they lie in a sandbox.
const PARTS: [(&str, &str); 2] = [("root", ""), ("usr", "usr")];

/// The layer that a sandbox writes to, with what lies below it.
pub(super) struct Writable {
    /// Where it lies.
    pub(super) bench: Bench,
    /// The ids that its files belong to, unless their owners are the same whichever ids the sandbox has.
    pub(super) range: Option<Rc<Range>>,
    pub(super) image: Image,
    pub(super) below: Vec<Rc<Frozen>>,
}

/// A layer that nobody writes any more, and where it lies in the workshop.
pub(super) struct Frozen {
    path: PathBuf,
    /// As of the sandbox that wrote it.
    range: Option<Rc<Range>>,
}

impl Frozen {
    /// The directory of one part; the host's programs are a mount, and a part, of their own.
    pub(super) fn part(&self, name: &str) -> PathBuf {
        self.path.join(name).join("upper")
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Sandboxes that were forked from it have mounts of their own.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.path);
    }
}

/// The snapshots of a run.
#[derive(Default)]
pub(super) struct Snapshots {
    kept: BTreeMap<u32, (Image, Vec<Rc<Frozen>>)>,
    made: u32,
}

fn directory(at: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(at, format!("{name}/upper"), flags, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// For every part, the layers that have it, the top one first, and the image's own. Owners are counted from `first_id`.
fn stacks(layers: &[&OwnedFd], image: &Image, rights: Rights, first_id: u32) -> io::Result<Vec<Stack>> {
    let mut stacks = Vec::new();
    for (name, place) in PARTS {
        let found: io::Result<Vec<_>> = layers.iter().filter_map(|layer| directory(layer, name).transpose()).collect();
        let layers = found?;
        if !layers.is_empty() {
            let base = if place.is_empty() { root_layers(image, &[]) } else { usr_layers(image, &[]) };
            let host = (!place.is_empty()).then(|| PathBuf::from("/usr"));
            let base = base.iter().chain(&host).map(|path| open(path)).collect::<io::Result<Vec<_>>>()?;
            stacks.push(Stack { place, layers, base, opaque: rights.opaque(), first_id });
        }
    }
    Ok(stacks)
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

impl Writable {
    /// Everything that was changed since the image.
    pub(super) fn stacks(&self, rights: Rights) -> io::Result<Vec<Stack>> {
        let below = self.below.iter().map(|frozen| open(&frozen.path)).collect::<io::Result<Vec<_>>>()?;
        let own = self.bench.open()?;
        let first_id = self.range.as_ref().map_or(0, |range| range.owner);
        stacks(&std::iter::once(&own).chain(&below).collect::<Vec<_>>(), &self.image, rights, first_id)
    }
}

impl Snapshots {
    /// The images at the bottom of what is kept.
    pub(super) fn images(&self) -> impl Iterator<Item = &Image> {
        self.kept.values().map(|(image, _)| image)
    }

    fn fresh(&mut self) -> io::Result<PathBuf> {
        self.made = self.made.wrapping_add(1);
        let path = Path::new(WORKSHOP).join(format!("snapshot-{}", self.made));
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Keeps what an ended sandbox wrote under this number.
    pub(super) fn keep(&mut self, id: u32, writable: Writable, rights: Rights) -> Result<(), Trouble> {
        let during = "keeping the snapshot";
        if self.kept.contains_key(&id) {
            return Err(io::Error::from_raw_os_error(libc::EEXIST)).during(during);
        }
        let layer = writable.bench.keep().during(during)?;
        let range = writable.range;
        // A layer that is still in use must not lie below another.
        drop(writable.bench);
        let path = self.fresh().during(during)?;
        move_mount(&layer, c"", CWD, &path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).during(during)?;
        let mut layers = vec![Rc::new(Frozen { path, range })];
        layers.extend(writable.below);
        // A tree that cannot be copied, by its depth for one, can still be stacked.
        if layers.len() > MOST_LAYERS
            && let Ok(one) = self.flatten(&layers, &writable.image, rights)
        {
            layers = vec![Rc::new(one)];
        }
        self.kept.insert(id, (writable.image, layers));
        Ok(())
    }

    /// Several layers as one.
    fn flatten(&mut self, layers: &[Rc<Frozen>], image: &Image, rights: Rights) -> io::Result<Frozen> {
        let path = self.fresh()?;
        let open = layers.iter().map(|frozen| open(&frozen.path)).collect::<io::Result<Vec<_>>>()?;
        // As much room as they have taken, all together: what would take more is not what it was.
        let (mut bytes, mut inodes) = (1 << 20, 64);
        for layer in &open {
            let used = rustix::fs::fstatvfs(layer)?;
            bytes += (used.f_blocks - used.f_bfree) * used.f_frsize;
            inodes += used.f_files - used.f_ffree;
        }
        let options = CString::new(format!("mode=755,size={bytes},nr_inodes={inodes}")).unwrap_or_default();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", &path, "tmpfs", flags, options.as_c_str())?;
        let flat = Frozen { path, range: layers.first().and_then(|layer| layer.range.clone()) };
        // With the owners that they have.
        for stack in stacks(&open.iter().collect::<Vec<_>>(), image, rights, 0)? {
            let name = if stack.place.is_empty() { "root" } else { stack.place };
            let upper = flat.part(name);
            fs::create_dir_all(&upper)?;
            let root = rustix::fs::open(&upper, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let mut copy = Copy::new(root, rights.opaque());
            walk(&Stack { place: "", ..stack }, &mut copy)?;
            copy.finish()?;
        }
        Ok(flat)
    }

    /// The image of a snapshot, and what lies on it, the top one first.
    pub(super) fn find(&self, id: u32) -> io::Result<(Image, Vec<Rc<Frozen>>)> {
        self.kept.get(&id).cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// Everything that a snapshot changed of its image.
    pub(super) fn stacks(&self, id: u32, rights: Rights) -> io::Result<Vec<Stack>> {
        let (image, layers) = self.find(id)?;
        let first_id = range_of(&layers)?.map_or(0, |range| range.owner);
        let layers = layers.iter().map(|frozen| open(&frozen.path)).collect::<io::Result<Vec<_>>>()?;
        stacks(&layers.iter().collect::<Vec<_>>(), &image, rights, first_id)
    }

    /// The ids that a sandbox of this image must have for the files of its snapshots to be its own. `None`: any.
    pub(super) fn range(&self, image: &Image) -> io::Result<Option<Rc<Range>>> {
        let mut layers = Vec::new();
        match image {
            Image::Snapshot(id) => layers.extend(self.find(*id)?.1),
            Image::Scene { files, tools, .. } => {
                layers.extend(self.find(*files)?.1);
                if let Some(tools) = tools {
                    layers.extend(self.find(*tools)?.1);
                }
            }
            _ => {}
        }
        range_of(&layers)
    }

    pub(super) fn forget(&mut self, id: u32) {
        self.kept.remove(&id);
    }
}

/// The ids that all these layers belong to; an error where there are several.
fn range_of(layers: &[Rc<Frozen>]) -> io::Result<Option<Rc<Range>>> {
    let mut found: Option<&Rc<Range>> = None;
    for range in layers.iter().filter_map(|layer| layer.range.as_ref()) {
        if found.is_some_and(|known| known.owner != range.owner) {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        found = Some(range);
    }
    Ok(found.cloned())
}

/// Writes an archive and how that went, and ends. In a child: whoever waits for the zygote does not wait for this.
pub(super) fn write(stacks: &[Stack], limit: u64, data: OwnedFd, status: &OwnedFd) -> ! {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut archive = Archive::new(io::BufWriter::with_capacity(1 << 18, fs::File::from(data)), limit);
    let written = stacks.iter().try_for_each(|stack| walk(stack, &mut archive)).and_then(|()| archive.finish());
    let said = match &written {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.to_string(),
    };
    let _ = rustix::io::write(status.as_fd(), said.as_bytes());
    syscalls::exit_now(i32::from(written.is_err()))
}
