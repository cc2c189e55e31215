//! `web_search`: one question to one service, from the host.
//!
//! It reaches the host that the plan names and no other: no redirect is followed and no proxy is used.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use log::message::ToolErrorKind;
use profile::SearchProvider;
use reqwest::{Client, redirect};
use serde_json::{Value, json};

use super::keys::Keys;
use super::providers::{Found, question, results};
use super::tls;
use crate::tools::run::cut;
use crate::tools::{Called, Hands};

const CONNECT: Duration = Duration::from_secs(10);
/// The most of an answer that is read.
const MOST_ANSWER: usize = 1 << 20;
/// Memory for the values of an answer, beside their texts.
const VALUES: u64 = 8 << 20;
/// The longest question.
const MOST_QUERY: usize = 2000;

/// Who is asked; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Search(Option<Arc<Service>>);

pub(super) struct Service {
    provider: SearchProvider,
    keys: Keys,
    /// Made when it is needed: authorities are read for it.
    client: OnceLock<Result<Client, String>>,
}

/// Why there are no results, and what the log says of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) kind: ToolErrorKind,
    pub(super) status: Value,
    pub(super) message: String,
}

fn trouble(kind: ToolErrorKind, status: impl Into<Value>, message: impl Into<String>) -> Trouble {
    Trouble { kind, status: status.into(), message: message.into() }
}

impl Search {
    pub(crate) fn new(provider: Option<SearchProvider>, keys: Keys) -> Self {
        Self(provider.map(|provider| Arc::new(Service::new(provider, keys))))
    }
}

/// Asks, and writes down that it did: not what, which the call itself says.
pub(in crate::tools) async fn search(query: &str, hands: &Hands<'_>) -> Called {
    let Some(service) = &hands.kit.search.0 else {
        return Called::error(ToolErrorKind::Unknown, "the profile names no search provider");
    };
    let started = Instant::now();
    let timeout = hands.manner.timeout;
    let asked = tokio::time::timeout(timeout, service.ask(query)).await.unwrap_or_else(|_| {
        let message = format!("the search provider did not answer in {} s", timeout.as_secs_f64());
        Err(trouble(ToolErrorKind::Timeout, "timeout", message))
    });
    let (status, count) = match &asked {
        Ok(found) => (json!(200), found.len()),
        Err(trouble) => (trouble.status.clone(), 0),
    };
    hands.journal.info(json!({
        "kind": "web_search", "provider": service.provider.provider, "host": service.provider.host,
        "status": status, "results": count,
        "milliseconds": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    }));
    match asked {
        Ok(found) if found.is_empty() => Called::said("Nothing was found."),
        Ok(found) => cut(shown(&found), hands.manner.output, false, hands.journal.redactor()),
        Err(Trouble { kind, message, .. }) => Called::error(kind, message),
    }
}

fn shown(found: &[Found]) -> String {
    let mut text = String::new();
    for (index, Found { title, url, summary }) in found.iter().enumerate() {
        let separator = if index == 0 { "" } else { "\n" };
        let title = if title.is_empty() { url } else { title };
        // Writing to a text does not fail.
        let _ = write!(text, "{separator}{}. {title}\n   {url}\n", index + 1);
        if !summary.is_empty() {
            let _ = writeln!(text, "   {summary}");
        }
    }
    text
}

impl Service {
    pub(super) fn new(provider: SearchProvider, keys: Keys) -> Self {
        Self { provider, keys, client: OnceLock::new() }
    }

    pub(super) async fn ask(&self, query: &str) -> Result<Vec<Found>, Trouble> {
        let unsound = |message: &str| trouble(ToolErrorKind::Parsing, "not asked", message);
        if query.trim().is_empty() {
            return Err(unsound("`query` of `web_search` is empty"));
        }
        if query.len() > MOST_QUERY {
            return Err(unsound("`query` of `web_search` is too long"));
        }
        let failed = |why: &str| trouble(ToolErrorKind::Unknown, "failed", why);
        let question =
            question(&self.provider, &self.keys, query).ok_or_else(|| failed("the question cannot be put"))?;
        let client = self.client.get_or_init(|| client(&self.provider)).as_ref();
        let client = client.map_err(|_| failed("this machine has no certificates to check the search provider by"))?;
        let request = match question.body {
            Some(body) => client.post(question.url).body(body),
            None => client.get(question.url),
        };
        // What reqwest says has the address in it, and the address may have the key.
        let response = request.headers(question.headers).send().await;
        let mut response = response.map_err(|_| failed("the search provider cannot be reached"))?;
        let status = response.status().as_u16();
        if let Some((kind, message)) = refused(status) {
            return Err(trouble(kind, status, message));
        }
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => return Err(failed("the search provider broke off its answer")),
            }
            if bytes.len() > MOST_ANSWER {
                return Err(trouble(ToolErrorKind::Limit, "too long", "the search provider's answer is too long"));
            }
        }
        let budget = bounded::Budget::new(VALUES + bytes.len() as u64);
        let answer = bounded::value(&bytes, &budget).ok();
        let found = answer.as_ref().and_then(|answer| results(&self.provider, answer));
        found.ok_or_else(|| {
            trouble(ToolErrorKind::Unknown, "malformed", "the search provider's answer cannot be understood")
        })
    }
}

/// Why an answer with this status is none.
fn refused(status: u16) -> Option<(ToolErrorKind, &'static str)> {
    match status {
        200..=299 => None,
        300..=399 => Some((ToolErrorKind::Unknown, "the search provider redirects elsewhere, which is not followed")),
        401 | 403 => Some((ToolErrorKind::Permission, "the search provider does not accept its key")),
        429 => Some((ToolErrorKind::Limit, "the search provider was asked too often; try again later")),
        _ => Some((ToolErrorKind::Unknown, "the search provider failed")),
    }
}

fn client(provider: &SearchProvider) -> Result<Client, String> {
    let config = if provider.endpoint.starts_with("http:") {
        strangers::trusting_nobody().map_err(|error| error.to_string())?
    } else {
        (*tls::trusting_the_system()?).clone()
    };
    // What `localhost` means is not for a resolver to say (RFC 6761, section 6.3). Port 0 stands for the address'.
    let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
    Client::builder()
        .tls_backend_preconfigured(config)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .http1_only()
        .connect_timeout(CONNECT)
        .user_agent(super::USER_AGENT)
        .resolve_to_addrs("localhost", &here)
        .build()
        .map_err(|error| error.without_url().to_string())
}
