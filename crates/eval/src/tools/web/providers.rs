//! How each search service is asked, and where its answer has the results. Pure: what is sent is data.

use profile::{ResultFields, SEARCH_QUERY, SearchKind, SearchProvider};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use super::keys::Keys;
use super::page::plain;
use super::tidy;

/// The most results that are asked for and shown.
pub(super) const MOST_RESULTS: usize = 10;
const MOST_TITLE: usize = 200;
const MOST_ADDRESS: usize = 2000;
const MOST_SUMMARY: usize = 1000;

/// A question, ready to be sent.
pub(super) struct Question {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Sent by POST if it is there.
    pub(super) body: Option<String>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) summary: String,
}

/// Puts a question; `None` if what the plan says cannot be sent.
pub(super) fn question(provider: &SearchProvider, keys: &Keys, query: &str) -> Option<Question> {
    let key = |index: usize| provider.keys.get(index).map(|key| keys.get(&key.variable)).unwrap_or_default();
    let secret = |text: &str| {
        let mut value = HeaderValue::from_str(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if provider.provider == SearchKind::Json {
        // Nothing of the question but letters and digits is left as it is: it stays inside its parameter.
        let encoded = percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC).to_string();
        let url = Url::parse(&provider.endpoint.replace(SEARCH_QUERY, &encoded)).ok()?;
        if let Some(stated) = provider.keys.first() {
            let (name, value) = match &stated.header {
                None => (AUTHORIZATION, secret(&format!("Bearer {}", key(0)))?),
                Some(name) => (HeaderName::from_bytes(name.as_bytes()).ok()?, secret(key(0))?),
            };
            headers.insert(name, value);
        }
        return Some(Question { url, headers, body: None });
    }
    let mut url = Url::parse(&provider.endpoint).ok()?;
    let most = MOST_RESULTS.to_string();
    let mut body = None;
    match provider.provider {
        SearchKind::Tavily => {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", key(0)))?);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            body = Some(json!({"query": query, "max_results": MOST_RESULTS, "search_depth": "basic"}).to_string());
        }
        SearchKind::Google => {
            let pairs = [("key", key(0)), ("cx", key(1)), ("q", query), ("num", &most)];
            url.query_pairs_mut().extend_pairs(pairs);
        }
        SearchKind::Brave => {
            headers.insert(HeaderName::from_static("x-subscription-token"), secret(key(0))?);
            url.query_pairs_mut().extend_pairs([("q", query), ("count", &most)]);
        }
        SearchKind::Json => {}
    }
    Some(Question { url, headers, body })
}

/// The results in an answer; `None` if it is not the service's.
pub(super) fn results(provider: &SearchProvider, answer: &Value) -> Option<Vec<Found>> {
    let fields = |list: &str, title: &str, url: &str, summary: &str| ResultFields {
        list: list.into(),
        title: title.into(),
        url: url.into(),
        summary: summary.into(),
    };
    let fields = match (provider.provider, &provider.results) {
        (SearchKind::Tavily, _) => fields("/results", "/title", "/url", "/content"),
        (SearchKind::Google, _) => fields("/items", "/title", "/link", "/snippet"),
        (SearchKind::Brave, _) => fields("/web/results", "/title", "/url", "/description"),
        (SearchKind::Json, Some(fields)) => fields.clone(),
        (SearchKind::Json, None) => ResultFields::default(),
    };
    let Some(list) = answer.pointer(&fields.list) else {
        // Google and Brave leave the list out where nothing was found.
        let may_be_absent = matches!(provider.provider, SearchKind::Google | SearchKind::Brave);
        return (may_be_absent && answer.is_object()).then(Vec::new);
    };
    let found = list.as_array()?.iter().filter_map(|item| {
        let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let clean = |pointer: &str, most: usize| match provider.provider {
            // It marks words with tags.
            SearchKind::Brave => tidy(&plain(text(pointer)), most),
            SearchKind::Tavily | SearchKind::Google | SearchKind::Json => tidy(text(pointer), most),
        };
        let url = Url::parse(text(&fields.url)).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let url = String::from(url);
        (url.len() <= MOST_ADDRESS).then(|| Found {
            title: clean(&fields.title, MOST_TITLE),
            url,
            summary: clean(&fields.summary, MOST_SUMMARY),
        })
    });
    Some(found.take(MOST_RESULTS).collect())
}
