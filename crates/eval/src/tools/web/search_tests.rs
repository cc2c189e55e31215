//! Each service as its documentation has it, and everything that it may do to us.

use std::time::Duration;

use log::message::ToolErrorKind;
use profile::{Document, SearchProvider};
use serde_json::{Value, json};

use super::fake::{Asked, Fake, Says, answer, redirect};
use super::keys::{Keys, MissingKey};
use super::providers::Found;
use super::search::{Service, Trouble};

const QUESTION: &str = "rust & \"sandboxes\" #1 ?/é";

fn provider(declared: &str) -> SearchProvider {
    let text = format!("profile: T1.H1.N1\ntools: [{{name: web_search, {declared}}}]\n");
    Document::parse("x", &text).unwrap().search.unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "an environment that has every variable")]
fn key(variable: &str) -> Option<String> {
    Some(format!("value-of-{variable}"))
}

async fn ask(declared: &str, fake: &Fake) -> Result<Vec<Found>, Trouble> {
    let provider = provider(&declared.replace("HERE", &fake.url("")));
    let keys = Keys::of(Some(&provider), key).unwrap();
    let service = Service::new(provider, keys);
    tokio::time::timeout(Duration::from_millis(1500), service.ask(QUESTION)).await.unwrap_or_else(|_| {
        Err(Trouble { kind: ToolErrorKind::Timeout, status: "timeout".into(), message: String::new() })
    })
}

fn found(title: &str, url: &str, summary: &str) -> Found {
    Found { title: title.into(), url: url.into(), summary: summary.into() }
}

const SERVICES: [&str; 4] = [
    "provider: tavily, endpoint: 'HERE'",
    "provider: google, endpoint: 'HERE'",
    "provider: brave, endpoint: 'HERE'",
    "provider: json, endpoint: 'HERE/find?lang=en&q={query}&x=1', key: {variable: SEARCH_MY_KEY, header: X-Api-Key}, \
     results: {list: /data/hits, title: /name, url: /where, summary: /about/0}",
];

/// What each service answers to a request of its published shape; anything else is refused with 400.
fn strict(asked: &Asked) -> Says {
    let header = |name: &str| asked.headers.get(name).map(String::as_str);
    let parameter = |name: &str| asked.query.get(name).map(String::as_str);
    let body: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    let json_body = |value: &Value| answer(200, "application/json", &value.to_string());
    let is_get = asked.method == "GET" && asked.body.is_empty();
    match asked.path.as_str() {
        // https://docs.tavily.com/documentation/api-reference/endpoint/search
        "/search"
            if asked.method == "POST"
                && header("authorization") == Some("Bearer value-of-TAVILY_API_KEY")
                && header("content-type") == Some("application/json")
                && body["query"] == QUESTION
                && body["max_results"].as_u64().is_some_and(|most| most <= 20)
                && body["search_depth"] == "basic" =>
        {
            json_body(&json!({"query": QUESTION, "response_time": "1.2", "results": [
                {"title": "One", "url": "https://one.example.org/", "content": "a < b\n and\tmore", "score": 0.9},
                {"title": "Bad", "url": "javascript:alert(1)", "content": "no"},
            ]}))
        }
        // https://developers.google.com/custom-search/v1/reference/rest/v1/cse/list
        "/customsearch/v1"
            if is_get
                && parameter("key") == Some("value-of-GOOGLE_CSE_API_KEY")
                && parameter("cx") == Some("value-of-GOOGLE_CSE_ID")
                && parameter("q") == Some(QUESTION)
                && parameter("num") == Some("10") =>
        {
            json_body(&json!({"kind": "customsearch#search", "items": [
                {"title": "One", "link": "https://one.example.org/", "snippet": "a < b and more", "htmlTitle": "<b>One</b>"},
            ]}))
        }
        // https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
        "/res/v1/web/search"
            if is_get
                && header("x-subscription-token") == Some("value-of-BRAVE_API_KEY")
                && header("accept") == Some("application/json")
                && parameter("q") == Some(QUESTION)
                && parameter("count") == Some("10") =>
        {
            json_body(&json!({"type": "search", "web": {"results": [
                {"title": "<strong>One</strong>", "url": "https://one.example.org/", "description": "a &lt; b <strong>and</strong> more"},
            ]}}))
        }
        "/find"
            if is_get
                && header("x-api-key") == Some("value-of-SEARCH_MY_KEY")
                && parameter("q") == Some(QUESTION)
                && (parameter("lang"), parameter("x")) == (Some("en"), Some("1")) =>
        {
            json_body(&json!({"data": {"hits": [
                {"name": "One", "where": "https://one.example.org", "about": ["a < b and more"]},
            ]}}))
        }
        _ => answer(400, "text/plain", "no"),
    }
}

