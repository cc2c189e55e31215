//! The store: the same from every source, shared, crash-safe, collected.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::common::{Member, archive, directory, docker_archive, file, hard_link, import, layout, symlink};
use image::{Digest, ImageError, Limits, Source, Store};

fn layers() -> Vec<Vec<u8>> {
    vec![
        archive(&[
            directory("etc"),
            Member { owner: 42, mode: 0o640, ..file("etc/shadow", b"secret") },
            file("etc/removed", b"x"),
            directory("var/cache"),
            file("var/cache/old", b"x"),
            Member {
                extended: vec![("SCHILY.xattr.user.note", b"hi"), ("mtime", b"1600000000.5")],
                ..file("noted", b"y")
            },
            hard_link("linked", "noted"),
            symlink("soft", "etc/shadow"),
        ]),
        archive(&[file("etc/.wh.removed", b""), file("var/cache/.wh..wh..opq", b""), file("var/cache/new", b"z")]),
    ]
}

const CONFIG: &str = r#"{"Env":["A=b"],"User":"42","WorkingDir":"/etc","Entrypoint":["/bin/sh"],"Cmd":["-c","true"]}"#;

/// Everything about a tree that an image says.
fn describe(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let mut names = vec![0; 4096];
        let count = if metadata.is_symlink() { 0 } else { rustix::fs::listxattr(&path, &mut names[..]).unwrap() };
        let content =
            if metadata.is_file() { Digest::of(&std::fs::read(&path).unwrap()).to_string() } else { String::new() };
        lines.push(format!(
            "{} {:o} {}:{} {} {} {} {} {}",
            path.strip_prefix(root).unwrap().display(),
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            if metadata.is_dir() && path == root { 0 } else { metadata.mtime() },
            metadata.nlink(),
            std::fs::read_link(&path).unwrap_or_default().display(),
            String::from_utf8_lossy(&names[..count]),
            content
        ));
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    lines.sort();
    lines
}

#[test]
fn every_source_gives_the_same_trees() {
    let place = tempfile::tempdir().unwrap();
    let sources = [
        Source::Layout(layout(place.path(), &layers(), CONFIG), None),
        Source::Archive(docker_archive(place.path(), &layers(), CONFIG), None),
    ];
    let mut seen = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let store = Store::open(&place.path().join(format!("store{number}"))).unwrap();
        // Seconds apart, as on two machines.
        std::thread::sleep(std::time::Duration::from_millis(1100 * number as u64));
        let image = image::import(&store, source, &()).unwrap();
        assert_eq!(image.config.entrypoint, ["/bin/sh"]);
        assert_eq!(image.config.user.as_deref(), Some("42"));
        let trees: Vec<_> = store.use_image(&image).unwrap().layers.iter().map(|path| describe(path)).collect();
        seen.push((image.layers, image.config, trees));
    }
    assert_eq!(seen[0], seen[1]);
    // What the archive gives no time has none of ours, else two machines would have two trees.
    assert!(seen[0].2[1].iter().any(|line| line.starts_with("var 40755") && line.contains(" 0 3 ")), "{:?}", seen[0].2);
    let text = seen[0].2.concat().join("\n");
    assert!(text.contains("noted 100644") && text.contains(" 1600000000 2 ") && text.contains("user.note"), "{text}");
    assert!(text.contains("etc/removed 20000"), "a whiteout: {text}");
    if rustix::process::geteuid().is_root() {
        assert!(text.contains("etc/shadow 100640 42:42"), "{text}");
    }
}

