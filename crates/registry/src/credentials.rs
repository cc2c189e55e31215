//! Credentials: who we are to which registry, from Docker's configuration and its helpers.
//!
//! Nothing is looked up before a registry asks, and nothing is kept but what the configuration itself holds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use secrecy::SecretString;
use strangers::Shown;

use crate::credentials_error::CredentialsError;
use crate::docker_config;
use crate::helper::Helper;
use crate::reference::{DOCKER_HUB, Reference};

/// What Docker calls its own registry where it keeps logins.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
const HELPER_DEADLINE: Duration = Duration::from_secs(10);

/// A login. `Debug` does not show the secret.
#[derive(Debug, Clone)]
pub enum Login {
    /// As people log in.
    Password {
        /// Who.
        name: String,
        /// With what.
        password: SecretString,
    },
    /// To be exchanged for tokens at the realm.
    IdentityToken(SecretString),
}

/// What an entry of `auths` holds.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Login(Login),
    /// Something that is no login. An error only when it is needed: it may be another registry's.
    Unreadable,
}

/// Logins for registries.
#[derive(Clone, Default)]
pub struct Credentials {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) helpers: BTreeMap<String, String>,
    pub(crate) store: Option<String>,
    search_path: Option<OsString>,
    deadline: Option<Duration>,
}

/// Names of registries and helpers, never what they hold.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Credentials");
        shown.field("entries", &self.entries.keys()).field("helpers", &self.helpers).field("store", &self.store);
        shown.finish_non_exhaustive()
    }
}

impl Credentials {
    /// No logins: every registry is asked as nobody.
    pub fn none() -> Self {
        Self::default()
    }

    /// The logins in a configuration of Docker: this file, which must exist, or `config.json` in `$DOCKER_CONFIG` or
    /// `~/.docker`, where no file means no logins.
    pub fn from_docker_config(path: Option<&Path>) -> Result<Self, CredentialsError> {
        match path {
            Some(path) => docker_config::read(path),
            None => docker_config::read_default(),
        }
    }

    /// Looks for helpers in these directories, separated as in `PATH`, and runs them with that `PATH`.
    #[must_use]
    pub fn with_search_path(mut self, path: impl Into<OsString>) -> Self {
        self.search_path = Some(path.into());
        self
    }

    /// Gives helpers another time to answer than 10 seconds.
    #[must_use]
    pub fn with_helper_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The login for an image's registry, if there is one, for a daemon that fetches it; and what Docker calls that
    /// registry.
    pub async fn for_image(&self, image: &Reference) -> Result<Option<(String, Login)>, CredentialsError> {
        let registry = image.registry();
        Ok(self.login(registry).await?.map(|login| (keys(registry)[0].to_owned(), login)))
    }

    /// The login for a registry, if there is one: that of its own helper, of the helper for all, or of the file.
    pub(crate) async fn login(&self, registry: &str) -> Result<Option<Login>, CredentialsError> {
        let keys = keys(registry);
        let own = keys.iter().find_map(|key| self.helpers.get(*key));
        if let Some(name) = own.or(self.store.as_ref()) {
            let deadline = self.deadline.unwrap_or(HELPER_DEADLINE);
            let helper = Helper { name, search_path: self.search_path.as_deref(), deadline };
            if let Some(login) = helper.get(keys[0]).await? {
                return Ok(Some(login));
            }
        }
        let exact = keys.iter().find_map(|key| self.entries.get_key_value(*key));
        let entry = exact.or_else(|| self.entries.iter().find(|(key, _)| keys.contains(&host(key))));
        match entry {
            None => Ok(None),
            Some((_, Entry::Login(login))) => Ok(Some(login.clone())),
            Some((server, Entry::Unreadable)) => Err(CredentialsError::Entry { server: Shown::new(server) }),
        }
    }
}

/// The names of a registry in the configuration; the first is the one that helpers are asked for.
fn keys(registry: &str) -> Vec<&str> {
    if registry == DOCKER_HUB { vec![DOCKER_HUB_KEY, "index.docker.io", DOCKER_HUB] } else { vec![registry] }
}

/// Old entries are web addresses.
fn host(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split_once('/').map_or(key, |(host, _)| host)
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
