use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Option<Head>, Reason> {
    read_head(text.as_bytes(), "a.example.org", Upgrades::Refused)
}

fn with(headers: &str) -> Result<Body, Reason> {
    let text = format!("POST /x HTTP/1.1\r\nHost: a.example.org\r\n{headers}\r\n");
    read(&text).map(|head| head.unwrap().body)
}

#[test]
fn a_plain_request_passes() {
    let text = "GET /x?y HTTP/1.1\r\nHost: A.example.org:80\r\nAccept: */*\r\n\r\nrest";
    let head = Head { length: text.len() - 4, body: Body::Length(0), request: "GET /x?y".into() };
    assert_eq!(read(text), Ok(Some(head)));
    for end in 0..text.len() - 4 {
        assert_eq!(read(&text[..end]), Ok(None), "{end}");
    }
    assert!(read("GET http://a.example.org/x HTTP/1.1\r\nHost: a.example.org\r\n\r\n").is_ok());
    assert!(read("OPTIONS * HTTP/1.1\r\nHost: a.example.org\r\n\r\n").is_ok());
}

#[test]
fn every_name_must_be_ours() {
    for (text, reason) in [
        ("GET / HTTP/1.1\r\nHost: b.example.org\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\nHost: a.example.org\r\nHost: b.example.org\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\nHost: a.example.org, b.example.org\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\nHost: a.example.org.\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\nHost: a.example.org:8080\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\nHost: a.example.org@evil.net\r\n\r\n", Reason::HostMismatch),
        ("GET / HTTP/1.1\r\n\r\n", Reason::HostMissing),
        ("GET / HTTP/1.0\r\n\r\n", Reason::HostMissing),
        ("GET http://b.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n", Reason::TargetMismatch),
        ("GET http://a.example.org@evil.net/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n", Reason::TargetMismatch),
        ("GET https://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n", Reason::TargetMismatch),
        ("GET evil.net/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n", Reason::TargetMismatch),
        ("CONNECT a.example.org:443 HTTP/1.1\r\nHost: a.example.org\r\n\r\n", Reason::ConnectMethod),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Reason::Http2),
    ] {
        assert_eq!(read(text), Err(reason), "{text}");
    }
}

#[test]
fn a_forwarding_header_names_no_other_host() {
    for header in [
        "X-Forwarded-Host: b.example.org",
        "x-forwarded-host: a.example.org, b.example.org",
        "X_Forwarded_Host: b.example.org",
        "X-Forwarded-Host: a.example.org\r\nX-Forwarded-Host: b.example.org",
        "X-Forwarded-Host: a.example.org.",
        "X-Forwarded-Host:",
        "X-Forwarded-Server: b.example.org",
        "X-Host: b.example.org",
        "X-Original-Host: b.example.org",
        "X-HTTP-Host-Override: b.example.org",
        "X-HTTP-DestinationURL: http://b.example.org/",
        "X-Original-URL: http://b.example.org/",
        "X-Original-URL: //b.example.org/",
        "X-Rewrite-URL: http://a.example.org@b.example.org/",
        "Forwarded: host=b.example.org",
        "Forwarded: for=192.0.2.1;proto=http;HOST=\"b.example.org\"",
        "Forwarded: host=a.example.org, for=x; host = b.example.org",
        "Forwarded: for=\"x;host=b.example.org\"",
    ] {
        assert_eq!(with(&format!("{header}\r\n")), Err(Reason::ForwardedHost), "{header}");
    }
    for header in [
        "X-Forwarded-Host: a.example.org",
        "X-Forwarded-Host: A.example.org:80, a.example.org",
        "X-Original-URL: /other?x=http://b.example.org/",
        "X-Rewrite-URL: http://a.example.org/other",
        "Forwarded: for=192.0.2.1;proto=http;by=_x",
        "Forwarded: host=\"a.example.org:80\";for=unknown",
        "X-Forwarded-For: 192.0.2.1",
        "Referer: http://b.example.org/",
        "Origin: http://b.example.org",
    ] {
        assert_eq!(with(&format!("{header}\r\n")), Ok(Body::Length(0)), "{header}");
    }
}

#[test]
fn a_length_that_can_be_read_in_two_ways_is_refused() {
    assert_eq!(with("Content-Length: 12\r\n"), Ok(Body::Length(12)));
    assert_eq!(with("Transfer-Encoding: chunked\r\n"), Ok(Body::Chunked));
    assert_eq!(with(""), Ok(Body::Length(0)));
    for headers in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n",
    ] {
        let said = with(headers);
        assert!(matches!(said, Err(Reason::BadFraming | Reason::NotHttp)), "{headers}: {said:?}");
    }
}

