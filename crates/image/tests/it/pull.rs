//! A pulled image is the same as one that was imported; a broken one leaves nothing. The client itself is tested in its
//! own crate, against a stricter server.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::common::{archive, docker_archive, file, layout};
use image::{Progress, Source, Step, Store};
use registry::{Credentials, Registry};

/// Serves a layout as the repository `demo` with the tag `1`; `break_blobs` cuts the end off every layer.
fn serve(layout: &Path, break_blobs: bool) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let blobs = layout.join("blobs/sha256");
    let index: String = std::fs::read_to_string(layout.join("index.json")).unwrap();
    let manifest = index.split("\"digest\":\"sha256:").nth(1).unwrap()[..64].to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, blobs, manifest) = (stream.unwrap(), blobs.clone(), manifest.clone());
            std::thread::spawn(move || answer(&mut stream, &blobs, &manifest, break_blobs));
        }
    });
    format!("localhost:{}/demo:1", address.port())
}

fn answer(stream: &mut std::net::TcpStream, blobs: &Path, manifest: &str, break_blobs: bool) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (name, kind): (PathBuf, &str) = match path.strip_prefix("/v2/demo/") {
        Some("manifests/1") => (blobs.join(manifest), "application/vnd.oci.image.manifest.v1+json"),
        Some(blob) if blob.starts_with("blobs/sha256:") => (blobs.join(&blob[13..]), "application/octet-stream"),
        _ => (PathBuf::from("/nonexistent"), "text/plain"),
    };
    let Ok(mut bytes) = std::fs::read(name) else {
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    };
    let length = bytes.len();
    if break_blobs && bytes.starts_with(&[0x1f, 0x8b]) {
        bytes.truncate(length / 2);
    }
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
}

#[tokio::test]
async fn a_pulled_image_is_the_same_as_an_imported_one() {
    let place = tempfile::tempdir().unwrap();
    let layers = [archive(&[file("a", b"one")]), archive(&[file("b", b"two"), file(".wh.a", b"")])];
    let path = layout(place.path(), &layers, r#"{"User":"7"}"#);
    let imported =
        image::import(&Store::open(&place.path().join("x")).unwrap(), &Source::Layout(path.clone(), None), &());
    let store = Store::open(&place.path().join("y")).unwrap();
    let client = Registry::new(Credentials::none()).unwrap();
    let name = serve(&path, false);
    let pulled = image::pull(&store, &client, &name, &()).await.unwrap();
    assert_eq!(pulled, imported.unwrap());
    assert_eq!(store.find(&name).unwrap(), pulled);
    assert_eq!(store.use_image(&pulled).unwrap().layers.len(), 2);
}

#[tokio::test]
async fn a_truncated_blob_keeps_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = layout(place.path(), &[archive(&[file("a", &vec![7; 50_000])])], "{}");
    let store = Store::open(&place.path().join("store")).unwrap();
    let client = Registry::new(Credentials::none()).unwrap();
    let error = image::pull(&store, &client, &serve(&path, true), &()).await.unwrap_err();
    assert!(matches!(error, image::ImageError::Pull(_)), "{error:?}");
    assert!(store.list().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(place.path().join("store/layers")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(place.path().join("store/work")).unwrap().count(), 0);
}

/// Every step, with its bytes and how far it came.
#[derive(Default)]
struct Heard(Mutex<Vec<(Step, Option<u64>, u64)>>);

impl Progress for Heard {
    fn begin(&self, step: Step, bytes: Option<u64>) {
        self.0.lock().unwrap().push((step, bytes, 0));
    }

    fn done(&self, bytes: u64) {
        let mut heard = self.0.lock().unwrap();
        let (_, _, done) = heard.last_mut().unwrap();
        assert!(*done <= bytes);
        *done = bytes;
    }
}

#[tokio::test]
async fn progress_is_told_in_bytes_to_the_last_one() {
    let place = tempfile::tempdir().unwrap();
    let layers = [archive(&[file("a", &vec![7; 3_000_000])]), archive(&[file("b", b"two")])];
    let path = layout(place.path(), &layers, "{}");
    let client = Registry::new(Credentials::none()).unwrap();
    let store = |name: &str| Store::open(&place.path().join(name)).unwrap();
    let steps = |heard: Heard| {
        let heard = heard.0.into_inner().unwrap();
        // What marks the end of a tar file need not be read.
        let end = |step: &Step| if *step == Step::Reading { 1024 } else { 0 };
        assert!(heard.iter().all(|(step, bytes, done)| bytes.unwrap() - done <= end(step)), "{heard:?}");
        heard.into_iter().map(|(step, ..)| step).collect::<Vec<_>>()
    };
    let heard = Heard::default();
    image::pull(&store("pulled"), &client, &serve(&path, false), &heard).await.unwrap();
    let expected = [Step::Fetching(1, 2), Step::Unpacking(1, 2), Step::Fetching(2, 2), Step::Unpacking(2, 2)];
    assert_eq!(steps(heard), expected);
    let heard = Heard::default();
    image::import(&store("layout"), &Source::Layout(path, None), &heard).unwrap();
    assert_eq!(steps(heard), [Step::Unpacking(1, 2), Step::Unpacking(2, 2)]);
    let heard = Heard::default();
    let saved = docker_archive(place.path(), &layers, "{}");
    image::import(&store("saved"), &Source::Archive(saved, None), &heard).unwrap();
    assert_eq!(steps(heard), [Step::Reading, Step::Unpacking(1, 2), Step::Unpacking(2, 2)]);
}
