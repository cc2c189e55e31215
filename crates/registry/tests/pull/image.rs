//! Images for a registry to have, and a client to pull them.

use std::fs::File;
use std::io::Read as _;
use std::sync::Mutex;
use std::time::Duration;

use registry::{Credentials, Descriptor, Digest, Platform, PullError, Reference, Registry, Resolved, Settings, Timing};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::server::{Access, Answer, Server};

pub(crate) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const ANY: &str = "*/*";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// The repository of all tests.
pub(crate) const REPOSITORY: &str = "team/tool";

/// An image: its manifest, and its blobs (the configuration first).
pub(crate) struct Image {
    pub(crate) media_type: &'static str,
    pub(crate) manifest: Vec<u8>,
    pub(crate) blobs: Vec<Vec<u8>>,
}

pub(crate) fn named(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() })
}

impl Image {
    /// An image with two layers; `what` makes it another one.
    pub(crate) fn new(what: &str) -> Self {
        Self::of(MANIFEST, CONFIG, LAYER, what)
    }

    /// The same as Docker writes it.
    pub(crate) fn docker(what: &str) -> Self {
        Self::of(
            "application/vnd.docker.distribution.manifest.v2+json",
            "application/vnd.docker.container.image.v1+json",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
            what,
        )
    }

    fn of(media_type: &'static str, config: &str, layer: &str, what: &str) -> Self {
        // Larger than one read of a socket, and of no even size.
        let large: Vec<u8> = format!("large {what}").into_bytes().into_iter().cycle().take(300_001).collect();
        let blobs = vec![format!("config of {what}").into_bytes(), format!("small {what}").into_bytes(), large];
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": named(config, &blobs[0]),
            "layers": [named(layer, &blobs[1]), named(layer, &blobs[2])],
        });
        Self { media_type, manifest: manifest.to_string().into_bytes(), blobs }
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    pub(crate) fn layer(&self, at: usize) -> Descriptor {
        let bytes = &self.blobs[at + 1];
        Descriptor { media_type: LAYER.to_owned(), digest: Digest::of(bytes), size: bytes.len().try_into().unwrap() }
    }

    /// Puts the image under a tag and its digest.
    pub(crate) fn put(&self, server: &Server, tag: &str, access: &Access) {
        for name in [tag.to_owned(), self.digest().to_string()] {
            server.expect(&manifest_of(&name), ACCEPT, access, [Answer::ok(self.media_type, &self.manifest)]);
        }
        for blob in &self.blobs {
            let answer = Answer::ok("application/octet-stream", blob);
            server.expect(&blob_of(&Digest::of(blob)), ANY, access, [answer]);
        }
    }
}

pub(crate) fn manifest_of(name: &str) -> String {
    format!("GET /v2/{REPOSITORY}/manifests/{name}")
}

pub(crate) fn blob_of(digest: &Digest) -> String {
    format!("GET /v2/{REPOSITORY}/blobs/{digest}")
}

pub(crate) fn reference(server: &Server, rest: &str) -> Reference {
    format!("{}/{REPOSITORY}{rest}", server.host).parse().unwrap()
}

/// An address at which nobody listens, for as long as the socket lives.
pub(crate) fn deserted() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

/// Patient, but quick to try again.
pub(crate) fn settings() -> Settings {
    let timing = Timing { backoff: Duration::from_millis(1), ..Timing::default() };
    Settings { timing, ..Settings::default() }
}

/// For servers that fall silent.
pub(crate) fn impatient() -> Settings {
    let short = Duration::from_millis(500);
    let timing = Timing { idle: short, document: 3 * short, backoff: Duration::from_millis(1), ..Timing::default() };
    Settings { timing, ..Settings::default() }
}

pub(crate) fn nobody() -> Registry {
    Registry::with_settings(Credentials::none(), settings()).unwrap()
}

pub(crate) async fn resolve(registry: &Registry, reference: &Reference) -> Result<Resolved, PullError> {
    registry.resolve(reference, &"linux/amd64".parse::<Platform>().unwrap()).await
}

/// Downloads a blob; what came and what was said of the progress.
pub(crate) async fn blob(
    registry: &Registry,
    reference: &Reference,
    descriptor: &Descriptor,
) -> Result<(Vec<u8>, Vec<u64>), PullError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let heard = Mutex::new(Vec::new());
    let progress = |bytes| heard.lock().unwrap().push(bytes);
    registry.blob(reference, descriptor, &mut file.reopen().unwrap(), &progress).await?;
    let mut bytes = Vec::new();
    File::open(file.path()).unwrap().read_to_end(&mut bytes).unwrap();
    Ok((bytes, heard.into_inner().unwrap()))
}

/// Pulls an image with all its blobs.
pub(crate) async fn pull(registry: &Registry, reference: &Reference) -> Result<(Resolved, Vec<Vec<u8>>), PullError> {
    let resolved = resolve(registry, reference).await?;
    let mut blobs = Vec::new();
    for descriptor in std::iter::once(&resolved.config).chain(&resolved.layers) {
        blobs.push(blob(registry, reference, descriptor).await?.0);
    }
    Ok((resolved, blobs))
}
