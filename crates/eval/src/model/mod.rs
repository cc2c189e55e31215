//! Who answers: somebody elsewhere, by the crate `model`, or one of those that need nobody.

mod mock;
mod roles;

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;

use ::model::{
    Answer, CacheSettings, GenerateConfig, Model, Opened, PRICES_VARIABLE, PriceError, Prices, ProviderTool, Request,
};
use secrecy::ExposeSecret as _;
use thiserror::Error;

use crate::task::{MockReply, Sample, Task};

pub(crate) use ::model::ToolInfo;
use mock::Scripted;
pub use roles::Models;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ModelError {
    /// A scripted model has said everything.
    #[error("the scripted model has no more replies: it was asked {asked} times")]
    Exhausted {
        /// How often.
        asked: usize,
    },
    /// Whoever is elsewhere.
    #[error(transparent)]
    Remote(#[from] ::model::ModelError),
    /// What answers cost cannot be known.
    #[error(transparent)]
    Prices(#[from] PriceError),
}

impl ModelError {
    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Exhausted { .. } => "add replies under `mock:` of the task or the sample".into(),
            Self::Remote(error @ ::model::ModelError::Unknown { .. }) => {
                format!("{}, mock/scripted and mock/echo", error.hint())
            }
            Self::Remote(error) => error.hint(),
            Self::Prices(_) => format!("check the file that {PRICES_VARIABLE} names"),
        }
    }

    /// It, and what lies below it.
    pub(crate) fn told(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        text
    }
}

/// Which model a task uses, unless the command line says otherwise.
pub const DEFAULT_MODEL: &str = "mock/scripted";
/// The variable that names the directory of answers that are kept.
const CACHE_VARIABLE: &str = "RINGFENCE_MODEL_CACHE";

/// The model of an evaluation. All samples share it: its connections, its limits, its cache.
#[derive(Debug)]
pub struct Chosen {
    name: String,
    pub(crate) config: GenerateConfig,
    remote: Option<Opened>,
    /// Whether it is known what its answers cost.
    priced: bool,
}

impl Chosen {
    /// Finds a model by its name. Nobody is asked yet, but everything that is needed for it must be there.
    pub fn find(name: &str, config: &GenerateConfig) -> Result<Self, ModelError> {
        let environment = |name: &str| std::env::var(name).ok();
        let mut priced = true;
        let remote = match name {
            "mock/scripted" | "mock/echo" => None,
            _ => {
                let mut settings = ::model::Settings::default();
                if let Some(path) = environment(PRICES_VARIABLE).filter(|path| !path.is_empty()) {
                    settings.price = Prices::load(&PathBuf::from(path))?.of(name).copied();
                }
                priced = settings.price.is_some();
                if let (Some(expiry), Some(directory)) = (config.cache, cache_directory(&environment)) {
                    settings.cache = Some(CacheSettings { expiry, ..CacheSettings::at(directory) });
                }
                Some(::model::open(name, config, settings, &environment)?)
            }
        };
        Ok(Self { name: name.to_owned(), config: config.clone(), remote, priced })
    }

    /// Its full name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Settings that it does not take.
    pub fn unsent(&self) -> &[&'static str] {
        self.remote.as_ref().map_or(&[], |opened| &opened.unsent)
    }

    /// Tools of its provider that can be switched on.
    pub(crate) fn provider_tools(&self) -> &'static [ProviderTool] {
        self.remote.as_ref().map_or(&[], |opened| opened.model.provider_tools())
    }

    /// Whether it is known what its answers cost.
    pub fn is_priced(&self) -> bool {
        self.priced
    }

    /// Keys that must stand in no log.
    pub fn secrets(&self) -> Vec<String> {
        let key = self.remote.as_ref().and_then(|opened| opened.key.as_ref());
        key.map(|key| key.expose_secret().to_owned()).into_iter().collect()
    }

    /// Where it is asked, for the log.
    pub(crate) fn address(&self) -> Option<&str> {
        self.remote.as_ref().map(|opened| opened.address.as_str())
    }

    /// Its voice in one sample, in a role other than the agent's where one is named.
    pub(crate) fn open<'a>(&'a self, task: &'a Task, sample: &'a Sample, role: Option<&str>) -> Voice<'a> {
        let script = || match role {
            None => sample.mock.as_ref().unwrap_or(&task.mock),
            Some(role) => sample.own.mock_roles.get(role).or_else(|| task.mock_roles.get(role)).unwrap_or(&NOTHING),
        };
        match &self.remote {
            Some(opened) => Voice::Remote(Arc::clone(&opened.model)),
            None if self.name == "mock/echo" => Voice::Echo,
            None => Voice::Scripted(Scripted::new(script())),
        }
    }
}

/// What a scripted model says where nobody wrote it a script.
static NOTHING: Vec<MockReply> = Vec::new();

/// As other programs do: in the user's directory for what can be made anew.
fn cache_directory(environment: ::model::Environment<'_>) -> Option<PathBuf> {
    let stated = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    stated(CACHE_VARIABLE).or_else(|| {
        let base = stated("XDG_CACHE_HOME").or_else(|| Some(stated("HOME")?.join(".cache")))?;
        Some(base.join("ringfence/answers"))
    })
}

/// Somebody who answers in one sample.
pub(crate) enum Voice<'a> {
    Scripted(Scripted<'a>),
    Echo,
    Remote(Arc<dyn Model>),
}

impl Voice<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Scripted(_) => "mock/scripted",
            Self::Echo => "mock/echo",
            Self::Remote(model) => model.name(),
        }
    }

    /// Answers a conversation.
    pub(crate) async fn generate(&self, request: Request<'_>) -> Result<Answer, ModelError> {
        match self {
            Self::Scripted(scripted) => scripted.next(self.name(), request.messages),
            Self::Echo => Ok(mock::echo(self.name(), request.messages)),
            Self::Remote(model) => Ok(model.generate(request).await?),
        }
    }
}
