//! Images built by a daemon, of a directory with a Dockerfile.

use std::io::{self, Write};
use std::path::Path;

use bollard::query_parameters::BuildImageOptions;
use bytes::Bytes;
use futures_util::stream;
use strangers::Shown;
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::error::{DockerError, chain};
use crate::ignored::Ignored;
use crate::images::{CheckedBuild, Local, Pull};

/// The most of one archive that is under way.
const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 16;
/// The deepest directory that is sent.
const MAX_DEPTH: usize = 128;
/// What instructions that are in no file are called in the archive.
const INLINE: &str = ".ringfence.dockerfile";

impl Engine {
    /// Builds an image by the daemon's own builder. `progress` is told what happens, a line at a time.
    pub async fn build(
        &self,
        CheckedBuild(build): &CheckedBuild,
        pull: Pull,
        progress: &mut dyn FnMut(String),
    ) -> Result<Local, DockerError> {
        let shown = build.directory.display().to_string();
        let failed = |why: String| DockerError::Build { directory: shown.clone(), why: Shown::new(&why) };
        let unread = |source| DockerError::Context { directory: shown.clone(), source };
        let ignored = Ignored::read(&build.directory, &build.dockerfile).map_err(unread)?;
        if build.inline.is_none() && !build.directory.join(&build.dockerfile).is_file() {
            return Err(failed(format!("there is no {} in it", build.dockerfile)));
        }
        let options = BuildImageOptions {
            dockerfile: if build.inline.is_some() { INLINE.to_owned() } else { build.dockerfile.clone() },
            buildargs: (!build.arguments.is_empty()).then(|| build.arguments.clone().into_iter().collect()),
            target: build.target.clone().unwrap_or_default(),
            nocache: build.no_cache,
            networkmode: build.without_network.then(|| "none".to_owned()),
            rm: true,
            forcerm: true,
            pull: (pull == Pull::Always).then(|| "true".to_owned()),
            platform: build.platform.clone().unwrap_or_default(),
            ..BuildImageOptions::default()
        };
        let logins = self.logins(build).await;
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let (directory, inline) = (build.directory.clone(), build.inline.clone());
        let packing =
            tokio::task::spawn_blocking(move || pack(&directory, &ignored, inline.as_deref(), Chunks::new(sender)));
        let chunks = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
        let body = bollard::body_try_stream(chunks);
        let mut lines = Box::pin(self.client().build_image(options, logins, Some(body)));
        let mut id = None;
        let deadline = self.patience().build;
        let end = tokio::time::Instant::now() + deadline;
        let hangs = |_| {
            let endpoint = self.endpoint().to_string();
            Err(DockerError::Hangs { call: "build image", endpoint, deadline })
        };
        loop {
            let next = tokio::time::timeout_at(end, self.next("build image", &mut lines)).await;
            let line = match next.unwrap_or_else(hangs) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                // What it says of the build itself.
                Err(DockerError::Unreachable { why, .. }) => return Err(failed(why.as_str().to_owned())),
                Err(error) => return Err(error),
            };
            if let Some(error) = line.error_detail {
                return Err(failed(error.message.unwrap_or_default()));
            }
            if let Some(text) = line.stream.or(line.status).filter(|text| !text.trim().is_empty()) {
                progress(Shown::new(&text).as_str().to_owned());
            }
            id = line.aux.and_then(|aux| aux.id).or(id);
        }
        match packing.await {
            Ok(Ok(())) => {}
            Ok(Err(source)) => return Err(unread(source)),
            Err(error) => return Err(failed(chain(&error))),
        }
        let id = id.ok_or_else(|| failed("it ended without an image".into()))?;
        self.image(&id, Pull::Never, &mut |_| ()).await
    }
}

/// Writes a directory as an archive: files, directories and links, and nothing else.
fn pack(directory: &Path, ignored: &Ignored, inline: Option<&str>, to: Chunks) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    if let Some(text) = inline {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(u64::try_from(text.len()).unwrap_or(u64::MAX));
        archive.append_data(&mut header, INLINE, text.as_bytes())?;
    }
    let mut open = vec![(String::new(), 0)];
    while let Some((name, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!("{name} is too deep")));
        }
        let mut entries = std::fs::read_dir(directory.join(&name))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let own = entry
                .file_name()
                .into_string()
                .map_err(|name| io::Error::other(format!("{} is not UTF-8", name.display())))?;
            let path = if name.is_empty() { own } else { format!("{name}/{own}") };
            let kind = entry.file_type()?;
            let kept = !ignored.covers(&path);
            if kept && (kind.is_file() || kind.is_symlink() || kind.is_dir()) {
                archive.append_path_with_name(entry.path(), &path)?;
            }
            if kind.is_dir() && (kept || ignored.has_exceptions()) {
                open.push((path, depth + 1));
            }
        }
    }
    archive.into_inner()?.flush()
}

/// Hands what is written on, in pieces, to whoever sends it.
struct Chunks {
    to: mpsc::Sender<io::Result<Bytes>>,
    kept: Vec<u8>,
}

impl Chunks {
    fn new(to: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self { to, kept: Vec::with_capacity(CHUNK) }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.kept.extend_from_slice(bytes);
        if self.kept.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = Bytes::from(std::mem::take(&mut self.kept));
        // Whoever built has ended: so do we.
        self.to.blocking_send(Ok(bytes)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_is_packed_without_what_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::create_dir(at("secret")).unwrap();
        for name in ["Dockerfile", "a/b/file", "a/x.log", "secret/key", "secret/shown"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        std::fs::write(at(".dockerignore"), "# ours\nsecret\n!secret/shown\n**/*.log\nDockerfile\n").unwrap();
        let ignored = Ignored::read(place.path(), "Dockerfile").unwrap();
        let (sender, mut receiver) = mpsc::channel(CHUNKS);
        let directory = place.path().to_owned();
        let packing = tokio::task::spawn_blocking(move || pack(&directory, &ignored, None, Chunks::new(sender)));
        let mut bytes = Vec::new();
        while let Some(chunk) = receiver.recv().await {
            bytes.extend(chunk.unwrap());
        }
        packing.await.unwrap().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut names: Vec<(String, u8)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().display().to_string(), entry.header().entry_type().as_byte())
            })
            .collect();
        names.sort();
        let expected = [
            (".dockerignore", b'0'),
            ("Dockerfile", b'0'),
            ("a", b'5'),
            ("a/b", b'5'),
            ("a/b/file", b'0'),
            ("link", b'2'),
            ("secret/shown", b'0'),
        ];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}
