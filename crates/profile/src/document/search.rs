//! Who answers `web_search`: where it is, and by which variables its keys come. Never a key itself.

use serde::Serialize;
use url::{Host, Url};

use crate::affordance::Reach;
use crate::hostname::HostName;
use crate::pattern::HostPattern;
use crate::problem::{Place, Problem};
use crate::reader::{Complaints, Fields};
use crate::words::words;
use crate::yaml::{Node, Value};

words!(
    /// A kind of search service.
    SearchKind, "a search provider", {
        /// Tavily.
        Tavily = "tavily",
        /// Google's programmable search.
        Google = "google",
        /// Brave Search.
        Brave = "brave",
        /// Any service that answers a GET with JSON.
        Json = "json",
    }
);

/// Where results are in the answer of a `json` service: JSON pointers (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResultFields {
    /// The list, from the top; `/results` by default.
    pub list: String,
    /// The title of one, from there; `/title` by default.
    pub title: String,
    /// Its address; `/url` by default.
    pub url: String,
    /// Its summary; `/content` by default.
    pub summary: String,
}

impl Default for ResultFields {
    fn default() -> Self {
        Self { list: "/results".into(), title: "/title".into(), url: "/url".into(), summary: "/content".into() }
    }
}

/// A key that a service wants, by the variable that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchKey {
    /// The variable of the runner's environment.
    pub variable: String,
    /// The header that carries it; absent means `Authorization: Bearer`, or the service's own way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

/// Who answers `web_search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchProvider {
    /// What is spoken there.
    pub provider: SearchKind,
    /// The whole address; for `json` with `{query}` where the question goes.
    pub endpoint: String,
    /// The host that is asked: a name, or an address of this machine itself.
    pub host: String,
    /// The keys that it needs, in the order of the service.
    pub keys: Vec<SearchKey>,
    /// Where results are, for `json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<ResultFields>,
}

impl SearchProvider {
    /// What it reaches: its one name, or a port of this machine.
    pub(crate) fn reach(&self) -> Reach {
        match HostName::parse(&self.host) {
            Ok(name) => Reach::Names([HostPattern::Exact(name)].into()),
            Err(_) => Reach::Loopback,
        }
    }
}

/// Stands for the question in an endpoint.
pub const SEARCH_QUERY: &str = "{query}";
/// Something that stands nowhere else in an endpoint: what a model asks must not choose the host or the path.
const MARK: &str = "ringfencequestion";
/// Keys of a tool's declaration that speak of its provider.
pub(super) const KEYS: &[&str] = &["provider", "endpoint", "results", "key"];
/// How the variables begin that a document may have sent to an endpoint of its own choice.
const KEY_PREFIX: &str = "SEARCH_";
const RESULT_KEYS: &[&str] = &["list", "title", "url", "summary"];
const KEY_KEYS: &[&str] = &["variable", "header"];

struct Known {
    endpoint: &'static str,
    keys: &'static [&'static str],
}

fn known(kind: SearchKind) -> Option<Known> {
    Some(match kind {
        SearchKind::Tavily => Known { endpoint: "https://api.tavily.com/search", keys: &["TAVILY_API_KEY"] },
        SearchKind::Google => Known {
            endpoint: "https://www.googleapis.com/customsearch/v1",
            keys: &["GOOGLE_CSE_API_KEY", "GOOGLE_CSE_ID"],
        },
        SearchKind::Brave => {
            Known { endpoint: "https://api.search.brave.com/res/v1/web/search", keys: &["BRAVE_API_KEY"] }
        }
        SearchKind::Json => return None,
    })
}

/// Takes what a tool's declaration says of its provider; `None` if it says nothing, or nothing that can be used.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<SearchProvider> {
    let complaints = fields.complaints();
    let stated = fields.has("provider");
    let place = fields.place();
    let kind = fields.parsed::<SearchKind>("provider");
    let (endpoint, results, key) = (fields.text("endpoint"), fields.take("results"), fields.take("key"));
    let Some(kind) = kind.map(|kind| kind.value) else {
        if !stated && (endpoint.is_some() || results.is_some() || key.is_some()) {
            let problem = Problem::at(place, "`endpoint`, `results` and `key` are of a search provider");
            complaints.add(problem.hint("add provider: tavily, google, brave or json"));
        }
        return None;
    };
    let endpoint_place = endpoint.as_ref().and_then(|endpoint| endpoint.place).unwrap_or(place);
    let wrong = |(message, hint): (String, &str)| complaints.add(Problem::at(endpoint_place, message).hint(hint));
    let endpoint = endpoint.map(|endpoint| endpoint.value);
    if let Some(known) = known(kind) {
        for node in [&results, &key].into_iter().flatten() {
            let problem = Problem::at(node.place, format!("what `{kind}` answers and wants is known"));
            complaints.add(problem.hint("remove it, or use provider: json"));
        }
        let (endpoint, host) = named_endpoint(known.endpoint, endpoint.as_deref()).map_err(wrong).ok()?;
        let keys = known.keys.iter().map(|name| SearchKey { variable: (*name).to_owned(), header: None }).collect();
        return Some(SearchProvider { provider: kind, endpoint, host, keys, results: None });
    }
    let Some(endpoint) = endpoint else {
        let problem = Problem::at(place, "the search provider `json` needs an `endpoint`");
        complaints.add(problem.hint("write endpoint: \"https://search.example.org/?q={query}\""));
        return None;
    };
    let host = own_endpoint(&endpoint).map_err(wrong).ok()?;
    let results = results.map_or_else(|| Some(ResultFields::default()), |node| read_results(node, complaints));
    let keys = key.map_or_else(|| Some(Vec::new()), |node| read_key(node, complaints).map(|key| vec![key]));
    Some(SearchProvider { provider: kind, endpoint, host, keys: keys?, results: Some(results?) })
}

