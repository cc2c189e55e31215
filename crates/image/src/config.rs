//! What an image says about running it.

use bounded::Budget;
use serde::{Deserialize, Serialize};

use crate::ImageError;
use crate::digest::Digest;
use crate::store::MAX_LAYERS;

/// What a command in the image finds unless it says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// `NAME=VALUE`.
    #[serde(default)]
    pub env: Vec<String>,
    /// A name, uid, or uid:gid.
    #[serde(default)]
    pub user: Option<String>,
    /// Where commands start.
    #[serde(default)]
    pub workdir: Option<String>,
    /// What runs before a command's own words.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// What runs when nobody says what.
    #[serde(default)]
    pub command: Vec<String>,
}

/// An image's configuration as it is written (OCI image-spec config.md; Docker's is the same).
#[derive(Debug, Deserialize)]
struct Written {
    architecture: Option<String>,
    os: Option<String>,
    #[serde(default)]
    config: Option<WrittenConfig>,
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrittenConfig {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<Digest>,
}

/// Reads a document of an image. Its values may take 16 MiB beside its text, however short the text is.
pub(crate) fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, serde_json::Error> {
    bounded::read(bytes, &Budget::new(bytes.len() as u64 + (16 << 20)))
}

/// Reads a configuration: what it says about running, and its layers, bottom first.
pub(crate) fn read(bytes: &[u8]) -> Result<(Config, Vec<Digest>), ImageError> {
    let written: Written =
        parse(bytes).map_err(|error| ImageError::Malformed { what: "configuration", why: error.to_string() })?;
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let os = written.os.as_deref().unwrap_or("linux");
    let architecture = written.architecture.as_deref().unwrap_or(own);
    if os != "linux" || architecture != own {
        return Err(ImageError::OtherPlatform { found: format!("{os}/{architecture}"), own: format!("linux/{own}") });
    }
    if written.rootfs.diff_ids.len() > MAX_LAYERS {
        return Err(ImageError::Malformed { what: "configuration", why: format!("more than {MAX_LAYERS} layers") });
    }
    let config = written.config.unwrap_or_default();
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let config = Config {
        env: config.env.unwrap_or_default(),
        user: filled(config.user),
        workdir: filled(config.working_dir),
        entrypoint: config.entrypoint.unwrap_or_default(),
        command: config.cmd.unwrap_or_default(),
    };
    Ok((config, written.rootfs.diff_ids))
}
