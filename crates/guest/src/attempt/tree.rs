//! Which names in `/` are whose, for both ends of a tree.

use wire::{ENGINE_DIRECTORIES, SYSTEM_DIRECTORIES};

/// Directories that a provider shows its own programs in.
const PROVIDERS_OWN: &[u8] = b".ringfence-";

/// The most characters of a path in a message: the reason must fit behind it.
const MAX_SHOWN: usize = 200;

/// A path from `/` for messages.
pub(super) fn shown<'a>(names: impl Iterator<Item = &'a [u8]>) -> String {
    let mut shown = String::new();
    for name in names {
        if shown.len() > MAX_SHOWN {
            return shown + "/…";
        }
        shown.push('/');
        shown.extend(String::from_utf8_lossy(name).chars().take(MAX_SHOWN));
    }
    shown
}

/// Whether programs are started from, loaded or read there by default.
pub(super) fn is_system(name: &[u8]) -> bool {
    SYSTEM_DIRECTORIES.iter().any(|known| known.as_bytes() == name)
}

/// Whether it is the kernel's or the provider's, and part of no tree.
pub(super) fn is_engines(name: &[u8]) -> bool {
    ENGINE_DIRECTORIES.iter().any(|known| known.as_bytes() == name) || name.starts_with(PROVIDERS_OWN)
}