/// The host of an address that may be asked: over TLS, or on this machine.
fn asked(address: &Url) -> Result<String, (String, &'static str)> {
    let plain = "write https://name, or http://127.0.0.1:PORT for a service on this machine";
    if !address.username().is_empty() || address.password().is_some() || address.fragment().is_some() {
        return Err(("`endpoint` has a user, a password or a fragment".into(), "give keys by variables"));
    }
    let (host, here) = match address.host() {
        Some(Host::Domain(name)) if name == "localhost" => (name.to_owned(), true),
        Some(Host::Ipv4(address)) if address.is_loopback() => (address.to_string(), true),
        Some(Host::Ipv6(address)) if address.is_loopback() => (address.to_string(), true),
        Some(Host::Domain(name)) => match HostName::parse(name) {
            Ok(name) => (name.to_string(), false),
            Err(error) => return Err((format!("`endpoint`: {error}"), plain)),
        },
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => {
            return Err(("`endpoint` is an address, which no rule can list".into(), "write its name"));
        }
        None => return Err(("`endpoint` has no host".into(), plain)),
    };
    match (address.scheme(), here) {
        ("https", _) | ("http", true) => Ok(host),
        ("http", false) => Err((format!("`endpoint` would ask {host} in plain text"), plain)),
        (scheme, _) => Err((format!("`endpoint` cannot be {scheme}"), plain)),
    }
}

/// A known service's address, at its own host or at another.
fn named_endpoint(own: &str, stated: Option<&str>) -> Result<(String, String), (String, &'static str)> {
    let unsound = |_| (String::from("`endpoint` is not an address"), "write https://name");
    let mut address = Url::parse(own).map_err(unsound)?;
    if let Some(stated) = stated {
        let other = Url::parse(stated).map_err(unsound)?;
        if other.path() != "/" || other.query().is_some() {
            let hint = "write https://name alone, or use provider: json";
            return Err(("`endpoint` has a path, and the provider's own is added to it".into(), hint));
        }
        let path = address.path().to_owned();
        address = other;
        address.set_path(&path);
    }
    let host = asked(&address)?;
    // Whoever writes a document must not choose to whom a well-known key of the runner goes.
    if stated.is_some() && host != "localhost" && HostName::parse(&host).is_ok() {
        let message = format!("`endpoint` would send the provider's key to {host}");
        return Err((message, "leave it out, use a service on this machine, or provider: json with a key of its own"));
    }
    Ok((address.to_string(), host))
}

/// The host of a `json` service's address.
fn own_endpoint(text: &str) -> Result<String, (String, &'static str)> {
    let hint = "write \"https://search.example.org/?q={query}\"";
    if text.matches(SEARCH_QUERY).count() != 1 {
        return Err((format!("`endpoint` needs {SEARCH_QUERY} once, where the question goes"), hint));
    }
    let address =
        Url::parse(&text.replace(SEARCH_QUERY, MARK)).map_err(|_| ("`endpoint` is not an address".into(), hint))?;
    let host = asked(&address)?;
    if text.contains(MARK) || !address.query().is_some_and(|query| query.contains(MARK)) {
        return Err((format!("{SEARCH_QUERY} must stand behind the question mark of `endpoint`"), hint));
    }
    Ok(host)
}

fn read_results(node: Node, complaints: &Complaints) -> Option<ResultFields> {
    let mut fields = Fields::open(node, "`results`", RESULT_KEYS, complaints)?;
    let mut results = ResultFields::default();
    let mut sound = true;
    for (key, to) in [
        ("list", &mut results.list),
        ("title", &mut results.title),
        ("url", &mut results.url),
        ("summary", &mut results.summary),
    ] {
        let Some(pointer) = fields.text(key) else { continue };
        if pointer.value.is_empty() || pointer.value.starts_with('/') {
            *to = pointer.value;
        } else {
            let message = format!("`{key}` is not a JSON pointer");
            complaints.add(Problem { place: pointer.place, message, hint: Some("write /name or /outer/inner".into()) });
            sound = false;
        }
    }
    fields.close();
    sound.then_some(results)
}

/// `key: VARIABLE`, or `key: {variable: VARIABLE, header: NAME}`.
fn read_key(node: Node, complaints: &Complaints) -> Option<SearchKey> {
    let place = node.place;
    let (variable, header) = if let Value::Map(_) = node.value {
        let mut fields = Fields::open(node, "`key`", KEY_KEYS, complaints)?;
        let (variable, header) = (fields.text("variable"), fields.text("header"));
        fields.close();
        (variable?.value, header.map(|header| header.value))
    } else {
        (crate::reader::text(node, "key", complaints)?.value, None)
    };
    let refuse = |place: Place, message: &str, hint: &str| complaints.add(Problem::at(place, message).hint(hint));
    let starts = variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || variable.len() > 128 || !variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        // Not shown: people write the key itself here by mistake.
        refuse(place, "`key` is not the name of a variable", "name the variable that holds it, such as SEARCH_API_KEY");
        return None;
    }
    if !variable.starts_with(KEY_PREFIX) {
        let message = format!("`key` must name a variable that begins with `{KEY_PREFIX}`");
        refuse(place, &message, "a document says where it is sent, so it may not be any variable of the runner's");
        return None;
    }
    let sound = |name: &String| {
        !name.is_empty() && name.len() <= 128 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if header.as_ref().is_some_and(|name| !sound(name)) {
        refuse(place, "`header` is not a header's name", "use letters, digits and -, such as X-Api-Key");
        return None;
    }
    Some(SearchKey { variable, header })
}