#[test]
fn closed_directories_are_unpacked_by_anybody() {
    let closed = |name, mode| Member { mode, ..directory(name) };
    let imported = import(&[archive(&[
        closed("usr", 0o555),
        closed("usr/bin", 0o555),
        file("usr/bin/tool", b"x"),
        closed("none", 0o000),
        closed("none/inner", 0o1000),
        closed("twice", 0o700),
        closed("twice", 0o2511),
    ])]);
    let root = &imported.layers()[0];
    let mode = |name: &str| std::fs::symlink_metadata(root.join(name)).unwrap().mode() & 0o7777;
    assert_eq!(["usr", "usr/bin", "none", "twice"].map(mode), [0o555, 0o555, 0o000, 0o2511]);
    let time = |name: &str| std::fs::symlink_metadata(root.join(name)).unwrap().mtime();
    assert_eq!(["usr", "usr/bin", "none", "twice"].map(time), [1_700_000_000; 4]);
    std::fs::set_permissions(root.join("none"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(mode("none/inner"), 0o1000);
}

#[test]
fn a_wrong_digest_keeps_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = layout(place.path(), &layers(), CONFIG);
    let store = Store::open(&place.path().join("store")).unwrap();
    // A blob that was changed: by one bit, at its end.
    let blobs = path.join("blobs/sha256");
    let largest = std::fs::read_dir(&blobs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.metadata().unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&largest, bytes).unwrap();
    let error = image::import(&store, &Source::Layout(path, None), &()).unwrap_err();
    assert!(matches!(error, ImageError::Mismatch { .. }), "{error:?}");
    assert!(error.hint().is_some());
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn layers_are_shared_and_collected_when_nobody_needs_them() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&place.path().join("store")).unwrap();
    let both = layers();
    let first =
        image::import(&store, &Source::Layout(layout(&place.path().join("a"), &both, "{}"), None), &()).unwrap();
    let second =
        image::import(&store, &Source::Layout(layout(&place.path().join("b"), &both[..1], "{}"), None), &()).unwrap();
    assert_eq!(first.layers[0], second.layers[0]);
    let count = || std::fs::read_dir(place.path().join("store/layers")).unwrap().count();
    assert_eq!(count(), 3, "two of the archive's, and one for directories that the upper does not list");
    let names: Vec<String> = store.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let opened = store.use_image(&first).unwrap();
    store.remove(&names[0]).unwrap();
    assert_eq!(store.collect().unwrap().layers, 0, "in use");
    drop(opened);
    assert_eq!(store.collect().unwrap().layers, 2);
    assert_eq!(count(), 1, "the other image's stays");
    store.remove(&names[1]).unwrap();
    assert_eq!(store.collect().unwrap().layers, 1);
    assert!(store.find(&names[1]).is_err());
}

#[test]
fn importing_at_the_same_time_is_one_import() {
    let place = tempfile::tempdir().unwrap();
    let path = layout(place.path(), &layers(), CONFIG);
    let root = place.path().join("store");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let store = Store::open(&root).unwrap();
                let image = image::import(&store, &Source::Layout(path.clone(), None), &()).unwrap();
                assert_eq!(store.use_image(&image).unwrap().layers.len(), 3, "one for directories that are not listed");
            });
        }
    });
    assert_eq!(std::fs::read_dir(root.join("layers")).unwrap().count(), 3);
    assert_eq!(std::fs::read_dir(root.join("work")).unwrap().count(), 0);
}

/// Runs itself again as an importer that is killed at some moment.
#[test]
fn a_killed_import_leaves_nothing_half() {
    const INSIDE: &str = "RINGFENCE_TEST_IMPORT";
    if let Some(root) = std::env::var_os(INSIDE) {
        let root = Path::new(&root);
        let store = Store::open(&root.join("store")).unwrap();
        let _ = image::import(&store, &Source::Layout(root.join("layout"), None), &());
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..3000).map(|number| format!("d{}/f{number}", number % 50)).collect();
    let big = archive(&names.iter().map(|name| file(name, b"some content")).collect::<Vec<_>>());
    let expected = describe(&import(std::slice::from_ref(&big)).layers()[0]).len();
    layout(place.path(), &[big], "{}");
    let store = Store::open(&place.path().join("store")).unwrap();
    let mut begun = 0;
    for round in 0..12_u64 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::a_killed_import_leaves_nothing_half"])
            .env(INSIDE, place.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round * 9));
        child.kill().unwrap();
        child.wait().unwrap();
        let entries = |name: &str| std::fs::read_dir(place.path().join("store").join(name)).unwrap().count();
        begun += usize::from(entries("layers") + entries("work") > 0);
        // Whatever is named as a layer is whole.
        for entry in std::fs::read_dir(place.path().join("store/layers")).unwrap() {
            assert_eq!(describe(&entry.unwrap().path()).len(), expected);
        }
        store.collect().unwrap();
        assert_eq!(std::fs::read_dir(place.path().join("store/work")).unwrap().count(), 0);
    }
    assert!(begun > 0, "every import was killed before it wrote anything");
    let image = image::import(&store, &Source::Layout(place.path().join("layout"), None), &()).unwrap();
    assert_eq!(describe(&store.use_image(&image).unwrap().layers[0]).len(), expected);
}

