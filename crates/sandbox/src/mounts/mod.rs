//! Mount sources: host paths are opened without following links, and checked before they are shown inside.
//!
//! `source.rs` opens a path and proves which file it is, `search.rs` walks what lies below it, `secrets.rs` names what gives keys
//! away, `places.rs` the directories that do so as a whole. Reasons: docs/decisions/0018-links-and-keys-in-mounts.md.

mod places;
mod search;
mod secrets;
mod source;

use std::path::Path;

use jail::zygote::{Image, Mount};

use crate::sandbox::StartError;

pub use source::MountSource;

/// Whether mounts may hold credentials. Only the operator's command line says so: no document, and no client of the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SecretMounts {
    /// A mount that holds any is refused.
    #[default]
    Refused,
    /// `--dangerously-mount-secrets`.
    DangerouslyAllowed,
}

/// Opens the sources of all mounts, and refuses those that must not be shown inside: through links, below a writable mount, the
/// host's own places, and what is or holds a socket that something is bound to.
///
/// A socket whose process has ended, such as one that an agent left in a writable mount, leads nowhere and never will again: the
/// next process that wants its place makes another file. Sources are held open, so that no other file can get the numbers by which the helper knows them.
pub fn open_mounts(mounts: &[Mount]) -> Result<Vec<MountSource>, StartError> {
    check_nesting(mounts)?;
    let open = |mount: &Mount| {
        let source = MountSource::open(&mount.source)?;
        search::bound_sockets(&source)?;
        Ok(source)
    };
    mounts.iter().map(open).collect()
}

/// Refuses mounts that give keys away, and those that [`open_mounts`] refuses.
///
/// Called once, when a run is planned and before any of its agents could write: a file that an agent plants in a writable mount
/// later must not keep the next sample from starting.
pub fn check_mounts(mounts: &[Mount], secrets: SecretMounts) -> Result<(), StartError> {
    check_nesting(mounts)?;
    for mount in mounts {
        let source = MountSource::open(&mount.source)?;
        match secrets {
            SecretMounts::DangerouslyAllowed => search::sockets(&source)?,
            SecretMounts::Refused => {
                places::refuse(&source)?;
                search::sockets_and_secrets(&source)?;
            }
        }
    }
    Ok(())
}

/// Refuses a mount whose source lies in what another one lets the workload write: it could turn it to any place of the host.
///
/// Sources are compared as they are called without the links of the system's directories; one that cannot be opened, by its text.
pub fn check_nesting(mounts: &[Mount]) -> Result<(), StartError> {
    let real = |mount: &Mount| match MountSource::open(&mount.source) {
        Ok(source) => source.path().to_owned(),
        Err(_) => mount.source.clone(),
    };
    let all: Vec<(String, &Mount)> = mounts.iter().map(|mount| (real(mount), mount)).collect();
    for (source, mount) in &all {
        let around =
            |(other, by): &&(String, &Mount)| by.writable && other != source && Path::new(source).starts_with(other);
        if let Some((_, other)) = all.iter().find(around) {
            let why =
                format!("it lies in {}, which is mounted writable: what is inside could replace it", other.source);
            return Err(StartError::Mount { path: mount.source.clone(), why, hint: None });
        }
    }
    Ok(())
}

/// Refuses the directory of an image that shares files with a writable mount: an agent could change the image of later samples, and
/// of its own scorer.
pub fn check_image_beside(image: &Image, mounts: &[Mount]) -> Result<(), StartError> {
    let Some(directory) = open_image(image)? else { return Ok(()) };
    let directory = Path::new(directory.path());
    for mount in mounts.iter().filter(|mount| mount.writable) {
        let source = MountSource::open(&mount.source)?;
        let source = Path::new(source.path());
        if directory.starts_with(source) || source.starts_with(directory) {
            let why =
                format!("it shares files with the image dir:{}: what is inside could change it", directory.display());
            let hint = Some("mount it read-only, or keep the image elsewhere");
            return Err(StartError::Mount { path: mount.source.clone(), why, hint });
        }
    }
    Ok(())
}

/// Opens the directory at the bottom of an image, if it has one. Refuses one of the host's own places, and a path through a link.
pub(crate) fn open_image(image: &Image) -> Result<Option<MountSource>, StartError> {
    match image {
        Image::Directory(path) => MountSource::open(path).map(Some),
        Image::Over(base, _) => open_image(base),
        Image::Host | Image::Layers(_) | Image::Snapshot(_) | Image::Scene { .. } => Ok(None),
    }
}

/// Refuses a directory as an image that gives keys away, and returns its path without links. Called once, when a run is planned.
pub fn check_directory_image(path: &str, secrets: SecretMounts) -> Result<String, StartError> {
    let source = MountSource::open(path)?;
    if secrets == SecretMounts::Refused {
        places::refuse(&source)?;
        search::secrets_of_image(&source)?;
    }
    Ok(source.path().to_owned())
}

/// What happens to a path in a directory that an image is built of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextPart {
    /// It is sent to the builder.
    Sent,
    /// It is not, but something below it may be.
    LeftOut,
    /// Neither it nor anything below it is sent.
    LeftOutWhole,
}

/// Refuses a directory to build an image of that a link leads to or that gives keys away, and returns its path without links.
pub fn check_build_directory(
    path: &str,
    secrets: SecretMounts,
    part: &dyn Fn(&Path) -> ContextPart,
) -> Result<String, StartError> {
    let source = MountSource::open(path)?;
    if secrets == SecretMounts::Refused {
        places::refuse(&source)?;
        search::secrets_of_context(&source, part)?;
    }
    Ok(source.path().to_owned())
}
