//! One request and its reply: never redirected, with a limit on every wait and on the size.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use bounded::Budget;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Response, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use strangers::Shown;
use tokio::time::timeout;
use url::Url;

use crate::error::{ModelError, Wait};
use crate::provider::is_this_machine;
use crate::retry;
use crate::settings::{Settings, Timing};

/// The longest explanation of a refusal that is read; what is behind it is left out.
const EXPLANATION: u64 = 256 << 10;
/// Memory for the values of a reply beside their texts: room for 256 calls with a hundred arguments each. Less than a line of
/// an audit chain has, so that every call can be recorded.
const VALUES: u64 = 6 << 20;

const USER_AGENT: &str = concat!("ringfence/", env!("CARGO_PKG_VERSION"));

/// Asks one server; connections are kept.
#[derive(Debug)]
pub(crate) struct Client {
    inner: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    /// Taken out of whatever the server says.
    key: Option<SecretString>,
    /// Where the key is from.
    variable: &'static str,
    model: String,
    timing: Timing,
    max_reply: u64,
}

/// Whom to ask.
pub(crate) struct Destination {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) key: Option<SecretString>,
    pub(crate) variable: &'static str,
    pub(crate) model: String,
}

/// What is asked.
pub(crate) struct Body {
    pub(crate) text: String,
    /// A header that goes with it.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

impl Client {
    pub(crate) fn new(to: Destination, settings: &Settings) -> Result<Self, ModelError> {
        let failed = |error: &dyn std::fmt::Display| ModelError::Tls { why: Shown::new(&error.to_string()) };
        let here = is_this_machine(&to.url);
        let config = if to.url.scheme() == "http" { strangers::trusting_nobody() } else { strangers::trusting(&[]) };
        let config = config.map_err(|error| failed(&error))?;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            // More are opened for a moment when one is asked for before another is given back; they need not stay.
            .pool_max_idle_per_host(settings.max_connections)
            .connect_timeout(settings.timing.connect)
            .user_agent(USER_AGENT);
        if here {
            builder = builder.no_proxy();
        }
        let inner = builder.build().map_err(|error| failed(&error))?;
        let Destination { url, headers, key, variable, model } = to;
        Ok(Self { inner, url, headers, key, variable, model, timing: settings.timing, max_reply: settings.max_reply })
    }

    /// Where it asks.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Who is asked, for messages.
    pub(crate) fn server(&self) -> Shown {
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Shown::new(&format!("{}{port}", self.url.host_str().unwrap_or_default()))
    }

    /// What a server says, without our key.
    pub(crate) fn shown(&self, text: &str) -> Shown {
        let key = self.key.as_ref().map(ExposeSecret::expose_secret);
        Shown::without(text, key.as_slice())
    }

    /// Asks once, within this time.
    pub(crate) async fn post(&self, body: &Body, within: Duration) -> Result<Value, ModelError> {
        let after = self.timing.attempt.min(within);
        let late = |_| ModelError::TimedOut { server: self.server(), wait: Wait::Whole, after };
        timeout(after, self.exchange(body)).await.map_err(late)?
    }

