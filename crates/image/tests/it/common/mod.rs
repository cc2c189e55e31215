//! Archives by hand, good and bad.

#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part; a test may stop at its own set-up")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use image::{Digest, Image, ImageError, Limits, Source, Store};

/// One member of an archive.
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: tar::EntryType,
    pub(crate) link: &'a str,
    pub(crate) content: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) owner: u64,
    pub(crate) extended: Vec<(&'a str, &'a [u8])>,
}

pub(crate) fn member(name: &str, kind: tar::EntryType) -> Member<'_> {
    Member { name, kind, link: "", content: b"", mode: 0o755, owner: 0, extended: Vec::new() }
}

pub(crate) fn file<'a>(name: &'a str, content: &'a [u8]) -> Member<'a> {
    Member { content, mode: 0o644, ..member(name, tar::EntryType::Regular) }
}

pub(crate) fn directory(name: &str) -> Member<'_> {
    member(name, tar::EntryType::Directory)
}

pub(crate) fn symlink<'a>(name: &'a str, link: &'a str) -> Member<'a> {
    Member { link, ..member(name, tar::EntryType::Symlink) }
}

pub(crate) fn hard_link<'a>(name: &'a str, link: &'a str) -> Member<'a> {
    Member { link, ..member(name, tar::EntryType::Link) }
}

/// Names are written as they are: the library would refuse some of them.
fn raw(field: &mut [u8], text: &str) {
    field[..text.len()].copy_from_slice(text.as_bytes());
}

pub(crate) fn archive(members: &[Member<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for member in members {
        if !member.extended.is_empty() {
            builder.append_pax_extensions(member.extended.iter().map(|(key, value)| (*key, *value))).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        raw(&mut header.as_old_mut().name, member.name);
        raw(&mut header.as_old_mut().linkname, member.link);
        header.set_entry_type(member.kind);
        header.set_size(u64::try_from(member.content.len()).unwrap());
        header.set_mode(member.mode);
        header.set_uid(member.owner);
        header.set_gid(member.owner);
        header.set_mtime(1_700_000_000);
        header.set_cksum();
        builder.append(&header, member.content).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn configuration(layers: &[Vec<u8>], config: &str) -> String {
    let ids: Vec<String> = layers.iter().map(|layer| format!("\"{}\"", Digest::of(layer))).collect();
    format!(
        r#"{{"architecture":"amd64","os":"linux","config":{config},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        ids.join(",")
    )
}

/// Writes an OCI layout of these layers, gzipped; returns its directory.
pub(crate) fn layout(root: &Path, layers: &[Vec<u8>], config: &str) -> PathBuf {
    let path = root.join("layout");
    let blobs = path.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let blob = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        std::fs::write(blobs.join(digest.hex()), bytes).unwrap();
        format!(r#""digest":"{digest}","size":{}"#, bytes.len())
    };
    let described: Vec<String> = layers
        .iter()
        .map(|layer| format!(r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",{}}}"#, blob(&gzip(layer))))
        .collect();
    let config = blob(configuration(layers, config).as_bytes());
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json",{config}}},"layers":[{}]}}"#,
        described.join(",")
    );
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json",{},"annotations":{{"org.opencontainers.image.ref.name":"one"}}}}]}}"#,
        blob(manifest.as_bytes())
    );
    std::fs::write(path.join("index.json"), index).unwrap();
    std::fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    path
}

/// Writes a file as `docker save` does.
pub(crate) fn docker_archive(root: &Path, layers: &[Vec<u8>], config: &str) -> PathBuf {
    let written = configuration(layers, config);
    let names: Vec<String> = (0..layers.len()).map(|number| format!("layer{number}/layer.tar")).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let manifest = format!(r#"[{{"Config":"config.json","RepoTags":["demo:1"],"Layers":[{}]}}]"#, quoted.join(","));
    let mut members = vec![file("config.json", written.as_bytes()), file("manifest.json", manifest.as_bytes())];
    members.extend(names.iter().zip(layers).map(|(name, layer)| file(name, layer)));
    let path = root.join("saved.tar");
    std::fs::write(&path, archive(&members)).unwrap();
    path
}

/// A store with one layer imported from a layout, and where that layer is.
pub(crate) struct Imported {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) result: Result<Image, ImageError>,
}

pub(crate) fn import_with(layers: &[Vec<u8>], limits: Limits) -> Imported {
    let directory = tempfile::tempdir().unwrap();
    let path = layout(directory.path(), layers, "{}");
    let store = Store::open(&directory.path().join("store")).unwrap().with_limits(limits);
    let result = image::import(&store, &Source::Layout(path, None), &());
    Imported { directory, store, result }
}

pub(crate) fn import(layers: &[Vec<u8>]) -> Imported {
    import_with(layers, Limits::default())
}

impl Imported {
    /// The directories of its layers, top first.
    pub(crate) fn layers(&self) -> Vec<PathBuf> {
        self.store.use_image(self.result.as_ref().unwrap()).unwrap().layers
    }

    /// Nothing of it is kept.
    pub(crate) fn is_empty(&self) -> bool {
        let store = self.directory.path().join("store");
        ["layers", "images", "names", "work"]
            .iter()
            .all(|part| std::fs::read_dir(store.join(part)).unwrap().next().is_none())
    }
}
