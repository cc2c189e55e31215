//! The keys of search services: from the runner's environment, and from there to nobody else.

use std::collections::BTreeMap;

use profile::{Plan, SearchProvider};
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};
use thiserror::Error;

/// A key that cannot be had. The value is never said.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MissingKey {
    /// The variable is not set, or empty.
    #[error("`web_search` needs a key in {0}, which is not set")]
    NotSet(String),
    /// What it holds cannot be sent.
    #[error("what {0} holds cannot be a key")]
    NotAKey(String),
}

impl MissingKey {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotSet(variable) => format!("set {variable} for this command, or leave `web_search` out"),
            Self::NotAKey(variable) => format!("look for line ends and other invisible characters in {variable}"),
        }
    }
}

/// The keys that an evaluation uses, by the variables that held them.
#[derive(Debug, Default)]
pub struct Keys(BTreeMap<String, SecretString>);

impl Keys {
    /// Takes the keys that the plan needs out of the environment; all must be there.
    pub fn gather(plan: &Plan, variable: impl Fn(&str) -> Option<String>) -> Result<Self, MissingKey> {
        Self::of(plan.search.as_ref(), variable)
    }

    pub(super) fn of(
        search: Option<&SearchProvider>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, MissingKey> {
        let mut keys = BTreeMap::new();
        for key in search.iter().flat_map(|search| &search.keys) {
            let value = variable(&key.variable).filter(|value| !value.is_empty());
            let value = SecretString::from(value.ok_or_else(|| MissingKey::NotSet(key.variable.clone()))?);
            if HeaderValue::from_str(value.expose_secret()).is_err() {
                return Err(MissingKey::NotAKey(key.variable.clone()));
            }
            keys.insert(key.variable.clone(), value);
        }
        Ok(Self(keys))
    }

    /// Every value, for whoever takes secrets out of what is written.
    pub fn values(&self) -> impl Iterator<Item = &SecretString> {
        self.0.values()
    }

    pub(super) fn get(&self, variable: &str) -> &str {
        self.0.get(variable).map(SecretString::expose_secret).unwrap_or_default()
    }
}