#[test]
fn odd_lines_are_refused() {
    for text in [
        "GET / HTTP/1.1\nHost: a.example.org\n\n",
        "GET / HTTP/1.1\r\nHost: a.example.org\n\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example.org\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example.org\0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.example.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX: y\r\n Host: b.example.org\r\nHost: a.example.org\r\n\r\n",
        "GET / HTTP/1.1\r\n X: y\r\nHost: a.example.org\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding : chunked\r\nHost: a.example.org\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n",
        "get / HTTP/1.1\r\nHost: a.example.org\r\n\r\n",
        "\u{16}\u{3}\u{1}",
        "SSH-2.0-x\r\n",
    ] {
        assert!(read(text).is_err(), "{text:?}: {:?}", read(text));
    }
    let bomb = format!("GET / HTTP/1.1\r\nHost: a.example.org\r\n{}", "X: y\r\n".repeat(20_000));
    assert_eq!(read(&bomb), Err(Reason::HeadTooLong));
    let many = format!("GET / HTTP/1.1\r\nHost: a.example.org\r\n{}\r\n", "X: y\r\n".repeat(500));
    assert_eq!(read(&many), Err(Reason::HeadTooLong));
}

#[test]
fn upgrades_need_a_rule() {
    let ask = |headers: &str, upgrades: Upgrades| {
        let text = format!("GET / HTTP/1.1\r\nHost: a.example.org\r\n{headers}\r\n");
        read_head(text.as_bytes(), "a.example.org", upgrades).map(|head| head.unwrap().body)
    };
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
    let socket = &format!("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n{key}");
    assert_eq!(ask(socket, Upgrades::Refused), Err(Reason::Upgrade));
    assert_eq!(ask(socket, Upgrades::WebSocket), Ok(Body::Upgrade));
    for half in [
        "Upgrade: websocket\r\n".to_owned(),
        format!("Upgrade: websocket\r\n{key}"),
        "Connection: Upgrade\r\nUpgrade: websocket\r\n".to_owned(),
    ] {
        assert_eq!(ask(&half, Upgrades::WebSocket), Err(Reason::Upgrade), "{half}");
    }
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    assert_eq!(ask(h2c, Upgrades::WebSocket), Err(Reason::Http2));
    assert_eq!(ask("Upgrade: h2c\r\n", Upgrades::WebSocket), Err(Reason::Http2));
    assert_eq!(ask("Connection: upgrade\r\n", Upgrades::WebSocket), Err(Reason::Upgrade));
    let long = format!("{socket}Content-Length: 5\r\n");
    assert_eq!(ask(&long, Upgrades::WebSocket), Err(Reason::BadFraming));
}

#[test]
fn a_body_belongs_to_methods_that_have_one() {
    for method in ["GET", "HEAD"] {
        let text = format!("{method} / HTTP/1.1\r\nHost: a.example.org\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(read(&text), Err(Reason::BadFraming));
    }
}

#[test]
fn a_request_is_shown_without_what_speaks_to_a_terminal() {
    let head = read("GET /\u{9b}31m\u{202e} HTTP/1.1\r\nHost: a.example.org\r\n\r\n");
    if let Ok(Some(head)) = head {
        assert!(head.request.is_ascii(), "{}", head.request);
    }
}

#[test]
fn a_server_agrees_with_101_and_nothing_else() {
    assert_eq!(read_agreement(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nbytes"), Ok(Some(true)));
    assert_eq!(read_agreement(b"HTTP/1.1 200 OK\r\nUpgrade: websocket\r\n\r\n"), Ok(Some(false)));
    assert_eq!(read_agreement(b"HTTP/1.1 101 x\r\nUpgrade: h2c\r\n\r\n"), Ok(Some(false)));
    assert_eq!(read_agreement(b"HTTP/1.1 101 Swi"), Ok(None));
    assert_eq!(read_agreement(b"\x16\x03"), Err(Reason::NotHttp));
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(bytes: Vec<u8>, at in 0_usize..60, byte: u8) {
        let _ = read_head(&bytes, "a.example.org", Upgrades::WebSocket);
        let mut good = b"POST /x HTTP/1.1\r\nHost: a.example.org\r\nContent-Length: 5\r\n\r\n".to_vec();
        let at = at % good.len();
        good[at] = byte;
        let _ = read_head(&good, "a.example.org", Upgrades::WebSocket);
    }
}
