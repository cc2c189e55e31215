//! Images of a daemon: found, fetched or built there, and known by their id from then on.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use bollard::models::{HealthConfig, ImageInspect};
use bollard::query_parameters::CreateImageOptions;
use futures_util::{Stream, StreamExt as _};
use sandbox::{ContextPart, SecretMounts, StartError, check_build_directory};
use strangers::Shown;

use crate::engine::Engine;
use crate::error::DockerError;
use crate::ignored::Ignored;

/// When an image is fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pull {
    /// Where the daemon has none of that name.
    #[default]
    Missing,
    /// Never: what is not there is an error.
    Never,
    /// Always, so that a name means what it means now.
    Always,
}

impl FromStr for Pull {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "missing" => Ok(Self::Missing),
            "never" => Ok(Self::Never),
            "always" => Ok(Self::Always),
            _ => Err(format!("`{text}` is not when to pull: missing, never or always")),
        }
    }
}

/// The most ports that an image may expose: every neighbour is told all of them.
const MAX_EXPOSED: usize = 4096;

/// An image that a daemon has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its id, `sha256:…`: what runs, whatever its name will mean tomorrow.
    pub id: String,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    /// Whom its commands run as.
    pub user: Option<String>,
    /// Where they start.
    pub workdir: Option<String>,
    /// What runs before a command's own words.
    pub entrypoint: Vec<String>,
    /// What runs when nobody says what.
    pub command: Vec<String>,
    /// The TCP ports that it says it serves.
    pub exposed: Vec<u16>,
    /// How its health is found out.
    pub health: Option<Checked>,
    /// The processor that it is for, such as `amd64`.
    pub architecture: Option<String>,
}

/// How an image says that its health is found out; what is absent is as the Engine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// `CMD` with a program and its words, or `CMD-SHELL` with a text.
    pub test: Vec<String>,
    /// How long between two tests.
    pub interval: Option<Duration>,
    /// How long a test may take.
    pub timeout: Option<Duration>,
    /// How many failures in a row are a failure.
    pub retries: Option<u32>,
    /// How long failures do not count.
    pub start_period: Option<Duration>,
}

fn checked(config: HealthConfig) -> Option<Checked> {
    let test = config.test.filter(|test| test.first().is_some_and(|first| first.starts_with("CMD")))?;
    let time = |nanos: Option<i64>| u64::try_from(nanos?).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
    Some(Checked {
        test,
        interval: time(config.interval),
        timeout: time(config.timeout),
        retries: config.retries.and_then(|retries| u32::try_from(retries).ok()).filter(|retries| *retries > 0),
        start_period: time(config.start_period),
    })
}

/// `8080/tcp`.
fn port(text: &str) -> Option<u16> {
    text.strip_suffix("/tcp").unwrap_or(text).parse().ok()
}

/// A directory that an image is built of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The directory.
    pub directory: std::path::PathBuf,
    /// The file of instructions in it.
    pub dockerfile: String,
    /// Instructions that are in no file; they count then.
    pub inline: Option<String>,
    /// Arguments.
    pub arguments: BTreeMap<String, String>,
    /// The stage to build; absent means the last.
    pub target: Option<String>,
    /// Whether nothing is taken from earlier builds.
    pub no_cache: bool,
    /// Whether what it runs has no network.
    pub without_network: bool,
    /// What it is built for, such as `linux/amd64`; absent means as the daemon has it.
    pub platform: Option<String>,
}

/// A build whose directory may be sent to a daemon, by its path without links.
#[derive(Debug, Clone)]
pub struct CheckedBuild(pub(crate) Build);

impl Build {
    /// A directory with a file of instructions, and nothing special.
    pub fn of(directory: impl Into<std::path::PathBuf>, dockerfile: impl Into<String>) -> Self {
        Self {
            directory: directory.into(),
            dockerfile: dockerfile.into(),
            inline: None,
            arguments: BTreeMap::new(),
            target: None,
            no_cache: false,
            without_network: false,
            platform: None,
        }
    }

    /// Reads `build:DIRECTORY` or `build:DIRECTORY:DOCKERFILE`.
    pub fn parse(reference: &str) -> Option<Self> {
        let rest = reference.strip_prefix("build:")?;
        let (directory, dockerfile) = match rest.rsplit_once(':') {
            Some((directory, file)) if !file.contains('/') && !file.is_empty() => (directory, file),
            _ => (rest, "Dockerfile"),
        };
        (!directory.is_empty()).then(|| Self::of(directory, dockerfile))
    }

    /// Whether `.dockerignore` keeps a path below the directory, and all below that, from the daemon. What cannot be read
    /// keeps nothing.
    pub fn leaves_out(&self, below: &Path) -> bool {
        let ignored = Ignored::read(&self.directory, &self.dockerfile);
        ignored.is_ok_and(|ignored| ignored.part(below) == ContextPart::LeftOutWhole)
    }

