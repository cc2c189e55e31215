//! Images of strangers: refused or harmless, bounded in time and disk, and nothing of a refused one is kept.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::common::{Member, archive, directory, file, hard_link, import, import_with, member, symlink};
use image::{ImageError, Limits};
use tar::EntryType;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Refused, with nothing kept; says why.
fn refused(members: &[Member<'_>]) -> String {
    let imported = import(&[archive(members)]);
    let error = imported.result.as_ref().unwrap_err();
    assert!(imported.is_empty());
    format!("{error}: {}", std::error::Error::source(error).map(ToString::to_string).unwrap_or_default())
}

#[test]
fn path_escape_by_name() {
    for name in ["../outside", "a/../../outside", "a/..", ".."] {
        assert!(refused(&[file(name, b"x")]).contains("leads upwards"), "{name}");
    }
    // A leading slash is the image's own root, as everywhere.
    let imported = import(&[archive(&[file("/etc/inside", b"x")])]);
    assert!(imported.layers()[0].join("etc/inside").exists());
}

#[test]
fn path_escape_by_symlink() {
    let target = tempfile::tempdir().unwrap();
    let outside = target.path().to_str().unwrap();
    let members = [
        directory(outside),
        directory("tmp"),
        directory("proc/self/root"),
        symlink("link", outside),
        file("link/planted", b"x"),
        symlink("up", "../../../../../../../../tmp"),
        file("up/planted-too", b"x"),
        symlink("magic", "/proc/self/root"),
        file("magic/planted-three", b"x"),
    ];
    let imported = import(&[archive(&members)]);
    assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0, "nothing outside was written");
    assert!(!Path::new("/tmp/planted-too").exists() && !Path::new("/planted-three").exists());
    // Inside its own root the links lead where they say.
    let layer = &imported.layers()[0];
    assert!(layer.join(outside.trim_start_matches('/')).join("planted").exists());
    assert!(layer.join("tmp/planted-too").exists());
    assert!(layer.join("proc/self/root/planted-three").exists());
    // And one that leads nowhere inside is an error, not a way out.
    assert!(refused(&[symlink("link", outside), file("link/planted", b"x")]).contains("No such file"));
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_not_followed() {
    let target = tempfile::tempdir().unwrap();
    let victim = target.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let imported = import(&[archive(&[symlink("file", victim.to_str().unwrap()), file("file", b"theirs")])]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(imported.layers()[0].join("file")).unwrap(), "theirs");
}

#[test]
fn hard_link_escape() {
    assert!(refused(&[hard_link("passwd", "../../../../etc/passwd")]).contains("leads upwards"));
    assert!(refused(&[hard_link("passwd", "/etc/passwd")]).contains("No such file"));
    // A link through a link ends in the image's own root.
    assert!(
        refused(&[symlink("e", "/etc"), directory("etc"), hard_link("passwd", "e/passwd")]).contains("No such file")
    );
    let imported = import(&[archive(&[file("a", b"x"), hard_link("b", "a")])]);
    let layer = &imported.layers()[0];
    assert_eq!(std::fs::metadata(layer.join("a")).unwrap().ino(), std::fs::metadata(layer.join("b")).unwrap().ino());
}

#[test]
fn device_nodes_are_never_made() {
    let mut device = member("disk", EntryType::Block);
    device.mode = 0o666;
    let imported = import(&[archive(&[device, member("null", EntryType::Char), member("fifo", EntryType::Fifo)])]);
    let layer = &imported.layers()[0];
    assert!(!layer.join("disk").exists() && !layer.join("null").exists());
    assert!(std::fs::symlink_metadata(layer.join("fifo")).unwrap().file_type().is_fifo());
}

#[test]
fn setuid_is_kept_for_the_image_and_out_of_reach_for_others() {
    let program = Member { mode: 0o4755, ..file("su", b"#!") };
    let imported = import(&[archive(&[program])]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&imported.layers()[0].join("su")), 0o4755);
    assert_eq!(mode(&imported.directory.path().join("store")), 0o700, "nobody else comes near it");
}