#[test]
fn a_store_that_others_may_write_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("store");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert!(matches!(Store::open(&root), Err(ImageError::Store { .. })));
}

#[test]
fn sources_are_what_they_say() {
    let parsed = |text: &str| text.parse::<Source>().unwrap();
    assert_eq!(parsed("oci:/a/b"), Source::Layout("/a/b".into(), None));
    assert_eq!(parsed("oci:/a/b:one"), Source::Layout("/a/b".into(), Some("one".into())));
    assert_eq!(parsed("archive:x.tar"), Source::Archive("x.tar".into(), None));
    assert_eq!(parsed("docker:debian:12"), Source::Daemon("debian:12".into()));
    assert_eq!(parsed("debian:12"), Source::Name("debian:12".into()));
    assert_eq!(parsed("localhost:5000/a:b"), Source::Name("localhost:5000/a:b".into()));
    for text in ["host", "dir:/x", "oci:"] {
        assert!(text.parse::<Source>().is_err(), "{text}");
    }
    let place = tempfile::tempdir().unwrap();
    let path = layout(place.path(), &layers(), CONFIG);
    let store = Store::open(&place.path().join("store")).unwrap().with_limits(Limits::default());
    assert!(image::import(&store, &Source::Layout(path.clone(), Some("one".into())), &()).is_ok());
    let error = image::import(&store, &Source::Layout(path, Some("other".into())), &()).unwrap_err();
    assert!(matches!(error, ImageError::NoneFits { .. }));
}

/// Collects while a layer is unpacked: what has no name yet must stay.
struct Collector<'a>(&'a Store, std::cell::Cell<bool>);

impl image::Progress for Collector<'_> {
    fn begin(&self, _: image::Step, _: Option<u64>) {
        self.1.set(self.0.collect().unwrap().busy);
    }
    fn done(&self, _: u64) {}
}

#[test]
fn nothing_is_collected_while_somebody_imports() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&place.path().join("store")).unwrap();
    let source = Source::Layout(layout(place.path(), &layers(), CONFIG), None);
    let collector = Collector(&store, std::cell::Cell::new(false));
    let image = image::import(&store, &source, &collector).unwrap();
    assert!(collector.1.get());
    // Two, and one for the directories that they do not list.
    assert_eq!(store.use_image(&image).unwrap().layers.len(), 3);
    assert!(!store.collect().unwrap().busy);
}

/// Another user who may write to a directory above the store could put a store of their own in its place.
#[test]
fn a_store_below_a_directory_of_others_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let shared = place.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let mode = |mode: u32| std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
    let refused = |path: &Path| match Store::open(path) {
        Err(ImageError::Store { source, .. }) => source.kind() == std::io::ErrorKind::PermissionDenied,
        _ => false,
    };
    mode(0o777);
    assert!(refused(&shared.join("deep/store")));
    assert!(std::fs::read_dir(&shared).unwrap().next().is_none(), "nothing was made there");
    // Nor by a link that leads there, or that lies there.
    std::os::unix::fs::symlink("shared", place.path().join("link")).unwrap();
    assert!(refused(&place.path().join("link/store")));
    std::fs::create_dir(place.path().join("own")).unwrap();
    std::os::unix::fs::symlink("../own", shared.join("out")).unwrap();
    assert!(refused(&shared.join("out/store")));
    // Nor by a link to a link that lies there: neither end is theirs, the way between is.
    std::os::unix::fs::symlink("shared/out", place.path().join("first")).unwrap();
    assert!(refused(&place.path().join("first/store")));
    std::os::unix::fs::symlink("circle", place.path().join("circle")).unwrap();
    assert!(Store::open(&place.path().join("circle/store")).is_err(), "a link to itself ends");
    // As /tmp is: only owners rename what is theirs.
    mode(0o1777);
    Store::open(&shared.join("store")).unwrap();
    mode(0o755);
    Store::open(&shared.join("store")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&shared, Some(12_345), None).unwrap();
        assert!(refused(&shared.join("store")), "another user's");
    }
}
