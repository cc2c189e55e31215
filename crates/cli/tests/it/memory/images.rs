//! Images of others.

use std::io::Write as _;
use std::path::Path;

use image::Digest;

use crate::common;
use crate::memory::limited::{ALLOWED, within};

/// Writes an archive of directories with these names.
fn directories(place: &Path, file: &str, names: impl Iterator<Item = String>) {
    let mut out = std::io::BufWriter::new(std::fs::File::create(place.join(file)).unwrap());
    let mut member = |name: &str, kind: u8, content: &str| {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[100..107].copy_from_slice(b"0000755");
        block[108..115].copy_from_slice(b"0000000");
        block[116..123].copy_from_slice(b"0000000");
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[136..147].copy_from_slice(b"00000000000");
        block[148..156].copy_from_slice(b"        ");
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar  \0");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.write_all(&block).unwrap();
        out.write_all(content.as_bytes()).unwrap();
        out.write_all(&vec![0; content.len().next_multiple_of(512) - content.len()]).unwrap();
    };
    for name in names {
        member("././@LongLink", b'L', &format!("{name}\0"));
        member("d", b'5', "");
    }
    out.write_all(&[0; 1024]).unwrap();
    out.flush().unwrap();
}

fn import(place: &Path, layers: &[&str]) -> (Option<i32>, String, String) {
    std::fs::create_dir_all(place.join("good")).unwrap();
    directories(&place.join("good"), "small", std::iter::once("a".to_owned()));
    let good = common::layout(&place.join("good"), &["small"], "{}");
    let bad = common::layout(place, layers, "{}");
    let [good, bad] = [good, bad].map(|layout| format!("oci:{}", layout.display()));
    within(place, (&["image", "import", &good], 0), &["image", "import", &bad], ALLOWED)
}

#[test]
fn a_layer_of_many_directories_with_long_names_is_unpacked_in_little_memory() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let above = vec!["d".repeat(200); 19].join("/");
    directories(place, "layer", (0..20_000).map(|number| format!("{above}/{number}")));
    let (code, out, messages) = import(place, &["layer"]);
    assert_eq!(code, Some(0), "{out}{messages}");
}

#[test]
fn a_layer_whose_directories_have_too_many_names_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    directories(place, "layer", (0..80_000).map(|number| format!("{number:0>250}")));
    let (code, out, messages) = import(place, &["layer"]);
    assert!(code.is_some_and(|code| code != 0), "{out}{messages}");
    assert!(messages.contains("than a layer may have"), "{messages}");
}

/// A layout with this manifest, and one whose index has the same values.
fn manifests(place: &Path, name: &str, values: &str) -> [String; 2] {
    let head = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","annotations":"#;
    let manifest = format!("{head}{values}}}");
    let digest = Digest::of(manifest.as_bytes());
    let described = format!(
        r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{digest}","size":{}}}"#,
        manifest.len()
    );
    let index = |described: &str| format!(r#"{{"schemaVersion":2,"manifests":{described}}}"#);
    let made = [("manifest", index(&format!("[{described}]"))), ("index", index(values))];
    made.map(|(kind, index)| {
        let layout = place.join(format!("{name}-{kind}"));
        std::fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
        std::fs::write(layout.join("blobs/sha256").join(digest.hex()), &manifest).unwrap();
        std::fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        std::fs::write(layout.join("index.json"), index).unwrap();
        format!("oci:{}", layout.display())
    })
}

#[test]
fn manifests_of_many_values_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let [good, _] = manifests(place, "good", "[0]");
    let good = ["image", "import", &good];
    for (number, part) in ["[],", "{\"\":0},"].into_iter().enumerate() {
        let values = format!("[{}0]", part.repeat((4 << 20) / part.len() - 100));
        for bad in manifests(place, &number.to_string(), &values) {
            let (code, out, messages) = within(place, (&good, 2), &["image", "import", &bad], ALLOWED);
            assert_eq!(code, Some(2), "{bad}: {out}{messages}");
            assert!(messages.contains("manifest is malformed: too many values"), "{bad}: {messages}");
        }
    }
}
