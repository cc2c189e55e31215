//! Pages of servers on this machine, through a sandbox without isolation: its guest is the one that connects.

use std::time::{Duration, Instant};

use log::message::ToolErrorKind;
use profile::{Document, Environment, Facts, Overrides, Plan, Request};
use sandbox::Sandbox;

use super::fake::{Asked, Fake, Says, answer, redirect};
use super::fetch::{Refusal, Refused, follow};
use super::page::Page;
use crate::approval::Permit;

/// A plan that permits nothing, so that whatever cannot be reached is said to be forbidden.
fn plan() -> Plan {
    let document = Document::parse("x", "profile: T1.H1.N1\nnetwork: {allow_domains: [www.example.org]}\n").unwrap();
    let request = Request::resolve(document, &Environment::default(), Overrides::default());
    profile::compile(&request, &Facts::assumed()).unwrap()
}

async fn fetch(url: &str, sandbox: &Sandbox) -> Result<(String, Page), (ToolErrorKind, String)> {
    permitted(url, sandbox, &Permit::unbound()).await
}

async fn permitted(url: &str, sandbox: &Sandbox, permit: &Permit) -> Result<(String, Page), (ToolErrorKind, String)> {
    let limit = Duration::from_secs(15);
    let plan = plan();
    let fetched = follow(url, sandbox, (&plan, permit), Duration::from_secs(5));
    match tokio::time::timeout(limit, fetched).await.unwrap() {
        Ok((url, page)) => Ok((url.into(), page)),
        Err(Refused::Told(Refusal(kind, message))) => Err((kind, message)),
        Err(Refused::Died(error)) => Err((ToolErrorKind::SandboxUnavailable, error.to_string())),
    }
}

