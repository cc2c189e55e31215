//! Directories that give keys away as a whole: homes, and Ringfence's own.

use std::env::var_os;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::secrets::HINT;
use super::source::MountSource;
use crate::sandbox::StartError;

/// Where users have their homes. Each is one, whether or not there is an account of its name.
const HOMES: &str = "/home";
/// Accounts from here on are people's.
const FIRST_USER: u32 = 1000;
/// The most of the list of accounts that is read.
const MAX_ACCOUNTS: u64 = 4 << 20;

/// Refuses a source that is, holds, or is part of such a directory. Of a home, parts may be mounted.
pub(super) fn refuse(source: &MountSource) -> Result<(), StartError> {
    let path = Path::new(source.path());
    let refused = |why: String| Err(StartError::Mount { path: source.path().to_owned(), why, hint: Some(HINT) });
    if path.parent() == Some(Path::new(HOMES)) {
        return refused(format!("{} is a user's whole home", path.display()));
    }
    if let Some(home) = homes().iter().find(|home| home.starts_with(path)) {
        return refused(format!("{} is a user's whole home", home.display()));
    }
    match own_places().into_iter().find(|(place, _)| place.starts_with(path) || path.starts_with(place)) {
        Some((place, what)) => refused(format!("{} is {what}", place.display())),
        None => Ok(()),
    }
}

/// A directory as it is called without links; `None` if it does not exist, and so holds nothing.
fn real(path: impl Into<PathBuf>) -> Option<PathBuf> {
    let path = path.into();
    // The whole file system is refused as such, and every path is in it.
    fs::canonicalize(path).ok().filter(|path| path != Path::new("/"))
}

/// The homes of people and of root, and the runner's own wherever it is.
fn homes() -> Vec<PathBuf> {
    let mut accounts = String::new();
    if let Ok(file) = fs::File::open("/etc/passwd") {
        // Without the list there are still `/home` and our own home.
        let _ = file.take(MAX_ACCOUNTS).read_to_string(&mut accounts);
    }
    let of_people = accounts.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let uid: u32 = fields.nth(2)?.parse().ok()?;
        let home = fields.nth(2)?;
        (uid == 0 || uid >= FIRST_USER).then(|| PathBuf::from(home))
    });
    of_people.chain(var_os("HOME").map(PathBuf::from)).filter(|home| home.is_absolute()).filter_map(real).collect()
}

/// What Ringfence itself keeps: as `image::Store::of_user` and the command's `receipts` and `registry` place it.
fn own_places() -> Vec<(PathBuf, &'static str)> {
    let absolute = |name: &str| var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let under = |variable: &str, usual: &str| {
        absolute(variable).or_else(|| var_os("HOME").map(|home| PathBuf::from(home).join(usual)))
    };
    let named = |name: &str| var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    [
        (under("XDG_CONFIG_HOME", ".config").map(|path| path.join("ringfence")), "Ringfence's configuration"),
        (named("RINGFENCE_SIGNING_KEY"), "the key that signs receipts"),
        (named("RINGFENCE_STORE"), "the store of images"),
        (Some("/var/lib/ringfence".into()), "the store of images"),
        (under("XDG_DATA_HOME", ".local/share").map(|path| path.join("ringfence")), "the store of images"),
        (crate::registry::place().ok(), "where running sandboxes are reached"),
    ]
    .into_iter()
    .filter_map(|(place, what)| Some((real(place?)?, what)))
    .collect()
}
