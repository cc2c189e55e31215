//! What tests of images share: the command with a store of its own, layouts, and a registry on loopback.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test program uses a part; a test may stop at its own set-up, and says its seed"
)]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use image::Digest;

pub(crate) mod evaluation;
pub(crate) mod logs;
pub(crate) mod planted;
pub(crate) mod terminal;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The command: this build's, or the one that a lane points to. Its store is in `place`.
pub(crate) fn command(place: &Path) -> Command {
    let program =
        std::env::var_os("RINGFENCE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_ringfence")), PathBuf::from);
    let mut command = Command::new(program);
    command.env("RINGFENCE_STORE", place.join("store"));
    // Whoever runs the tests may have a key of their own.
    command.env("XDG_CONFIG_HOME", place.join("config")).env_remove("RINGFENCE_SIGNING_KEY");
    command
}

pub(crate) fn ringfence(place: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = command(place).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn sh(directory: &Path, script: &str) {
    let status = Command::new("sh").args(["-euc", script]).current_dir(directory).status().unwrap();
    assert!(status.success(), "{script}");
}

/// An image's configuration; `config` is what it says about running it.
pub(crate) fn configuration(layers: &[Digest], config: &str) -> String {
    let own = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let ids: Vec<String> = layers.iter().map(|digest| format!("\"{digest}\"")).collect();
    let ids = ids.join(",");
    format!(
        r#"{{"architecture":"{own}","os":"linux","config":{config},"rootfs":{{"type":"layers","diff_ids":[{ids}]}}}}"#
    )
}

/// Writes an OCI layout of these files of `place`, compressed, as `place/layout`.
pub(crate) fn layout(place: &Path, layers: &[&str], config: &str) -> PathBuf {
    let path = place.join("layout");
    let blobs = path.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let blob = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        std::fs::write(blobs.join(digest.hex()), bytes).unwrap();
        format!(r#""digest":"{digest}","size":{}"#, bytes.len())
    };
    let (mut described, mut ids) = (Vec::new(), Vec::new());
    for layer in layers {
        ids.push(Digest::of(&std::fs::read(place.join(layer)).unwrap()));
        let packed = Command::new("gzip").args(["-1nc", layer]).current_dir(place).output().unwrap();
        assert!(packed.status.success());
        let described_by = blob(&packed.stdout);
        described.push(format!(r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",{described_by}}}"#));
    }
    let config = blob(configuration(&ids, config).as_bytes());
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json",{config}}},"layers":[{}]}}"#,
        described.join(",")
    );
    let manifest = blob(manifest.as_bytes());
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json",{manifest}}}]}}"#
    );
    std::fs::write(path.join("index.json"), index).unwrap();
    std::fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    path
}

/// A registry on loopback with one image, that counts what it is asked. It lives as long as the test program.
pub(crate) struct Registry {
    /// What the image is called.
    pub(crate) name: String,
    asked: Arc<AtomicUsize>,
}

impl Registry {
    /// Serves a layout as the repository `demo` with the tag `1`.
    pub(crate) fn serve(layout: &Path) -> Self {
        Self::serve_to(layout, None)
    }

    /// The same for who sends these words behind `Authorization:` only.
    pub(crate) fn serve_to(layout: &Path, who: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("localhost:{}/demo:1", listener.local_addr().unwrap().port());
        let asked = Arc::new(AtomicUsize::new(0));
        let (blobs, count) = (layout.join("blobs/sha256"), Arc::clone(&asked));
        let index = std::fs::read_to_string(layout.join("index.json")).unwrap();
        let manifest = index.split("\"digest\":\"sha256:").nth(1).unwrap()[..64].to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, blobs, manifest) = (stream.unwrap(), blobs.clone(), manifest.clone());
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || answer(&mut stream, &blobs, &manifest, who));
            }
        });
        Self { name, asked }
    }

    /// How often it was asked since the last time.
    pub(crate) fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

/// One request, one answer.
fn answer(stream: &mut TcpStream, blobs: &Path, manifest: &str, who: Option<&str>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let said = head.lines().find_map(|line| {
        line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("authorization")).map(|(_, said)| said)
    });
    if who.is_some() && who != said {
        let _ = stream.write_all(
            b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"demo\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        return;
    }
    let is_head = head.starts_with("HEAD ");
    let path = head.split(' ').nth(1).unwrap_or_default();
    if path == "/v2/" {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    let path = path.strip_prefix("/v2/demo/").unwrap_or_default();
    let (file, kind) = match path.split_once('/') {
        Some(("manifests", name)) if name == "1" || name == format!("sha256:{manifest}") => {
            (blobs.join(manifest), "application/vnd.oci.image.manifest.v1+json")
        }
        Some(("blobs", digest)) => (blobs.join(digest.trim_start_matches("sha256:")), "application/octet-stream"),
        _ => (PathBuf::from("/nonexistent"), ""),
    };
    let Ok(mut file) = std::fs::File::open(file) else {
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    };
    let length = file.metadata().unwrap().len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    if is_head {
        let _ = stream.write_all(head.as_bytes());
        return;
    }
    let _ = stream.write_all(head.as_bytes()).and_then(|()| std::io::copy(&mut file, stream).map(drop));
}
