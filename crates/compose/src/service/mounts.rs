//! `volumes` and `tmpfs`: what is mounted in a service.

use profile::source::{Node, Value};
use profile::{Located, Place};

use super::tmpfs::{self, Tmpfs};
use crate::host::{self, Use};
use crate::names::{ContainerPath, HostPath, VolumeName};
use crate::reading::Reading;
use crate::rules::{BIND_KEYS, MOUNT_KEYS, MOUNT_VOLUME_KEYS};
use crate::section::{self, Section};

/// Something that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub target: ContainerPath,
    /// What.
    pub source: MountSource,
    /// Whether it may be written to.
    pub access: Access,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSource {
    /// A file or directory of the task; always [`Access::ReadOnly`].
    Bind(HostPath),
    /// A volume that services share by its name, and lives as long as the sample.
    Volume {
        /// Its name.
        name: VolumeName,
        /// Only this part of it.
        subpath: Option<String>,
        /// Whether it begins with what the image has there.
        filled: bool,
    },
    /// A volume of its own.
    Unnamed,
    /// Memory.
    Tmpfs(Tmpfs),
}

/// Whether something may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It may only be read.
    ReadOnly,
    /// It may be written to.
    ReadWrite,
}

pub(super) fn read(keys: &mut Section) -> Vec<Located<Mount>> {
    let reading = keys.reading;
    let mut mounts: Vec<Located<Mount>> = Vec::new();
    for item in keys.list("volumes") {
        let place = item.place;
        let mount = if matches!(item.value, Value::Map(_)) { long(reading, item) } else { short(reading, item) };
        mounts.extend(mount.map(|mount| Located::at(place, mount)));
    }
    let memory = match keys.take("tmpfs") {
        Some(node) if matches!(node.value, Value::List(_)) => section::list(reading, node, "tmpfs"),
        Some(node) => vec![node],
        None => Vec::new(),
    };
    for item in memory {
        let place = item.place;
        let mount = section::text(reading, item, "tmpfs").and_then(|text| tmpfs::short(reading, place, &text.value));
        mounts.extend(mount.map(|mount| Located::at(place, mount)));
    }
    for (index, mount) in mounts.iter().enumerate() {
        if mounts.iter().take(index).any(|earlier| earlier.value.target == mount.value.target) {
            let place = mount.place.unwrap_or(keys.place);
            reading.problem(place, format!("two mounts at `{}`", mount.value.target));
        }
    }
    mounts
}

/// A path inside that may be mounted at: not what the sandbox itself provides.
pub(super) fn target(reading: &Reading, place: Place, text: &str) -> Option<ContainerPath> {
    let path: ContainerPath = match text.parse() {
        Ok(path) => path,
        Err(error) => {
            reading.problem(place, error);
            return None;
        }
    };
    let kept = ["/proc", "/sys", "/dev", "/.ringfence"].iter().any(|kept| path.is_within(kept));
    // Memory at /dev/shm is what is there anyway.
    if path.as_str() == "/" || (kept && path.as_str() != "/dev/shm") {
        reading.refuse(place, "volumes", format_args!("a mount at `{path}`"), "the sandbox keeps it for itself");
        return None;
    }
    Some(path)
}

/// `TARGET`, `SOURCE:TARGET` or `SOURCE:TARGET:OPTIONS`.
fn short(reading: &Reading, item: Node) -> Option<Mount> {
    let place = item.place;
    let text = section::text(reading, item, "volumes")?.value;
    let (source, inside, options) = match text.split(':').collect::<Vec<_>>()[..] {
        [inside] => (None, inside, ""),
        [source, inside] => (Some(source), inside, ""),
        [source, inside, options] => (Some(source), inside, options),
        _ => {
            let shown: String = text.chars().take(80).collect();
            reading.problem(place, format!("`{shown}` is not SOURCE:TARGET[:OPTIONS]"));
            return None;
        }
    };
    let (access, filled) = short_options(reading, place, options)?;
    let inside = target(reading, place, inside);
    let source = match source {
        None => Some(MountSource::Unnamed),
        Some(source) if source.starts_with(['.', '/', '~']) => bind(reading, place, source, access),
        Some(name) => {
            let name = section::name(reading, place, name, "a volume")?;
            Some(MountSource::Volume { name, subpath: None, filled })
        }
    };
    Some(Mount { target: inside?, source: source?, access })
}

