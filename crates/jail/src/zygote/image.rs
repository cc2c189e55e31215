//! A sandbox's root as mounts that are not attached anywhere yet.
//!
//! Lower layers are shown with the owners that the sandbox's id range gives them, so nothing is ever copied or chowned.
//! The writable layer is seen through the same mapping: on its own file system owners are 0 to 65535 whatever the range,
//! so that a snapshot of it lies below any other sandbox as it is. Before Linux 6.3 a tmpfs cannot be shown so: files belong to the
//! sandbox's range, and a sandbox on a snapshot has the same.
//!
//! The names in the overlay's options are the workshop's: no path of the host shows up in the sandbox's mountinfo.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use mutation::{Mutation, mutated};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mknodat, open};
use rustix::mount::{
    MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount,
};

use super::bases::open_checked;
use super::create::Range;
use super::home::{Home, MASKS, Rights, SYNTHETIC, WORKSHOP};
use super::inside::Nodes;
use super::overlay::Overlay;
use super::protocol::{Image, Mount, Network, Shown, Spec};
use super::shield::{self, Left, Obstacle, Scene};
use super::snapshot::{Frozen, Writable};
use super::{During as _, Trouble, devices, synthetic};
use crate::capture::NAME_SERVER;
use crate::syscalls::{self, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY};

/// Mounts to be attached at these places of the new root, in this order; the root itself is first, at "".
pub(super) type Tree = Vec<(String, OwnedFd)>;

/// A copy of the mount at `path` that is attached nowhere.
fn detached(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(open_tree(CWD, path, flags)?)
}

/// A copy of the mounts at a source, attached nowhere: of the file that was checked, or an error (`ESTALE`). The caller's own
/// descriptor is of another mount namespace, whose mounts cannot be copied here; so it is known by its numbers.
fn checked(shown: &Shown) -> io::Result<OwnedFd> {
    let source = open_checked(Path::new(&shown.mount.source), OFlags::empty(), (shown.device, shown.inode))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(&source, c"", flags)?)
}

