//! Requests and their answers: one at a time, never redirected, with a limit on every wait.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, AsHeaderName, CONTENT_TYPE};
use reqwest::{Client, ClientBuilder, Method, Response, StatusCode, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use strangers::Shown;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::authorization::Authorization;
use crate::error::{Cause, PullError};
use crate::places;
use crate::settings::{Proxies, Settings, Timing};

/// How often a request is repeated.
const RETRIES: u32 = 2;
const USER_AGENT: &str = concat!("ringfence/", env!("CARGO_PKG_VERSION"));
const FORM: &str = "application/x-www-form-urlencoded";

/// Asks servers.
#[derive(Debug)]
pub(crate) struct Transport {
    /// For this machine itself, in plain text.
    plain: Client,
    /// For all others. Made when it is needed: without authorities there is none, and this machine can still be asked.
    secure: OnceLock<Client>,
    settings: Settings,
}

/// A question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) url: &'a Url,
    pub(crate) accept: &'static str,
    pub(crate) authorization: Option<&'a Authorization>,
}

/// An answer of which nothing but the head has been read.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response,
    server: Shown,
    timing: Timing,
}

impl Transport {
    pub(crate) fn new(settings: Settings) -> Result<Self, PullError> {
        let config = strangers::trusting_nobody().map_err(|error| PullError::Tls(Cause::new(&error.to_string())))?;
        // What `localhost` means is not for a resolver to say (RFC 6761, section 6.3). Port 0 stands for the address'.
        let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
        let plain = client(config, &settings).no_proxy().resolve_to_addrs("localhost", &here);
        let plain = plain.build().map_err(|error| PullError::Tls(error.into()))?;
        Ok(Self { plain, secure: OnceLock::new(), settings })
    }

    /// Asks, and asks again when a server cannot be reached or is out of order.
    pub(crate) async fn get(&self, question: Question<'_>) -> Result<Answer, PullError> {
        let mut wait = self.settings.timing.backoff;
        for _ in 0..RETRIES {
            match self.once(question, None).await {
                Ok(answer) if answer.status().is_server_error() => {}
                Err(PullError::Unreachable { .. } | PullError::Interrupted { .. }) => {}
                other => return other,
            }
            sleep(wait).await;
            wait *= 4;
        }
        self.once(question, None).await
    }

    /// Sends a form, once: what it changes cannot be known.
    pub(crate) async fn post(&self, question: Question<'_>, form: &SecretString) -> Result<Answer, PullError> {
        self.once(question, Some(form)).await
    }

    async fn once(&self, question: Question<'_>, form: Option<&SecretString>) -> Result<Answer, PullError> {
        let client = if question.url.scheme() == "http" { &self.plain } else { self.secure()? };
        let method = if form.is_some() { Method::POST } else { Method::GET };
        let mut request = client.request(method, question.url.clone()).header(ACCEPT, question.accept);
        if let Some(authorization) = question.authorization {
            request = request.header(AUTHORIZATION, authorization.header.clone());
        }
        if let Some(form) = form {
            request = request.header(CONTENT_TYPE, FORM).body(form.expose_secret().to_owned());
        }
        let server = places::server(question.url);
        let timing = self.settings.timing;
        match timeout(timing.idle, request.send()).await {
            Ok(Ok(response)) => Ok(Answer { response, server, timing }),
            Ok(Err(error)) if error.is_connect() => Err(PullError::Unreachable { server, source: error.into() }),
            Ok(Err(error)) => Err(PullError::Interrupted { server, source: error.into() }),
            Err(_) => Err(PullError::Stalled { server, after: timing.idle }),
        }
    }

    fn secure(&self) -> Result<&Client, PullError> {
        if let Some(client) = self.secure.get() {
            return Ok(client);
        }
        let config = strangers::trusting(&self.settings.authorities);
        let config = config.map_err(|error| PullError::Tls(Cause::new(&error.to_string())))?;
        let mut builder = client(config, &self.settings).https_only(true);
        for (host, address) in &self.settings.addresses {
            builder = builder.resolve(host, *address);
        }
        if self.settings.proxies == Proxies::None {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| PullError::Tls(error.into()))?;
        Ok(self.secure.get_or_init(|| client))
    }
}

fn client(config: rustls::ClientConfig, settings: &Settings) -> ClientBuilder {
    // Redirects are followed, or not, in `registry.rs`; repetitions are `get`'s.
    Client::builder()
        .tls_backend_preconfigured(config)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .connect_timeout(settings.timing.connect)
        .user_agent(USER_AGENT)
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The server that answered.
    pub(crate) fn server(&self) -> Shown {
        self.server.clone()
    }

    /// A header that is text.
    pub(crate) fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// All headers of a name that are text.
    pub(crate) fn headers(&self, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
        self.response.headers().get_all(name).into_iter().filter_map(|value| value.to_str().ok())
    }

    /// How many bytes were announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The next bytes.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, PullError> {
        match timeout(self.timing.idle, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(PullError::Interrupted { server: self.server(), source: error.into() }),
            Err(_) => Err(PullError::Stalled { server: self.server(), after: self.timing.idle }),
        }
    }

    /// All bytes, if they are few.
    pub(crate) async fn whole(mut self, limit: u64) -> Result<Vec<u8>, PullError> {
        let (server, after) = (self.server(), self.timing.document);
        let all = timeout(after, self.up_to(limit)).await.map_err(|_| PullError::Stalled { server, after })??;
        all.ok_or_else(|| PullError::AnswerTooLarge { server: self.server(), limit })
    }

    /// All bytes, or nothing when there are too many.
    async fn up_to(&mut self, limit: u64) -> Result<Option<Vec<u8>>, PullError> {
        if self.length().is_some_and(|length| length > limit) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }
}