fn short_options(reading: &Reading, place: Place, options: &str) -> Option<(Access, bool)> {
    let (mut access, mut filled) = (Access::ReadWrite, true);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "ro" => access = Access::ReadOnly,
            "nocopy" => filled = false,
            "rw" | "z" | "Z" | "cached" | "delegated" | "consistent" | "private" | "rprivate" => {}
            "shared" | "rshared" | "slave" | "rslave" => refuse_propagation(reading, place, option),
            other => {
                let shown: String = other.chars().take(40).collect();
                reading.problem_with_hint(
                    place,
                    format!("unknown option `{shown}` of a volume"),
                    "ro makes it read-only",
                );
                return None;
            }
        }
    }
    Some((access, filled))
}

fn refuse_propagation(reading: &Reading, place: Place, how: &str) {
    let why = "mounts would pass between the host and the sandbox";
    reading.refuse(place, "volumes", format_args!("a volume that is `{how}`"), why);
}

/// What is the task's own may be looked at. Writing would change what other samples, and the next run, begin with.
fn bind(reading: &Reading, place: Place, source: &str, access: Access) -> Option<MountSource> {
    let path = host::path(reading, &Located::at(place, source.to_owned()), Use::Bind)?;
    if access == Access::ReadWrite {
        let hint = "add `:ro`, use a named volume, or grant it under `mounts:` in the profile document";
        let what = format!("`{source}` to write to");
        reading.refuse_with_hint(
            place,
            "volumes",
            what,
            "what a sample writes would outlive it, on the host",
            Some(hint),
        );
        return None;
    }
    Some(MountSource::Bind(path.value))
}

/// The long form.
fn long(reading: &Reading, item: Node) -> Option<Mount> {
    let place = item.place;
    let mut keys = Section::open(reading, item, "a volume", MOUNT_KEYS)?;
    let kind = keys.text("type").map_or("volume".to_owned(), |kind| kind.value);
    let source = keys.text("source").map(|source| source.value);
    let inside = keys.text("target");
    let access = if keys.truth("read_only").unwrap_or(false) { Access::ReadOnly } else { Access::ReadWrite };
    let (of_bind, of_volume, of_tmpfs) = (keys.take("bind"), keys.take("volume"), keys.take("tmpfs"));
    keys.finish();
    let (subpath, filled) = of_volume.map_or((None, true), |node| volume_options(reading, node));
    if let Some(node) = of_bind {
        bind_options(reading, node);
    }
    let tmpfs = of_tmpfs.map_or(Some(Tmpfs::default()), |node| tmpfs::options(reading, node));
    let Some(inside) = inside else {
        reading.problem(place, "a volume has no `target`");
        return None;
    };
    let inside = target(reading, inside.place.unwrap_or(place), &inside.value);
    let source = match (kind.as_str(), source) {
        ("volume", None) => MountSource::Unnamed,
        ("volume", Some(name)) => {
            let name = section::name(reading, place, &name, "a volume")?;
            MountSource::Volume { name, subpath, filled }
        }
        ("bind", Some(source)) => bind(reading, place, &source, access)?,
        ("bind", None) => {
            reading.problem(place, "a volume of type `bind` has no `source`");
            return None;
        }
        ("tmpfs", _) => MountSource::Tmpfs(tmpfs?),
        ("npipe" | "cluster" | "image", _) => {
            reading.refuse(
                place,
                "volumes",
                format_args!("a volume of type `{kind}`"),
                "it brings in what is not of this sample",
            );
            return None;
        }
        _ => {
            reading.problem(place, "`type` must be volume, bind or tmpfs");
            return None;
        }
    };
    Some(Mount { target: inside?, source, access })
}

fn volume_options(reading: &Reading, node: Node) -> (Option<String>, bool) {
    let place = node.place;
    let Some(mut keys) = Section::open(reading, node, "`volume`", MOUNT_VOLUME_KEYS) else { return (None, true) };
    let subpath = keys.text("subpath").map(|path| path.value);
    let filled = !keys.truth("nocopy").unwrap_or(false);
    keys.finish();
    if subpath.as_ref().is_some_and(|path| HostPath::resolve(path, std::path::Path::new(""), 0).is_err()) {
        reading.problem(place, "`subpath` must stay within the volume");
    }
    (subpath, filled)
}

fn bind_options(reading: &Reading, node: Node) {
    let place = node.place;
    let Some(mut keys) = Section::open(reading, node, "`bind`", BIND_KEYS) else { return };
    if let Some(how) = keys.text("propagation")
        && !matches!(how.value.as_str(), "private" | "rprivate")
    {
        refuse_propagation(reading, how.place.unwrap_or(place), &how.value);
    }
    keys.finish();
}