#[test]
fn whiteout_tricks() {
    assert!(refused(&[file(".wh.", b"")]).contains("whiteout"));
    assert!(refused(&[file("a/.wh...", b"")]).contains("whiteout"));
    assert!(refused(&[file("a/.wh..", b"")]).contains("whiteout"));
    // A whiteout is no device that could be opened, and cannot be linked to.
    let imported = import(&[archive(&[directory("a"), file("a/.wh.gone", b""), file("b/.wh..wh..opq", b"")])]);
    let gone = std::fs::symlink_metadata(imported.layers()[0].join("a/gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    assert!(refused(&[file(".wh.gone", b""), hard_link("again", "gone")]).contains("removed"));
}

#[test]
fn attributes_that_steer_an_overlay_are_dropped() {
    let steering = Member {
        extended: vec![
            ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
            ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
            ("SCHILY.xattr.security.selinux", b"x"),
            ("SCHILY.xattr.user.kept", b"value"),
        ],
        ..file("f", b"")
    };
    let imported = import(&[archive(&[steering])]);
    let path = imported.layers()[0].join("f");
    let mut names = vec![0; 1000];
    let count = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
    assert_eq!(String::from_utf8_lossy(&names[..count]).trim_end_matches('\0'), "user.kept");
}

#[test]
fn owners_beyond_a_sandbox_are_refused() {
    if is_root() {
        assert!(refused(&[Member { owner: 70_000, ..file("f", b"") }]).contains("owner"));
    }
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let limits = Limits { bytes: 10 << 20, entries: 1000, ..Limits::default() };
    // Half a gigabyte of zeros in a few hundred kilobytes.
    let bomb = archive(&[file("zeros", &vec![0; 512 << 20])]);
    let imported = import_with(&[bomb], limits);
    let error = imported.result.as_ref().unwrap_err();
    assert!(
        matches!(error, ImageError::Layer { source, .. } if source.to_string().contains("larger than the limit")),
        "{error:?}"
    );
    assert!(imported.is_empty());
    let names: Vec<String> = (0..1001).map(|number| format!("f{number}")).collect();
    let many: Vec<Member<'_>> = names.iter().map(|name| file(name, b"")).collect();
    assert!(import_with(&[archive(&many)], limits).result.is_err());
}

#[test]
fn layers_that_are_small_each_and_large_together_are_refused() {
    let layer = |name: &str| archive(&[file(name, &[0; 4096]), file("other", b"")]);
    let layers = [layer("a"), layer("b"), layer("c")];
    let size = layers[0].len() as u64;
    let fits = Limits { image_bytes: 3 * size, image_entries: 6, ..Limits::default() };
    assert!(import_with(&layers, fits).result.is_ok());
    for limits in [Limits { image_bytes: 3 * size - 1, ..fits }, Limits { image_entries: 5, ..fits }] {
        let imported = import_with(&layers, limits);
        let error = imported.result.as_ref().unwrap_err();
        let why = format!("{error:?}");
        assert!(matches!(error, ImageError::Layer { .. }) && why.contains("the limit"), "{why}");
    }
}

#[test]
fn a_manifest_of_many_values_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = crate::common::layout(directory.path(), &[archive(&[file("a", b"")])], "{}");
    let many = "{\"digest\":\"\"},".repeat(200_000);
    std::fs::write(path.join("index.json"), format!("{{\"schemaVersion\":2,\"x\":[{many}0],\"manifests\":[]}}"))
        .unwrap();
    let store = image::Store::open(&directory.path().join("store")).unwrap();
    let error = image::import(&store, &image::Source::Layout(path, None), &()).unwrap_err();
    assert!(matches!(&error, ImageError::Malformed { why, .. } if why.contains("too many values")), "{error:?}");
}

#[test]
fn a_million_entries_are_refused_in_time() {
    let limits = Limits { entries: 20_000, ..Limits::default() };
    let mut builder = Vec::new();
    let one = archive(&[directory("d")]);
    // Without the two empty blocks at the end.
    for _ in 0..1_000_000 / 50 {
        for _ in 0..50 {
            builder.extend_from_slice(&one[..512]);
        }
    }
    builder.extend([0; 1024]);
    let start = std::time::Instant::now();
    let imported = import_with(&[builder], limits);
    assert!(imported.result.is_err() && imported.is_empty());
    assert!(start.elapsed() < std::time::Duration::from_mins(1), "{:?}", start.elapsed());
}

#[test]
fn a_name_without_end_is_refused_before_it_is_read() {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(7 << 30);
    header.set_path("././@LongLink").unwrap();
    header.set_cksum();
    let imported = import(&[header.as_bytes().to_vec()]);
    let error = imported.result.as_ref().unwrap_err();
    assert!(matches!(error, ImageError::Layer { source, .. } if source.to_string().contains("too long")), "{error:?}");
}

#[test]
fn odd_archives_are_errors() {
    let good = archive(&[file("f", b"content")]);
    for bytes in [b"no archive at all".to_vec(), good[..600].to_vec(), vec![0xff; 2048]] {
        let imported = import(&[bytes]);
        assert!(imported.result.is_err() && imported.is_empty(), "{:?}", imported.result);
    }
}