    /// Refuses a directory that a link leads to, that is a whole home, or that holds keys which would be sent.
    pub fn check(mut self, secrets: SecretMounts) -> Result<CheckedBuild, StartError> {
        let shown = self.directory.display().to_string();
        let ignored = Ignored::read(&self.directory, &self.dockerfile)
            .map_err(|source| DockerError::Context { directory: shown, source })?;
        let named = std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
        let part = |below: &Path| ignored.part(below);
        self.directory = check_build_directory(&named.to_string_lossy(), secrets, &part)?.into();
        Ok(CheckedBuild(self))
    }
}

impl Engine {
    /// An image by its name there, fetched if the policy says so. `progress` is told what happens, a line at a time.
    pub async fn image(&self, name: &str, pull: Pull, progress: &mut dyn FnMut(String)) -> Result<Local, DockerError> {
        self.image_for(name, None, pull, progress).await
    }

    /// The same; if it is fetched, then for this platform, such as `linux/amd64`.
    pub async fn image_for(
        &self,
        name: &str,
        platform: Option<&str>,
        pull: Pull,
        progress: &mut dyn FnMut(String),
    ) -> Result<Local, DockerError> {
        let platform = platform.unwrap_or_default();
        if pull == Pull::Always {
            self.pull(name, platform, progress).await?;
        }
        match self.look(name).await {
            Err(error) if error.is_missing() && pull == Pull::Missing => {
                self.pull(name, platform, progress).await?;
                self.look(name).await
            }
            Err(error) if error.is_missing() => {
                Err(DockerError::NoImage { name: name.to_owned(), endpoint: self.endpoint().to_string() })
            }
            found => found,
        }
    }

    async fn look(&self, name: &str) -> Result<Local, DockerError> {
        // A slash of a name is part of the path there; everything else that would end it is refused.
        if name.is_empty() || name.contains(|sign: char| sign.is_control() || " ?#%\\".contains(sign)) {
            return Err(DockerError::NoImage { name: name.to_owned(), endpoint: self.endpoint().to_string() });
        }
        let name = name.to_owned();
        let inspect = |client: bollard::Docker| async move { client.inspect_image(&name).await };
        let found = self.ask("inspect image", inspect).await?;
        self.local(found)
    }

    fn local(&self, found: ImageInspect) -> Result<Local, DockerError> {
        let odd = |what: &str| DockerError::Odd {
            call: "inspect image",
            endpoint: self.endpoint().to_string(),
            what: what.to_owned(),
        };
        let id = found.id.ok_or_else(|| odd("no id"))?;
        let hex = id.strip_prefix("sha256:").unwrap_or(&id);
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(odd("an id that is no digest"));
        }
        let config = found.config.unwrap_or_default();
        if config.exposed_ports.as_ref().is_some_and(|ports| ports.len() > MAX_EXPOSED) {
            return Err(odd("an image that exposes more ports than anybody serves"));
        }
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Local {
            id: format!("sha256:{hex}"),
            env: config.env.unwrap_or_default(),
            user: filled(config.user),
            workdir: filled(config.working_dir),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            exposed: config.exposed_ports.iter().flatten().filter_map(|text| port(text)).collect(),
            health: config.healthcheck.and_then(checked),
            architecture: filled(found.architecture),
        })
    }

    async fn pull(&self, name: &str, platform: &str, progress: &mut dyn FnMut(String)) -> Result<(), DockerError> {
        // Without a tag the Engine would fetch all of them.
        let last = name.rsplit('/').next().unwrap_or_default();
        let tag = (!last.contains([':', '@'])).then(|| "latest".to_owned());
        let options = CreateImageOptions { from_image: Some(name.to_owned()), tag, ..Default::default() };
        let (options, login) = match self.login(name).await? {
            // Written out, registry and all: the login is for that one, whatever the daemon takes a short name for.
            Some((whole, login)) => (CreateImageOptions { from_image: Some(whole), ..Default::default() }, Some(login)),
            None => (options, None),
        };
        let options = CreateImageOptions { platform: platform.to_owned(), ..options };
        let mut lines = Box::pin(self.client().create_image(Some(options), None, login));
        while let Some(line) = self.next("pull image", &mut lines).await? {
            if let Some(status) = line.status {
                let of = line.id.map(|id| format!("{id}: ")).unwrap_or_default();
                progress(Shown::new(&format!("{of}{status}")).as_str().to_owned());
            }
        }
        Ok(())
    }

    /// The next sign of life of something long.
    pub(crate) async fn next<T>(
        &self,
        call: &'static str,
        lines: &mut (impl Stream<Item = Result<T, bollard::errors::Error>> + Unpin),
    ) -> Result<Option<T>, DockerError> {
        let next = async { lines.next().await.transpose() };
        self.within(call, self.patience().progress, next).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_build() {
        let build = |directory: &str, dockerfile: &str| Some(Build::of(directory, dockerfile));
        assert_eq!(Build::parse("build:."), build(".", "Dockerfile"));
        assert_eq!(Build::parse("build:/a/b:Other.dockerfile"), build("/a/b", "Other.dockerfile"));
        assert_eq!(Build::parse("build:/a:b/c"), build("/a:b/c", "Dockerfile"));
        assert_eq!(Build::parse("build:"), None);
        assert_eq!(Build::parse("debian"), None);
    }
}