fn site(asked: &Asked) -> Says {
    assert_eq!((asked.method.as_str(), asked.headers["accept-encoding"].as_str()), ("GET", "identity"));
    let hops = asked.query.get("hops").map_or(0, |hops| hops.parse::<u32>().unwrap());
    match asked.path.as_str() {
        "/page" => answer(200, "text/html; charset=iso-8859-1", "<title>T</title><p>Hello <a href=x>there</a>"),
        "/text" => answer(200, "text/plain", "<b>as it is</b>"),
        "/json" => answer(200, "application/json", "{\"a\": 1}"),
        "/image" => answer(200, "image/png", "png"),
        "/missing" => answer(404, "text/html", "no"),
        "/squeezed" => Says::Bytes(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx".to_vec()),
        "/hops" if hops > 0 => redirect(302, &format!("?hops={}", hops - 1)),
        "/hops" => answer(200, "text/plain", "arrived"),
        "/loop" => redirect(301, "/loop"),
        "/file" => redirect(302, "file:///etc/passwd"),
        "/user" => redirect(302, "http://me:pw@127.0.0.1/"),
        "/nowhere" => redirect(302, "http://["),
        "/announced" => {
            Says::Bytes(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99999999\r\n\r\n".to_vec())
        }
        "/endless" => {
            let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x1_0000], b"\r\n"].concat();
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            Says::Endless([head, chunk.repeat(90)].concat())
        }
        "/cut" => Says::Bytes(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nx".to_vec()),
        "/heads" => Says::Endless(b"HTTP/1.1 200 OK\r\nA: b\r\n".to_vec()),
        "/refused" => Says::Bytes(
            b"HTTP/1.1 403 Forbidden\r\nX-Ringfence-Reason: host_mismatch\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
        _ => Says::Bytes(b"SSH-2.0-no\r\n".to_vec()),
    }
}

#[tokio::test]
async fn pages_are_fetched_as_text() {
    let (fake, sandbox) = (Fake::start(site).await, sandbox::start_local().await.unwrap());
    let (url, page) = fetch(&fake.url("/page#part"), &sandbox).await.unwrap();
    assert_eq!(url, fake.url("/page"));
    assert_eq!(page, Page { title: "T".into(), text: format!("Hello [there]({})", fake.url("/x")) });
    assert_eq!(fetch(&fake.url("/text"), &sandbox).await.unwrap().1.text, "<b>as it is</b>");
    assert_eq!(fetch(&fake.url("/json"), &sandbox).await.unwrap().1.text, "{\"a\": 1}");
    let (url, page) = fetch(&fake.url("/hops?hops=5"), &sandbox).await.unwrap();
    assert_eq!((url, page.text.as_str()), (fake.url("/hops?hops=0"), "arrived"));
    let host = fake.asked()[0].headers["host"].clone();
    assert_eq!(host, fake.address.to_string());
}

#[tokio::test]
async fn what_is_no_page_is_refused_by_name() {
    use ToolErrorKind::{Limit, Parsing, Permission, Unknown};
    let (fake, sandbox) = (Fake::start(site).await, sandbox::start_local().await.unwrap());
    for (path, kind, words) in [
        ("/image", Unknown, "image/png"),
        ("/missing", Unknown, "404"),
        ("/squeezed", Unknown, "`br`"),
        ("/hops?hops=6", Limit, "more than 5 redirects"),
        ("/loop", Limit, "more than 5 redirects"),
        ("/file", Parsing, "file:///etc/passwd"),
        ("/user", Parsing, "a user or a password"),
        ("/nowhere", Unknown, "not an address"),
        ("/announced", Limit, "longer than 5 MiB"),
        ("/endless", Limit, "longer than 5 MiB"),
        ("/cut", Permission, "do not allow"),
        ("/heads", Permission, "do not allow"),
        ("/refused", Permission, "host_mismatch"),
        ("/garbage", Permission, "do not allow"),
    ] {
        let (found, message) = fetch(&fake.url(path), &sandbox).await.unwrap_err();
        assert_eq!(found, kind, "{path}: {message}");
        assert!(message.contains(words), "{path}: {message}");
    }
    for (url, words) in [
        ("", "is not an address"),
        ("www.example.org", "is not an address"),
        ("ftp://www.example.org/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("data:text/html,x", "only http and https"),
        ("http://me@127.0.0.1/", "a user or a password"),
        ("http:///", "is not an address"),
        (&format!("http://a.example.org/{}", "x".repeat(9000)), "too long"),
    ] {
        let (kind, message) = fetch(url, &sandbox).await.unwrap_err();
        assert!(kind == Parsing && message.contains(words), "{url}: {message}");
    }
    // TLS with a server that speaks none.
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", plain.local_addr().unwrap());
    let serve = async {
        let (mut stream, _) = plain.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"SSH-2.0-no\r\n").await.unwrap();
        stream
    };
    let (fetched, _stream) = tokio::join!(fetch(&url, &sandbox), serve);
    let (_, message) = fetched.unwrap_err();
    assert!(message.contains("cannot be trusted"), "{message}");
    // A port that nobody listens on is not among the listed.
    let (kind, message) = fetch("http://127.0.0.1:9/", &sandbox).await.unwrap_err();
    assert_eq!((kind, message.as_str()), (Permission, "the profile's network rules do not allow 127.0.0.1 on port 9"));
}

#[tokio::test]
async fn a_silent_server_and_a_dead_sandbox_are_told_apart() {
    let (fake, sandbox) = (Fake::start(|_| Says::Nothing).await, sandbox::start_local().await.unwrap());
    let started = Instant::now();
    let url = fake.url("/");
    let waiting = tokio::time::timeout(Duration::from_millis(500), fetch(&url, &sandbox)).await;
    assert!(waiting.is_err() && started.elapsed() < Duration::from_secs(5));
    sandbox.session().shutdown();
    sandbox.session().gone().await;
    assert_eq!(fetch(&url, &sandbox).await.unwrap_err().0, ToolErrorKind::SandboxUnavailable);
}

#[tokio::test]
async fn a_redirect_out_of_what_was_approved_is_refused() {
    let sandbox = sandbox::start_local().await.unwrap();
    let elsewhere = Fake::start(site).await;
    let leads = elsewhere.url("/text");
    let fake = Fake::start(move |_| redirect(302, &leads)).await;
    let here = Permit::bound_to("127.0.0.1", fake.address.port());
    let (kind, message) = permitted(&fake.url("/"), &sandbox, &here).await.unwrap_err();
    assert_eq!(kind, ToolErrorKind::Approval, "{message}");
    assert!(elsewhere.asked().is_empty());
    assert_eq!(permitted(&fake.url("/"), &sandbox, &Permit::unbound()).await.unwrap().1.text, "<b>as it is</b>");
}
