//! What decides a task's next run must not lie where this run's agent may write: its policy, its services, its image.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use profile::{Cause, Mount, MountMode, Unmet};

use crate::task::Task;

/// As many links as the kernel follows (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// Files and directories of the host that decide what a run is, beside those that the task includes.
#[derive(Default)]
pub struct Inputs {
    /// Files that are read, such as a policy; also those that are read only once they are there.
    pub files: Vec<PathBuf>,
    /// Directories whose content becomes an image.
    pub directories: Vec<ImageDirectory>,
}

/// A directory whose content becomes an image.
pub struct ImageDirectory {
    /// Its path.
    pub path: PathBuf,
    /// Whether a path below it, and all below that, is not part of the image.
    pub leaves_out: Box<dyn Fn(&Path) -> bool>,
}

/// Refuses inputs that a sandbox of the task may write to.
pub fn check_inputs(task: &Task, inputs: &Inputs) -> Vec<Unmet> {
    let mounts = writable_mounts(task);
    let files = mounts.iter().filter_map(|(mount, sources)| of_files(mount, sources, &inputs.files));
    let directories = mounts.iter().filter_map(|(mount, sources)| of_directories(mount, sources, &inputs.directories));
    files.chain(directories).collect()
}

/// The same for the files that the task includes, and its own.
pub(crate) fn check_included(task: &Task) -> Vec<Unmet> {
    let mounts = writable_mounts(task);
    mounts.iter().filter_map(|(mount, sources)| of_files(mount, sources, &task.included)).collect()
}

/// Writable mounts with their sources, seen from where we are and from beside the task. A source that cannot be found is refused
/// elsewhere.
fn writable_mounts(task: &Task) -> Vec<(&Mount, Vec<PathBuf>)> {
    let of_services = task.document.services.values().flat_map(|service| &service.mounts);
    let mounts = task.document.mounts.iter().map(|mount| &mount.value).chain(of_services);
    let own = Path::new(&task.origin).parent().unwrap_or(Path::new(""));
    let sources = |mount: &Mount| {
        let paths = [Path::new("").join(&mount.source), own.join(&mount.source)];
        paths.iter().flat_map(|path| path.canonicalize()).collect()
    };
    mounts.filter(|mount| mount.mode == MountMode::ReadWrite).map(|mount| (mount, sources(mount))).collect()
}

fn of_files(mount: &Mount, sources: &[PathBuf], files: &[PathBuf]) -> Option<Unmet> {
    let mut places = files.iter().flat_map(|file| trail(file));
    let file = places.find(|place| sources.iter().any(|source| place.starts_with(source)))?;
    Some(unmet(format!("`{}` is a file of the task, and lies in the writable mount `{mount}`", file.display())))
}

fn of_directories(mount: &Mount, sources: &[PathBuf], directories: &[ImageDirectory]) -> Option<Unmet> {
    directories.iter().find_map(|directory| {
        let places = trail(&directory.path);
        let lies_in = sources.iter().any(|source| places.iter().any(|place| place.starts_with(source)));
        let holds = |source: &PathBuf| {
            let below = source.strip_prefix(places.last()?).ok()?;
            (!(directory.leaves_out)(below)).then_some(())
        };
        let shown = directory.path.display();
        if lies_in {
            Some(unmet(format!("`{shown}` is an image's directory, and lies in the writable mount `{mount}`")))
        } else if sources.iter().any(|source| holds(source).is_some()) {
            Some(unmet(format!("the writable mount `{mount}` lies in `{shown}`, which is an image's directory")))
        } else {
            None
        }
    })
}

fn unmet(reason: String) -> Unmet {
    Unmet::new(Cause::Contradiction, "mounts", reason).hint("mount another directory, or leave out `:rw`")
}

/// Every place that decides where a path leads: each link on the way, and its end, whether or not something is there yet.
fn trail(path: &Path) -> Vec<PathBuf> {
    let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<OsString>>();
    let mut ahead = parts(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let (mut at, mut places) = (PathBuf::from("/"), Vec::new());
    while let Some(name) = ahead.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            // What is before it has no links any more.
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(_)) => {
                at.push(&name);
                let Some(target) = std::fs::read_link(&at).ok().filter(|_| places.len() < MAX_LINKS) else { continue };
                places.push(at.clone());
                at.pop();
                let mut target = parts(&target);
                target.append(&mut ahead);
                ahead = target;
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    places.push(at);
    places
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_trail_has_every_link_and_the_end() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/end"), "").unwrap();
        symlink("b/../middle", at("a/first")).unwrap();
        symlink(at("a/end"), at("a/middle")).unwrap();
        symlink("a", at("short")).unwrap();
        symlink("round", at("round")).unwrap();
        assert_eq!(trail(&at("a/end")), [at("a/end")]);
        assert_eq!(trail(&at("short/first")), [at("short"), at("a/first"), at("a/middle"), at("a/end")]);
        assert_eq!(trail(&at("short/none/../yet")), [at("short"), at("a/yet")]);
        assert_eq!(trail(&at("round")).len(), MAX_LINKS + 1);
    }
}
