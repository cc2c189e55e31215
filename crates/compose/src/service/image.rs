//! `image`, `build`, `pull_policy`, `platform`: where a service's image comes from.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use profile::Located;
use profile::source::{Node, Value};

use super::environment;
use crate::host::{self, Use};
use crate::names::HostPath;
use crate::rules::BUILD_KEYS;
use crate::section::Section;

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// It has a name, and is here or is pulled.
    Named(Located<String>),
    /// It is built.
    Built {
        /// How.
        build: Box<Build>,
        /// What it is called then.
        tag: Option<Located<String>>,
    },
}

/// How an image is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The directory that the build sees.
    pub context: Located<HostPath>,
    /// What to do.
    pub dockerfile: Dockerfile,
    /// Arguments.
    pub args: BTreeMap<String, Located<String>>,
    /// The stage to build; absent means the last.
    pub target: Option<Located<String>>,
    /// Whether nothing is taken from earlier builds.
    pub no_cache: bool,
    /// Whether newer base images are looked for.
    pub pull: bool,
    /// Whether the build is without a network.
    pub without_network: bool,
}

/// The instructions of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dockerfile {
    /// In a file; absent means `Dockerfile` in the context. Like the context it is seen from the Compose file's directory.
    At(Option<Located<HostPath>>),
    /// In the Compose file.
    Inline(Located<String>),
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// Every time.
    Always,
    /// When it is not here.
    Missing,
    /// Never.
    Never,
    /// Never: it is built every time.
    Build,
}

/// A kind of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Its processor, such as `amd64`.
    pub architecture: String,
    /// A variant of that, such as `v8`.
    pub variant: Option<String>,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// A text that is no platform of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be linux/ARCHITECTURE or linux/ARCHITECTURE/VARIANT")]
pub struct PlatformError;

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let good = |part: &&str| {
            !part.is_empty() && part.len() <= 32 && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let parts: Vec<&str> = text.split('/').collect();
        if !parts.iter().all(good) {
            return Err(PlatformError);
        }
        match parts.as_slice() {
            ["linux", architecture] => Ok(Self { architecture: (*architecture).into(), variant: None }),
            ["linux", architecture, variant] => {
                Ok(Self { architecture: (*architecture).into(), variant: Some((*variant).into()) })
            }
            _ => Err(PlatformError),
        }
    }
}

pub(super) fn read(keys: &mut Section) -> Option<Image> {
    let given = keys.has("image") || keys.has("build");
    let image = keys.parsed("image", reference);
    let reading = keys.reading;
    let build = keys.take("build").map(|node| reading.for_daemon(|| read_build(keys, node)));
    match (image, build) {
        (tag, Some(build)) => Some(Image::Built { build: Box::new(build?), tag }),
        (Some(name), None) => Some(Image::Named(name)),
        (None, None) => {
            if !given {
                keys.reading.problem_with_hint(
                    keys.place,
                    "the service has neither `image` nor `build`",
                    "add one of them",
                );
            }
            None
        }
    }
}

/// The name of an image, not looked at closely: the registry's client and the daemon know what one is.
fn reference(text: &str) -> Result<String, &'static str> {
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if text.is_empty() {
        Err("is empty; is a variable in it not set?")
    } else if text.len() > 512 || text.starts_with('-') || text.contains(odd) {
        Err("is not the name of an image")
    } else {
        Ok(text.to_owned())
    }
}

fn read_build(keys: &mut Section, node: Node) -> Option<Build> {
    let reading = keys.reading;
    let place = node.place;
    let node = match node.value {
        Value::Text(context) => {
            let context = context_path(keys, &Located::at(place, context))?;
            return Some(plain(context));
        }
        _ => node,
    };
    let mut build = Section::open(reading, node, "`build`", BUILD_KEYS)?;
    let written = build.text("context").unwrap_or(Located::at(place, ".".into()));
    let context = context_path(&build, &written);
    let inline = build.text("dockerfile_inline");
    let file = build.text("dockerfile");
    let dockerfile = match (inline, file) {
        (Some(_), Some(file)) => {
            let at = file.place.unwrap_or(place);
            reading.problem_with_hint(
                at,
                "`dockerfile` and `dockerfile_inline` exclude each other",
                "remove one of them",
            );
            None
        }
        (Some(text), None) => Some(Dockerfile::Inline(text)),
        (None, None) => Some(Dockerfile::At(None)),
        // Without a context nobody knows where the file would be.
        (None, Some(file)) => context.as_ref().and_then(|context| {
            let path = host::path_from(reading, &file, Use::Dockerfile, context.value.as_path())?;
            Some(Dockerfile::At(Some(path)))
        }),
    };
    let network = build.take_with_key("network");
    let without_network = network.is_some_and(|(place, node)| {
        let is_none = matches!(&node.value, Value::Text(text) if text == "none");
        if !is_none {
            reading.refuse(place, "build.network", "`build.network`", "a build has the daemon's own network or none");
        }
        is_none
    });
    let args = build.take("args").map(|node| environment::entries(reading, node, "args")).unwrap_or_default();
    let (target, no_cache, pull) = (build.text("target"), build.truth("no_cache"), build.truth("pull"));
    build.finish();
    Some(Build {
        context: context?,
        dockerfile: dockerfile?,
        args,
        target,
        no_cache: no_cache.unwrap_or(false),
        pull: pull.unwrap_or(false),
        without_network,
    })
}

fn plain(context: Located<HostPath>) -> Build {
    let dockerfile = Dockerfile::At(None);
    Build {
        context,
        dockerfile,
        args: BTreeMap::new(),
        target: None,
        no_cache: false,
        pull: false,
        without_network: false,
    }
}

/// A directory. What is fetched from elsewhere is refused: the daemon would do it, outside every rule.
fn context_path(keys: &Section, written: &Located<String>) -> Option<Located<HostPath>> {
    let text = &written.value;
    if text.contains("://") || text.starts_with("git@") || text.starts_with("github.com/") {
        let place = written.place.unwrap_or(keys.place);
        keys.reading.refuse(
            place,
            "build.context",
            "a build from elsewhere",
            "the daemon would fetch it, outside the network rules",
        );
        return None;
    }
    host::path(keys.reading, written, Use::Context)
}

/// `pull_policy` and `x-local`.
pub(super) fn pull(keys: &mut Section) -> Option<Located<Pull>> {
    let place = keys.place;
    let local = keys.truth("x-local").unwrap_or(false);
    let policy = keys.parsed("pull_policy", |text| match text {
        "always" => Ok(Pull::Always),
        "missing" | "if_not_present" => Ok(Pull::Missing),
        "never" => Ok(Pull::Never),
        "build" => Ok(Pull::Build),
        _ => Err("must be always, missing, if_not_present, never or build"),
    });
    if local { Some(Located::at(place, Pull::Never)) } else { policy }
}