    async fn exchange(&self, body: &Body) -> Result<Value, ModelError> {
        let mut request = self.inner.post(self.url.clone()).headers(self.headers.clone());
        if let Some((name, value)) = body.header {
            request = request.header(name, value);
        }
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
        let after = self.timing.read;
        let response = match timeout(after, request.body(body.text.clone()).send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return Err(ModelError::Unreachable { server: self.server(), why: self.innermost(&error) });
            }
            Ok(Err(error)) => return Err(self.interrupted(&error)),
            Err(_) => return Err(ModelError::TimedOut { server: self.server(), wait: Wait::Head, after }),
        };
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            return Err(ModelError::Redirected { server: self.server(), to: self.shown(to) });
        }
        let retry_after = Self::retry_after(response.headers());
        if !status.is_success() {
            let bytes = self.explanation(response).await?;
            return Err(self.refusal(status.as_u16(), &bytes, retry_after));
        }
        let bytes = self.whole(response).await?;
        let budget = Budget::new(VALUES + bytes.len() as u64);
        bounded::value(&bytes, &budget).map_err(|error| self.malformed(&error.to_string()))
    }

    pub(crate) fn malformed(&self, why: &str) -> ModelError {
        ModelError::Malformed { server: self.server(), why: self.shown(why) }
    }

    fn interrupted(&self, error: &reqwest::Error) -> ModelError {
        ModelError::Interrupted { server: self.server(), why: self.innermost(error) }
    }

    /// The cause, in the system's words: what is around it repeats the address.
    fn innermost(&self, error: &reqwest::Error) -> Shown {
        let mut cause = error.source();
        let mut text = "the request failed".to_owned();
        while let Some(inner) = cause {
            text = inner.to_string();
            cause = inner.source();
        }
        self.shown(&text)
    }

    fn retry_after(headers: &HeaderMap) -> Option<Duration> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let millis = header("retry-after-ms").and_then(|value| value.trim().parse().ok()).map(Duration::from_millis);
        millis.or_else(|| retry::retry_after(header("retry-after")?, SystemTime::now()))
    }

    async fn whole(&self, mut response: Response) -> Result<Vec<u8>, ModelError> {
        let (limit, after) = (self.max_reply, self.timing.read);
        let too_large = || ModelError::TooLarge { server: self.server(), limit };
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        loop {
            let late = |_| ModelError::TimedOut { server: self.server(), wait: Wait::Body, after };
            let chunk = timeout(after, response.chunk()).await.map_err(late)?;
            let Some(chunk) = chunk.map_err(|error| self.interrupted(&error))? else { return Ok(bytes) };
            bytes.extend_from_slice(&chunk);
            if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
                return Err(too_large());
            }
        }
    }

    /// The beginning of what a server says about a refusal.
    async fn explanation(&self, mut response: Response) -> Result<Vec<u8>, ModelError> {
        let (mut bytes, after) = (Vec::new(), self.timing.read);
        while (bytes.len() as u64) < EXPLANATION {
            let late = |_| ModelError::TimedOut { server: self.server(), wait: Wait::Body, after };
            let chunk = timeout(after, response.chunk()).await.map_err(late)?;
            let Some(chunk) = chunk.map_err(|error| self.interrupted(&error))? else { break };
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// What a refusal means. Servers agree on the status; on what is below it they do not, so words are looked at too.
    fn refusal(&self, status: u16, body: &[u8], retry_after: Option<Duration>) -> ModelError {
        let body = String::from_utf8_lossy(body);
        let budget = Budget::new(VALUES + body.len() as u64);
        let json = bounded::value(body.as_bytes(), &budget).unwrap_or_default();
        let error = if json["error"].is_null() { &json } else { &json["error"] };
        let words = error["message"].as_str().or_else(|| error.as_str()).unwrap_or(&body);
        let (server, said) = (self.server(), self.shown(words));
        let field = |name: &str| error[name].as_str().unwrap_or_default().to_ascii_lowercase();
        let codes = format!("{} {} {}", field("code"), field("type"), field("status"));
        let told = format!("{codes} {}", words.to_ascii_lowercase());
        let tells = |marks: &[&str]| marks.iter().any(|mark| told.contains(mark));
        match status {
            401 | 403 => ModelError::Unauthorised { server, status, variable: self.variable, said },
            404 => ModelError::NoSuchModel { server, model: Shown::new(&self.model), said },
            400 | 413 | 422 if tells(&TOO_LONG) => ModelError::ContextLength { said },
            400 | 422 if tells(&FILTERED) => ModelError::ContentFilter { said },
            402 => ModelError::Quota { server, said },
            429 if tells(&["insufficient_quota", "billing_hard_limit"]) => ModelError::Quota { server, said },
            429 | 529 => ModelError::RateLimited { server, status, said, retry_after },
            408 | 409 | 425 | 500.. => ModelError::Broken { server, status, said, retry_after },
            _ => ModelError::Refused { server, status, said },
        }
    }
}

/// How servers say that a conversation is too long.
const TOO_LONG: [&str; 8] = [
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "exceed_context_size",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "exceeds the available context size",
];
/// And that nobody should hear it.
const FILTERED: [&str; 4] =
    ["content_filter", "content_policy_violation", "content management policy", "invalid_prompt"];