/// A directory as a lower layer: a mount of its own with mapped owners, attached at `at` while the overlay is made.
fn attach_lower(path: &Path, at: &Path, userns: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let lower = detached(path, false)?;
    if let Some(userns) = userns {
        // A file system that cannot do it shows its files as nobody's: poorer, not less safe.
        let _ = syscalls::mount_setattr(&lower, 0, Some(userns), false);
    }
    fs::create_dir(at)?;
    move_mount(&lower, c"", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

/// The place where one sandbox's layers are put together, the layer that it writes to first of all. It is gone when this is
/// dropped; mounts made of it stay. Taking mounts off waits for the kernel, so it is kept until the sandbox has ended and
/// nobody waits for us.
pub(super) struct Bench {
    path: PathBuf,
    /// How many mounts lie below it, for names that are new.
    attached: usize,
}

impl Bench {
    /// The writable layer, without what is attached to it.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        Ok(open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// The writable layer as a mount of its own, attached nowhere: what is left when this bench is gone.
    pub(super) fn keep(&self) -> io::Result<OwnedFd> {
        detached(&self.path, false)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // With everything that is attached below.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.path);
    }
}

/// A root, ready to be handed over.
pub(super) struct Built {
    pub(super) tree: Tree,
    /// The layer that the sandbox writes to.
    pub(super) writable: Writable,
}

/// Builds the root that `spec` describes. `userns` is the sandbox's, for its id range.
pub(super) fn build(home: &mut Home, spec: &Spec, userns: BorrowedFd<'_>, range: &Rc<Range>) -> Result<Built, Trouble> {
    let owner = range.owner;
    let ((image, below), judged) = match &spec.image {
        Image::Snapshot(id) => (home.snapshots.find(*id).during("finding the snapshot")?, None),
        Image::Scene { files, tools, declared } => {
            let found = home.snapshots.find(*files).during("finding the snapshot")?;
            let tools = match tools {
                Some(id) => home.snapshots.find(*id).during("finding the snapshot")?.1,
                None => Vec::new(),
            };
            (found, Some((tools, declared)))
        }
        image => ((image.clone(), Vec::new()), None),
    };
    if has_host(&image) && home.host_image.is_none() {
        home.host_image = Some(synthetic::build().during("building the host image")?);
    }
    let bench = Bench { path: Path::new(WORKSHOP).join(format!("box-{}", spec.id)), attached: 0 };
    fs::create_dir(&bench.path).during("making the sandbox's directory")?;
    // For the kernel, 0 is no limit.
    let (disk, inodes) = if mutated(Mutation::NoDiskLimit) { (0, 0) } else { (spec.disk, spec.inodes) };
    let options = format!("mode=755,size={disk},nr_inodes={inodes}");
    let options = CString::new(options).unwrap_or_default();
    mount("tmpfs", &bench.path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
        .during("mounting the writable layer")?;
    let home_rights = home.rights;
    let mapped = map_writable(home, &bench.path, userns).during("mapping the writable layer")?;
    let mut workshop = Layers { bench, home, userns, owner, mapped, network: spec.network };
    let mut tree = Tree::new();
    let mut sources = Vec::new();
    for wanted in &spec.mounts {
        sources.push((&wanted.mount, checked(wanted).during("opening a mount's source")?));
    }
    let unwanted = Mount { source: "/tmp".into(), target: "/tmp".into(), writable: true };
    if mutated(Mutation::HostMount) {
        sources.push((&unwanted, detached(Path::new("/tmp"), true).during("opening a mount's source")?));
    }
    // The scorer has a root from before the agent.
    let before = judged.as_ref().map_or(&below, |(tools, _)| tools);
    let scene = match &judged {
        Some((tools, declared)) => {
            scene(&image, (tools, &below), (declared, &spec.mounts), home_rights).during("shielding")?
        }
        None => Scene::default(),
    };
    tree.push((String::new(), workshop.overlay("root", &root_layers(&image, before), &scene.removed)?));
    for (number, left) in scene.left.iter().enumerate() {
        let obstacles = obstacles(left, &sources, home_rights).during("shielding")?;
        let place = left.name.to_string_lossy().into_owned();
        tree.push((place, workshop.left(&format!("left-{number}"), left, &obstacles)?));
    }
    if has_host(&image) {
        let programs = usr_layers(&image, before);
        tree.push(("usr".into(), workshop.overlay("usr", &programs, &[])?));
        for name in workshop.home.host_image.iter().flat_map(|image| image.program_directories.clone()) {
            let programs = detached(&Path::new("/").join(name), false).during("showing the host's programs")?;
            syscalls::mount_setattr(&programs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, None, false)
                .during("showing the host's programs")?;
            tree.push((name.into(), programs));
        }
    }
    if workshop.home.nodes == Nodes::Given {
        tree.push(("dev".into(), devices::with_nodes(owner).during("making /dev")?));
    }
    for (wanted, shown) in sources {
        let set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | if wanted.writable { 0 } else { MOUNT_ATTR_RDONLY };
        syscalls::mount_setattr(&shown, set, None, true).during("restricting a mount")?;
        if home_maps_ids(workshop.home) {
            // So that the sandbox's root can use what belongs to the operator. Not every file system can do it.
            let _ = syscalls::mount_setattr(&shown, 0, Some(userns), true);
        }
        let shown = if wanted.writable { shown } else { workshop.veil(shown)? };
        tree.push((wanted.target.trim_start_matches('/').to_owned(), shown));
    }
    // Of a scene, what its root lies on; what is written to directories that an agent left is not kept.
    let below = judged.map_or(below, |(tools, _)| tools);
    let writable = Writable { bench: workshop.bench, range: (!mapped).then(|| range.clone()), image, below };
    Ok(Built { tree, writable })
}

/// The first name of a path inside, and what comes after it.
fn split(target: &str) -> Option<(&OsStr, &str)> {
    let (first, rest) = target.trim_start_matches('/').split_once('/').unwrap_or((target.trim_start_matches('/'), ""));
    (!first.is_empty()).then_some((OsStr::new(first), rest))
}

/// The names in `/` by which a scene differs from the root that `tools` have.
fn scene(
    image: &Image,
    (tools, below): (&[Rc<Frozen>], &[Rc<Frozen>]),
    (declared, mounts): (&[String], &[Shown]),
    rights: Rights,
) -> io::Result<Scene> {
    let is_agents = |layer: &&Rc<Frozen>| !tools.iter().any(|known| Rc::ptr_eq(known, layer));
    let agent: Vec<PathBuf> = below.iter().filter(is_agents).map(|layer| layer.part("root")).collect();
    let (before, left) = (root_layers(image, tools), root_layers(image, below));
    let layers = shield::Layers { before: &before, left: &left, agent: &agent };
    // Only names: no path of the caller leads out of a layer.
    let is_name = |name: &&OsStr| !name.as_bytes().contains(&b'/') && *name != "." && *name != "..";
    let targets = || mounts.iter().filter_map(|shown| split(&shown.mount.target));
    let mounted = targets().filter(|(_, rest)| rest.is_empty()).map(|(name, _)| name).collect();
    let declared = declared.iter().map(OsStr::new).chain(targets().map(|(name, _)| name)).filter(is_name);
    Scene::of(&layers, &declared.collect(), &mounted, rights)
}

/// Whatever is in the way of these mounts in a directory that an agent left.
fn obstacles(left: &Left, mounts: &[(&Mount, OwnedFd)], rights: Rights) -> io::Result<Vec<Obstacle>> {
    let mut found = Vec::new();
    for (mount, source) in mounts {
        if let Some((name, below)) = split(&mount.target)
            && name == left.name
        {
            let kind = FileType::from_raw_mode(fstat(source)?.st_mode);
            found.extend(shield::obstacle(&left.layers, below, !kind.is_dir(), rights)?);
        }
    }
    Ok(found)
}

/// Whether the host's programs lie below everything.
fn has_host(image: &Image) -> bool {
    match image {
        Image::Host => true,
        Image::Over(base, _) => has_host(base),
        _ => false,
    }
}

/// What lies below the root, the top one first.
pub(super) fn root_layers(image: &Image, below: &[Rc<Frozen>]) -> Vec<PathBuf> {
    let mut layers: Vec<PathBuf> = below.iter().map(|frozen| frozen.part("root")).collect();
    match image {
        Image::Host => layers.push(SYNTHETIC.into()),
        Image::Directory(path) => layers.push(path.into()),
        Image::Layers(paths) => layers.extend(paths.iter().map(PathBuf::from)),
        Image::Over(base, paths) => {
            layers.extend(paths.iter().map(PathBuf::from));
            layers.extend(root_layers(base, &[]));
        }
        Image::Snapshot(_) | Image::Scene { .. } => {}
    }
    layers
}

/// What lies below the host's /usr of a sandbox, which is a mount of its own: only layers that have one.
pub(super) fn usr_layers(image: &Image, below: &[Rc<Frozen>]) -> Vec<PathBuf> {
    let mut layers: Vec<PathBuf> = below.iter().map(|frozen| frozen.part("usr")).collect();
    if let Image::Over(base, paths) = image {
        layers.extend(paths.iter().map(|path| Path::new(path).join("usr")));
        layers.extend(usr_layers(base, &[]));
    }
    // Never through a link: it would lead to the host's own files.
    layers.retain(|path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()));
    layers
}

/// Where the writable layer is seen with the sandbox's own ids: there, what the sandbox's root owns belongs to 0.
const MAPPED: &str = "mapped";
/// Marks in attributes that a plain user may set.
const USER_XATTR: [(&str, Option<&str>); 1] = [("userxattr", None)];

/// Shows the writable layer once more, through the sandbox's mapping. False where the kernel cannot (before 6.3): what lies there
/// belongs to the range's own ids.
fn map_writable(home: &Home, bench: &Path, userns: BorrowedFd<'_>) -> io::Result<bool> {
    if home.rights == Rights::User {
        // One id, the same for all.
        return Ok(true);
    }
    let shown = detached(bench, false)?;
    if syscalls::mount_setattr(&shown, 0, Some(userns), false).is_err() {
        return Ok(false);
    }
    fs::create_dir(bench.join(MAPPED))?;
    move_mount(&shown, c"", CWD, bench.join(MAPPED), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(true)
}

fn home_maps_ids(home: &Home) -> bool {
    home.rights == Rights::Root
}

struct Layers<'a> {
    bench: Bench,
    home: &'a Home,
    userns: BorrowedFd<'a>,
    owner: u32,
    mapped: bool,
    network: Network,
}

impl Layers<'_> {
    /// An overlay with these directories below, the top one first, and an empty layer of the sandbox's own above, in which
    /// these names are marked as removed.
    fn overlay(&mut self, name: &str, layers: &[PathBuf], removed: &[OsString]) -> Result<OwnedFd, Trouble> {
        let upper = self.upper(name)?;
        if self.network != Network::Loopback && name == "root" {
            self.name_server(&upper.join("etc")).during("writing resolv.conf")?;
        }
        for name in removed {
            // As the kernel marks it.
            mknodat(CWD, upper.join(name), FileType::CharacterDevice, Mode::empty(), 0).during("shielding")?;
        }
        self.over(name, layers)
    }

    /// The same for a directory that an agent left, with something to mount on in the place of each obstacle.
    fn left(&mut self, name: &str, left: &Left, obstacles: &[Obstacle]) -> Result<OwnedFd, Trouble> {
        let upper = self.upper(name)?;
        // What lies on top says whose the directory is.
        fs::set_permissions(&upper, fs::Permissions::from_mode(left.mode)).during("shielding")?;
        if self.home.rights == Rights::Root {
            // An image's files belong to 0 and so on; what sandboxes wrote without a mapping belongs to their range.
            let first = if self.mapped { 0 } else { self.owner };
            let id = |id: u32| Some(if id < first { first.saturating_add(id) } else { id });
            chown(&upper, id(left.uid), id(left.gid)).during("shielding")?;
        }
        for obstacle in obstacles {
            let made = obstacle.cover(&upper).during("shielding")?;
            made.iter().try_for_each(|path| self.give(path)).during("shielding")?;
        }
        self.over(name, &left.layers)
    }

    /// The empty layer that an overlay of this name writes to.
    fn upper(&self, name: &str) -> Result<PathBuf, Trouble> {
        let directory = self.bench.path.join(name);
        fs::create_dir(&directory).during("making a layer")?;
        for part in ["upper", "work"] {
            fs::create_dir(directory.join(part)).during("making a layer")?;
            self.give(&directory.join(part)).during("giving a layer to the sandbox")?;
        }
        Ok(directory.join("upper"))
    }

    /// The overlay of this name, whose own layer is there.
    fn over(&mut self, name: &str, layers: &[PathBuf]) -> Result<OwnedFd, Trouble> {
        let directory = self.bench.path.join(name);
        let mut lowers: Vec<String> = Vec::new();
        let mut below: Vec<(String, &Path)> =
            layers.iter().enumerate().map(|(number, layer)| (number.to_string(), layer.as_path())).collect();
        if name == "usr" {
            // Over the host's, under what sandboxes wrote.
            let masks = MASKS.iter().enumerate().map(|(number, mask)| (format!("mask{number}"), Path::new(*mask)));
            below.extend(masks.chain([("host".to_owned(), Path::new("/usr"))]));
        }
        for (name, layer) in below {
            self.lower(layer, &directory.join(&name)).during("attaching a lower layer")?;
            lowers.push(name);
        }
        if lowers.is_empty() {
            // An image of nothing: the kernel wants something to lie below.
            fs::create_dir(directory.join("nothing")).during("making a layer")?;
            lowers.push("nothing".to_owned());
        }
        // Mounted through the mapping by somebody whom it maps: what the overlay makes there has an owner.
        let (seen, fs_owner) = match (self.mapped, self.home.rights) {
            (true, Rights::Root) => (self.bench.path.join(MAPPED).join(name), self.owner),
            _ => (directory.clone(), 0),
        };
        // A layer is to be whole by itself: no file in it points to another by a mark of the kernel's.
        let whole = [("redirect_dir", Some("off")), ("metacopy", Some("off"))];
        let overlay = Overlay {
            source: "sandbox",
            directory: &directory,
            lowers: &lowers,
            writable: Some(&seen),
            options: if self.home.rights == Rights::User { &USER_XATTR } else { &whole },
            attributes: MountAttrFlags::MOUNT_ATTR_NODEV,
        };
        syscalls::with_file_owner(fs_owner, || overlay.mount(self.home.overlays)).during("making the overlay")
    }

    /// Attaches a lower layer with the owners that the sandbox's id range gives it. Before Linux 6.3 a tmpfs cannot be shown so:
    /// of what is ours in the workshop, the sandbox has a copy of its own.
    fn lower(&mut self, layer: &Path, at: &Path) -> io::Result<()> {
        let idmap = (self.home.rights == Rights::Root).then_some(self.userns);
        let is_shared = layer == Path::new(SYNTHETIC) || MASKS.iter().any(|mask| layer == Path::new(mask));
        self.bench.attached += 1;
        if idmap.is_none() || self.mapped || !is_shared {
            return attach_lower(layer, at, idmap);
        }
        fs::create_dir(at)?;
        mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=64m")?;
        synthetic::copy_for(layer, at, self.owner)
    }

    /// Where programs ask for names. In the top layer, so that whatever an image has in its place is covered.
    fn name_server(&self, etc: &Path) -> io::Result<()> {
        let file = etc.join("resolv.conf");
        fs::create_dir_all(etc)?;
        fs::write(&file, format!("nameserver {NAME_SERVER}\noptions timeout:2 attempts:2\n"))?;
        self.give(etc)?;
        self.give(&file)
    }

    /// Makes the sandbox's root the owner. Through a mapping, it is already.
    fn give(&self, path: &Path) -> io::Result<()> {
        if self.home.rights == Rights::Root && !self.mapped {
            chown(path, Some(self.owner), Some(self.owner))
        } else {
            Ok(())
        }
    }

    /// A read-only directory behind an overlay of its own, so that mountinfo does not show where on the host it lies. A
    /// single file, or a file system that an overlay cannot have below it, is shown as it is.
    fn veil(&mut self, shown: OwnedFd) -> Result<OwnedFd, Trouble> {
        let directory = self.bench.path.join(format!("mount-{}", self.bench.attached));
        let is_directory = fstat(&shown).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        if !is_directory {
            return Ok(shown);
        }
        let (lower, empty) = (directory.join("lower"), directory.join("empty"));
        for path in [&directory, &lower, &empty] {
            fs::create_dir(path).during("making a layer")?;
        }
        move_mount(&shown, c"", CWD, &lower, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).during("attaching a mount")?;
        self.bench.attached += 1;
        let overlay = Overlay {
            source: "mount",
            directory: &directory,
            lowers: &["empty".to_owned(), "lower".to_owned()],
            writable: None,
            options: if self.home.rights == Rights::User { &USER_XATTR } else { &[] },
            attributes: MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_RDONLY,
        };
        // `shown` is attached now; a copy serves where the overlay cannot.
        overlay.mount(self.home.overlays).or_else(|_| detached(&lower, true)).during("showing a mount")
    }
}
