//! A registry's client: asks as whoever the registry wants, and follows redirects as far as they may lead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::StatusCode;
use reqwest::header::{LOCATION, WWW_AUTHENTICATE};
use strangers::Shown;
use url::Url;

use crate::authorization::{Authorization, Identity};
use crate::challenge::{self, Challenge};
use crate::credentials::{Credentials, Login};
use crate::error::PullError;
use crate::places::{self, Reach};
use crate::reference::Reference;
use crate::refusal;
use crate::settings::Settings;
use crate::token;
use crate::transport::{Answer, Question, Transport};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;
/// How many repositories' tokens are kept.
const MAX_TOKENS: usize = 1000;

/// A client of registries. Tokens are kept for as long as it lives; clones of an `Arc` may be used at the same time.
#[derive(Debug)]
pub struct Registry {
    transport: Transport,
    credentials: Credentials,
    /// By registry and repository: a token for one is never shown to another.
    tokens: Mutex<HashMap<(String, String), Arc<Authorization>>>,
    pub(crate) max_layer: u64,
}

impl Registry {
    /// A client with these credentials.
    pub fn new(credentials: Credentials) -> Result<Self, PullError> {
        Self::with_settings(credentials, Settings::default())
    }

    /// A client that asks in another way.
    pub fn with_settings(credentials: Credentials, settings: Settings) -> Result<Self, PullError> {
        let max_layer = settings.max_layer;
        let transport = Transport::new(settings)?;
        Ok(Self { transport, credentials, tokens: Mutex::default(), max_layer })
    }

    /// The same with another limit for layers, in bytes.
    #[must_use]
    pub fn with_max_layer(mut self, bytes: u64) -> Self {
        self.max_layer = bytes;
        self
    }

    /// Asks for something in a reference's repository, as `manifests/latest`. What comes is a success.
    pub(crate) async fn fetch(
        &self,
        reference: &Reference,
        rest: &str,
        accept: &'static str,
        reach: Reach,
    ) -> Result<Answer, PullError> {
        let mut url = reference.address(rest);
        // Once away, always away: a stranger does not decide what the registry is asked with our credentials.
        let mut at_home = true;
        for _ in 0..=MAX_REDIRECTS {
            let answer = if at_home {
                self.ask(reference, &url, accept).await?
            } else {
                self.transport.get(Question { url: &url, accept, authorization: None }).await?
            };
            if answer.status() == StatusCode::OK {
                return Ok(answer);
            }
            let location = answer.header(LOCATION).filter(|_| is_redirect(answer.status()));
            let Some(location) = location else {
                let authorization = self.kept(reference).filter(|_| at_home);
                let secrets = authorization.as_deref().map(Authorization::secrets).unwrap_or_default();
                return Err(refusal::understand(answer, reference.to_string(), &secrets).await);
            };
            url = places::redirect(reference.origin(), &url, location, reach).map_err(|why| {
                let to = url.join(location).map_or_else(|_| Shown::new(location), |to| places::server(&to));
                PullError::Redirect { server: answer.server(), to, why }
            })?;
            at_home = at_home && places::same_server(reference.origin(), &url);
        }
        Err(PullError::TooManyRedirects { registry: reference.registry().to_owned(), limit: MAX_REDIRECTS })
    }

    /// Asks the registry itself, and once more with what it wants when it wants something.
    async fn ask(&self, reference: &Reference, url: &Url, accept: &'static str) -> Result<Answer, PullError> {
        let kept = self.kept(reference);
        let answer = self.transport.get(Question { url, accept, authorization: kept.as_deref() }).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        // Nothing was sent, or a token that is no longer good.
        let challenge = challenge::read(answer.headers(WWW_AUTHENTICATE));
        let registry = reference.registry().to_owned();
        let challenge = challenge.ok_or_else(|| PullError::Challenge { registry: registry.clone() })?;
        drop(answer);
        let authorization = self.authorize(reference, &challenge).await?;
        let answer = self.transport.get(Question { url, accept, authorization: Some(&authorization) }).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            self.keep(reference, &authorization);
            return Ok(answer);
        }
        let image = reference.to_string();
        let (server, message) = (answer.server(), refusal::explanation(answer, &authorization.secrets()).await);
        Err(match (challenge, authorization.identity) {
            (_, Identity::Nobody) => PullError::LoginNeeded { registry, image },
            (Challenge::Basic, Identity::Known) => PullError::LoginRefused { registry, server, message },
            // The realm knew us; what it gave does not open this repository.
            (Challenge::Bearer { .. }, Identity::Known) => PullError::Denied { image, message },
        })
    }

    async fn authorize(&self, reference: &Reference, challenge: &Challenge) -> Result<Arc<Authorization>, PullError> {
        let registry = reference.registry().to_owned();
        let login = self.credentials.login(&registry).await;
        let login = login.map_err(|source| PullError::Credentials { registry: registry.clone(), source })?;
        match challenge {
            Challenge::Bearer { realm, service } => {
                token::get(&self.transport, reference, realm, service.as_deref(), login.as_ref()).await
            }
            Challenge::Basic => {
                // An identity token is for realms, and is not sent where a password is wanted.
                let basic = match &login {
                    Some(Login::Password { name, password }) => Authorization::basic(name, password),
                    Some(Login::IdentityToken(_)) | None => None,
                };
                let needed = || PullError::LoginNeeded { registry, image: reference.to_string() };
                basic.map(Arc::new).ok_or_else(needed)
            }
        }
    }

    fn kept(&self, reference: &Reference) -> Option<Arc<Authorization>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get(&key(reference)).map(Arc::clone)
    }

    fn keep(&self, reference: &Reference, authorization: &Arc<Authorization>) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MAX_TOKENS {
            tokens.clear();
        }
        tokens.insert(key(reference), Arc::clone(authorization));
    }
}

fn key(reference: &Reference) -> (String, String) {
    (reference.registry().to_owned(), reference.repository().to_owned())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
