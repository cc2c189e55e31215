//! Images from every source, against a real Debian and a real Docker daemon. Run by `./test.sh docker`, which starts one.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod configuration;
mod debian;
mod docker;
mod layers;
mod listing;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::common::{Registry, layout};
use listing::{Engine, SCRIPT, assert_same};

/// What every test starts from. It is imported into the daemon as `debian:own`.
struct Base {
    place: tempfile::TempDir,
    root: PathBuf,
}

const TAG: &str = "debian:own";
const FILE: &str = "debian.tar";

static BASE: LazyLock<Base> = LazyLock::new(|| {
    // Nothing ends a static: the lane removes the directory that it names in TMPDIR.
    let place = tempfile::tempdir().unwrap();
    let root = debian::root();
    let file = place.path().join(FILE);
    debian::layer(&root, &file);
    docker::import(&file, TAG);
    Base { place, root }
});

/// What the command writes, run in a sandbox with a store in `place`.
fn sandboxed(place: &Path, image: &str, options: &[&str], command: &[&str]) -> Vec<u8> {
    let arguments = [&["run", "--profile", "T0.H1.N2", "--image", image][..], options].concat();
    let command = if command.is_empty() { vec![] } else { [&["--"], command].concat() };
    docker::output(crate::common::command(place).args(arguments).args(command))
}

/// The tree that a sandbox shows.
fn listed(place: &Path, image: &str, compared: &[Engine]) -> Vec<String> {
    let output = sandboxed(place, image, &["--no-entrypoint", "--user", "0"], &["sh", "-c", SCRIPT]);
    listing::read(&output, compared)
}

#[test]
fn a_debian_is_the_same_from_every_source() {
    let place = BASE.place.path();
    let compared = [Engine::None, Engine::Ringfence];
    let expected = docker::output(Command::new("chroot").arg(&BASE.root).args(["sh", "-c", SCRIPT]));
    let expected = listing::read(&expected, &compared);
    for line in
        ["./odd/setuid f 4755 0:0", "./odd/of-nobody f 0 65534:65534", "./odd/closed/inside f", "user.bytes=0x00ff0a"]
    {
        assert!(expected.iter().any(|known| known.contains(line)), "{line}");
    }
    let path = layout(place, &[FILE], "{}");
    let saved = place.join("saved.tar");
    docker::save(TAG, &saved);
    let registry = Registry::serve(&path);
    for (number, source) in [
        format!("dir:{}", BASE.root.display()),
        format!("oci:{}", path.display()),
        format!("archive:{}", saved.display()),
        format!("docker:{TAG}"),
        registry.name.clone(),
    ]
    .iter()
    .enumerate()
    {
        // A store each: a layer that one source brought would serve for all the others.
        let store = place.join(number.to_string());
        assert_same(source, &listed(&store, source, &compared), &expected);
    }
    assert_eq!(registry.asked(), 3, "a manifest, a configuration and a layer");
}