#[tokio::test]
async fn each_service_is_asked_as_it_wants() {
    let fake = Fake::start(strict).await;
    for declared in SERVICES {
        let expected = vec![found("One", "https://one.example.org/", "a < b and more")];
        assert_eq!(ask(declared, &fake).await, Ok(expected), "{declared}: {:?}", fake.asked());
    }
    let agents: Vec<_> = fake.asked().into_iter().map(|asked| asked.headers["user-agent"].clone()).collect();
    assert!(agents.iter().all(|agent| agent.starts_with("ringfence/")));
}

#[tokio::test]
async fn every_fault_of_a_service_is_told() {
    use ToolErrorKind::{Limit, Permission, Timeout, Unknown};
    type Fault = fn() -> Says;
    let faults: [(Fault, ToolErrorKind, Value); 11] = [
        (|| answer(401, "application/json", "{}"), Permission, json!(401)),
        (|| answer(403, "application/json", "{}"), Permission, json!(403)),
        (|| answer(429, "application/json", "{}"), Limit, json!(429)),
        (|| answer(500, "text/html", "<h1>no</h1>"), Unknown, json!(500)),
        (|| redirect(302, "https://evil.example.net/"), Unknown, json!(302)),
        (|| Says::Nothing, Timeout, json!("timeout")),
        (|| answer(200, "application/json", "{\"results\": [{"), Unknown, json!("malformed")),
        (|| answer(200, "application/json", "[1, 2]"), Unknown, json!("malformed")),
        (|| answer(200, "application/json", &format!("\"{}\"", "x".repeat(2 << 20))), Limit, json!("too long")),
        (|| Says::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec()), Unknown, json!("failed")),
        (|| Says::Bytes(b"nonsense\r\n\r\n".to_vec()), Unknown, json!("failed")),
    ];
    for (says, kind, status) in faults {
        let fake = Fake::start(move |_| says()).await;
        for declared in SERVICES {
            let trouble = ask(declared, &fake).await.unwrap_err();
            assert_eq!((trouble.kind, &trouble.status), (kind, &status), "{declared}: {trouble:?}");
            assert!(!trouble.message.contains("value-of"), "{trouble:?}");
        }
        // Nothing is asked again, and nobody else.
        assert_eq!(fake.asked().len(), SERVICES.len());
    }
}

#[tokio::test]
async fn endless_and_strange_answers_are_bounded() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x1_0000], b"\r\n"].concat();
    let fake = Fake::start(move |_| Says::Endless([head.clone(), chunk.repeat(20)].concat())).await;
    assert_eq!(ask(SERVICES[0], &fake).await.unwrap_err().status, "too long");
    // More results than were asked for, longer than they may be, with what a terminal would obey.
    let long =
        json!({"title": "t\u{1b}[31m".repeat(100), "url": "https://a.example.org/", "content": "s ".repeat(3000)});
    let many = json!({"results": vec![long; 50]}).to_string();
    let fake = Fake::start(move |_| answer(200, "application/json", &many)).await;
    let found = ask(SERVICES[0], &fake).await.unwrap();
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|one| one.title.len() < 250 && one.summary.len() < 1100 && !one.title.contains('\u{1b}')));
    // Nothing found is no fault.
    let fake = Fake::start(|_| answer(200, "application/json", "{\"kind\": \"customsearch#search\"}")).await;
    assert_eq!(ask(SERVICES[1], &fake).await, Ok(Vec::new()));
    // Nobody there.
    let nobody = { Fake::start(|_| Says::Nothing).await.address };
    let gone = Service::new(provider(&format!("provider: brave, endpoint: 'http://{nobody}'")), Keys::default());
    assert_eq!(gone.ask("x").await.unwrap_err().status, "failed");
    assert_eq!(gone.ask(" ").await.unwrap_err().kind, ToolErrorKind::Parsing);
    assert_eq!(gone.ask(&"x".repeat(3000)).await.unwrap_err().kind, ToolErrorKind::Parsing);
}

#[test]
fn keys_must_be_there_and_are_never_shown() {
    let provider = provider("provider: google");
    let without = |absent: &'static str| {
        Keys::of(Some(&provider), move |name| key(name).filter(|_| name != absent)).map(|_| ()).unwrap_err()
    };
    assert_eq!(without("GOOGLE_CSE_ID"), MissingKey::NotSet("GOOGLE_CSE_ID".into()));
    assert_eq!(without("GOOGLE_CSE_API_KEY"), MissingKey::NotSet("GOOGLE_CSE_API_KEY".into()));
    let broken = Keys::of(Some(&provider), |_| Some("hunter2\n".into())).unwrap_err();
    assert!(!format!("{broken:?} {broken} {}", broken.hint()).contains("hunter2"));
    let keys = Keys::of(Some(&provider), key).unwrap();
    assert!(!format!("{keys:?}").contains("value-of"));
    assert_eq!(Keys::of(None, |_| None).unwrap().values().count(), 0);
}
