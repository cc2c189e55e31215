//! Bodies, heads and paths that no client should send.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::serve::client::{At, Server, WebSocket, answer, eventually};

/// What comes back to these bytes, to the end of the connection.
fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = server.at.connect();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn hostile_bodies_are_answered_and_forgotten() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("{{\"profile\": \"{}\"}}", "T".repeat(100_000));
    for body in
        ["", "{", "null", "[]", "7", "\"x\"", "{\"profile\": null}", "{\"profile\": 1e999}", &deep, &long, "\u{0}"]
    {
        for path in ["/v1/sandboxes", "/v1/verify", "/v1/receipts", "/v1/approvals/x"] {
            let response = server.request("POST", path, body.as_bytes());
            assert!(
                (400..500).contains(&response.status),
                "{path} {}: {}",
                &body[..body.len().min(20)],
                response.status
            );
        }
    }
    server.request("POST", "/v1/sandboxes", b"{\"profile\": \"\xff\xfe\"}").problem(400, "bad_request");
    server.request("POST", "/v1/sandboxes", &vec![b' '; 5 << 20]).problem(413, "too_large");
    let exec = format!("/v1/sandboxes/{id}/exec");
    let response = server.request("POST", &exec, &vec![b' '; 90 << 20]);
    response.problem(413, "too_large");
    let words = json!({"argv": vec!["x"; 70_000]});
    server.post(&exec, &words).problem(400, "bad_request");
    let word = json!({"argv": ["true", "x".repeat(3 << 20)]});
    let refused = server.post(&exec, &word);
    assert!(matches!(refused.status, 400 | 409 | 413), "{}", String::from_utf8_lossy(&refused.body));
    assert_eq!(server.exec(&id, &json!({"argv": ["true"]})).0, 0);
}

#[test]
fn hostile_heads_end_their_connection_and_nothing_else() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    for bytes in [
        b"nonsense\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
        b"GET /v1/health HTTP/9.9\r\n\r\n".to_vec(),
        b"GET /v1/health HTTP/1.1\r\nContent-Length: x\r\n\r\n".to_vec(),
        b"POST /v1/sandboxes HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)).into_bytes(),
        format!("GET /v1/health HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000)).into_bytes(),
    ] {
        let answer = raw(&server, &bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    for path in
        ["/", "/v1", "/v1/../v1/health", "/v1/sandboxes/%ff", "/v1/sandboxes/..%2f..", "//v1/health", "/v1/health/"]
    {
        server.get(path).problem(404, "not_found");
    }
    server.request("PATCH", "/v1/health", b"").problem(405, "method_not_allowed");
    server.request("GET", "/v1/verify", b"").problem(405, "method_not_allowed");
    assert_eq!(server.exec(&id, &json!({"argv": ["true"]})).0, 0);
}

#[test]
fn clients_that_say_nothing_keep_nobody_else_waiting() {
    let server = Server::socket(&[]);
    let silent: Vec<_> = (0..200).map(|_| server.at.connect()).collect();
    let begun = Instant::now();
    server.get("/v1/health").ok(200);
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(silent);
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn strangers_take_no_owners_place() {
    let server = Server::tcp(&[TOKEN], &["--max-connections", "4"]);
    let mut silent: Vec<_> = (0..40).map(|_| server.at.connect()).collect();
    let begun = Instant::now();
    for _ in 0..4 {
        server.get("/v1/health").ok(200);
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "strangers keep owners out: {:?}", begun.elapsed());
    // Each of them is shown out soon, whatever it does not say.
    for stream in &mut silent {
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or_default(), 0);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_crowd_of_strangers_loses_its_oldest() {
    let server = Server::tcp(&[TOKEN], &[]);
    let begun = Instant::now();
    let mut silent: Vec<_> = (0..400).map(|_| server.at.connect()).collect();
    server.get("/v1/health").ok(200);
    for stream in silent.iter_mut().take(100) {
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or_default(), 0);
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn who_is_not_let_in_has_one_question_only() {
    let server = Server::tcp(&[TOKEN], &[]);
    let nobody = server.at.as_token("wrong");
    for more in [&[][..], &[("Origin", "http://localhost")]] {
        let mut stream = nobody.connect();
        let head = nobody.head("GET", "/v1/health", more);
        let begun = Instant::now();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let refused = answer(&mut *stream).unwrap();
        assert!(matches!(refused.status, 401 | 403) && begun.elapsed() < Duration::from_secs(3));
        assert!(refused.headers.to_lowercase().contains("connection: close"), "{}", refused.headers);
    }
    // Whoever is known goes on.
    let mut stream = server.at.connect();
    for _ in 0..2 {
        stream.write_all(format!("{}\r\n", server.at.head("GET", "/v1/health", &[])).as_bytes()).unwrap();
        let mut start = vec![0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(start, b"HTTP/1.1 200");
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
    }
}

#[test]
fn websockets_count_as_connections() {
    for server in [Server::socket(&["--max-connections", "2"]), Server::tcp(&[TOKEN], &["--max-connections", "2"])] {
        let id = server.sandbox();
        let path = format!("/v1/sandboxes/{id}/exec/stream");
        let streams = || {
            // The place of a request before it may not be free yet.
            let mut opened = None;
            eventually("there is a place", || {
                opened = WebSocket::try_open(&server.at, &path).ok();
                opened.is_some()
            });
            let mut socket = opened.unwrap();
            socket.text(&json!({"argv": ["cat"]}));
            socket.input(b"here");
            socket.next();
            socket
        };
        let (one, _two) = (streams(), streams());
        let refused = server.get("/v1/health").problem(503, "unavailable");
        assert!(refused["hint"].is_string());
        drop(one);
        eventually("a place is free", || server.get("/v1/health").status == 200);
    }
}

#[test]
fn no_token_takes_all_places() {
    let other = "fedcba9876543210fedcba9876543210";
    let server = Server::tcp(&[TOKEN, other], &["--max-connections", "4"]);
    let At::Tcp(..) = &server.at else { panic!("TCP") };
    let open = |at: &At| {
        let mut stream = at.connect();
        stream.write_all(format!("{}\r\n", at.head("GET", "/v1/health", &[])).as_bytes()).unwrap();
        let mut start = vec![0; 12];
        stream.read_exact(&mut start).unwrap();
        (stream, String::from_utf8(start).unwrap())
    };
    let kept: Vec<_> = (0..3).map(|_| open(&server.at)).collect();
    let said: Vec<&str> = kept.iter().map(|(_, said)| said.as_str()).collect();
    assert_eq!(said, ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 503"]);
    assert_eq!(open(&server.at.as_token(other)).1, "HTTP/1.1 200");
}

#[test]
fn a_body_that_breaks_off_leaves_the_sandbox_alone() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let mut stream = server.at.connect();
    let head = server.at.head("PUT", &format!("/v1/sandboxes/{id}/files?path=/tmp/half"), &[]);
    stream.write_all(format!("{head}Content-Length: 1000000\r\n\r\nbegun").as_bytes()).unwrap();
    drop(stream);
    server.request("PUT", &format!("/v1/sandboxes/{id}/files?path=/tmp/whole"), b"whole").ok(204);
    assert_eq!(server.get(&format!("/v1/sandboxes/{id}/files?path=/tmp/whole")).body, b"whole");
}
