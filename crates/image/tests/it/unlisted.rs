//! Directories that a layer does not list are as they are below.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::common::{Imported, Member, archive, directory, file, import, symlink};
use image::Limits;

/// What the layer on top has, if there is one: path, mode, owner and time of every directory.
fn made(imported: &Imported) -> Vec<(String, u32, u32, i64)> {
    let image = imported.result.as_ref().unwrap();
    let layers = imported.layers();
    if image.directories.is_none() {
        assert_eq!(layers.len(), image.layers.len());
        return Vec::new();
    }
    assert_eq!(layers.len(), image.layers.len() + 1);
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![layers[0].clone()];
    while let Some(path) = open.pop() {
        for entry in std::fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_dir(), "{}", path.display());
            let name = path.strip_prefix(&layers[0]).unwrap().display().to_string();
            let owner = if rustix::process::geteuid().is_root() { metadata.uid() } else { 0 };
            found.push((name, metadata.mode() & 0o7777, owner, metadata.mtime()));
            open.push(path);
        }
    }
    found.sort();
    found
}

const LISTED: i64 = 1_700_000_000;

fn own(name: &str, mode: u32, owner: u64) -> Member<'_> {
    let owner = if rustix::process::geteuid().is_root() { owner } else { 0 };
    Member { mode, owner, ..directory(name) }
}

fn line(name: &str, mode: u32, owner: u32) -> (String, u32, u32, i64) {
    let owner = if rustix::process::geteuid().is_root() { owner } else { 0 };
    (name.to_owned(), mode, owner, LISTED)
}

#[test]
fn a_directory_that_a_layer_does_not_list_is_as_it_is_below() {
    let base = || archive(&[own("tmp", 0o1777, 0), own("home", 0o755, 0), own("home/app", 0o700, 42)]);
    // Brought by a file, emptied, brought by a whiteout, and through a layer between that does not list it either.
    let top = || archive(&[file("tmp/.wh..wh..opq", b""), file("tmp/x", b""), file("home/app/.wh.gone", b"")]);
    let expected = [line("home", 0o755, 0), line("home/app", 0o700, 42), line("tmp", 0o1777, 0)];
    assert_eq!(made(&import(&[base(), top()])), expected);
    assert_eq!(made(&import(&[base(), top(), archive(&[file("home/app/y", b"")])])), expected);
    // The attributes of users come along.
    let noted = Member { extended: vec![("SCHILY.xattr.user.note", b"kept")], ..directory("noted") };
    let imported = import(&[archive(&[noted]), archive(&[file("noted/x", b"")])]);
    let mut value = [0; 16];
    let count = rustix::fs::getxattr(imported.layers()[0].join("noted"), "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..count], b"kept");
}

#[test]
fn what_is_listed_or_not_below_is_left_alone() {
    let base = || archive(&[own("a", 0o700, 42), own("a/b", 0o711, 42), file("f", b""), symlink("s", "a")]);
    for top in [
        archive(&[own("a", 0o750, 7), file("a/x", b"")]),
        // Listed behind what is in it.
        archive(&[file("a/x", b""), own("a", 0o750, 7)]),
        archive(&[file("new/deep/x", b"")]),
        // Another thing than below.
        archive(&[file("f/x", b"")]),
        archive(&[file("s/x", b"")]),
        archive(&[file("a/.wh..wh..opq", b""), file("a/b/x", b""), own("a", 0o755, 0)]),
    ] {
        assert_eq!(made(&import(&[base(), top])), []);
    }
    // What was removed in between does not come back.
    assert_eq!(made(&import(&[base(), archive(&[file(".wh.a", b"")]), archive(&[file("a/b/x", b"")])])), []);
}

#[test]
fn directories_that_are_not_listed_count() {
    let name = "d/".repeat(40) + "f";
    let limits = Limits { entries: 30, ..Limits::default() };
    let imported = crate::common::import_with(&[archive(&[file(&name, b"")])], limits);
    assert!(imported.result.is_err() && imported.is_empty());
}

#[test]
fn the_layer_of_directories_is_the_same_on_every_machine() {
    let layers = [archive(&[own("a", 0o700, 42)]), archive(&[file("a/x", b"")])];
    let name = |imported: &Imported| imported.result.as_ref().unwrap().directories.clone();
    let first = import(&layers);
    let second = import(&layers);
    assert!(name(&first).is_some() && name(&first) == name(&second));
    let notes =
        |imported: &Imported| std::fs::read_dir(imported.directory.path().join("store/unlisted")).unwrap().count();
    assert_eq!(notes(&first), 1);
    let names = first.store.list().unwrap();
    first.store.remove(&names[0].0).unwrap();
    assert_eq!(first.store.collect().unwrap().layers, 3);
    assert_eq!(notes(&first), 0);
    assert!(Path::new(&first.directory.path().join("store/layers")).read_dir().unwrap().next().is_none());
}
