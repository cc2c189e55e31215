//! Who may ask, and what each sees.

use serde_json::json;

use crate::serve::client::{At, Server, eventually, program, token_file};

const ONE: &str = "0123456789abcdef0123456789abcdef";
const TWO: &str = "fedcba9876543210fedcba9876543210";

#[test]
fn a_token_sees_only_its_own() {
    let server = Server::tcp(&[ONE, TWO], &[]);
    let (one, two) = (server.at.as_token(ONE), server.at.as_token(TWO));
    let wish = json!({"profile": "T0.H1.N2"}).to_string();
    let made = one.request("POST", "/v1/sandboxes", &[], wish.as_bytes()).ok(201);
    let id = made["id"].as_str().unwrap();
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    assert_eq!(two.request("GET", "/v1/sandboxes", &[], b"").ok(200), json!({"sandboxes": []}));
    let exec = json!({"argv": ["id"]}).to_string();
    for (method, rest, body) in [
        ("GET", "", ""),
        ("DELETE", "", ""),
        ("POST", "/exec", exec.as_str()),
        ("GET", "/exec/stream", ""),
        ("GET", "/files?path=/etc/passwd", ""),
        ("PUT", "/files?path=/tmp/x", "x"),
        ("GET", "/files/list?path=/", ""),
        ("GET", "/files/stat?path=/", ""),
        ("GET", "/records", ""),
        ("GET", "/totals", ""),
        ("PUT", "/rules", "{}"),
    ] {
        two.request(method, &path(rest), &[], body.as_bytes()).problem(404, "not_found");
    }
    let session = one.request("POST", "/v1/sessions", &[], b"{}").ok(201)["session"].as_str().unwrap().to_owned();
    let headers = [("Ringfence-Session", session.as_str())];
    two.request("POST", "/v1/sandboxes", &headers, wish.as_bytes()).problem(404, "not_found");
    two.request("GET", &format!("/v1/sessions/{session}/hold"), &[], b"").problem(404, "not_found");
    one.request("GET", &path(""), &[], b"").ok(200);
    // What is gone is told to its owner only.
    one.request("DELETE", &path(""), &[], b"").ok(204);
    one.request("GET", &path(""), &[], b"").problem(410, "sandbox_gone");
    two.request("GET", &path(""), &[], b"").problem(404, "not_found");
}

#[test]
fn a_token_decides_only_what_its_own_sandboxes_ask() {
    let server = Server::tcp(&[ONE, TWO], &[]);
    let (one, two) = (server.at.as_token(ONE), server.at.as_token(TWO));
    let document = "profile: T0.H1.N1\napproval: ci\nnetwork:\n  allow_domains: [a.example.org]\n";
    let wish = json!({"document": document, "approval": "human"}).to_string();
    let made = one.request("POST", "/v1/sandboxes", &[], wish.as_bytes()).ok(201);
    let id = made["id"].as_str().unwrap();
    let waits = |at: &At| at.request("GET", "/v1/approvals", &[], b"").ok(200)["approvals"].as_array().unwrap().clone();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let exec = json!({"argv": ["getent", "hosts", "b.example.org"], "timeout_seconds": 50}).to_string();
            one.request("POST", &format!("/v1/sandboxes/{id}/exec"), &[], exec.as_bytes()).ok(200)
        });
        eventually("a question", || !waits(&one).is_empty());
        assert!(waits(&two).is_empty());
        let path = format!("/v1/approvals/{}", waits(&one)[0]["id"].as_str().unwrap());
        let yes = json!({"decision": "approve"}).to_string();
        two.request("POST", &path, &[], yes.as_bytes()).problem(404, "not_found");
        assert_eq!(waits(&one).len(), 1);
        one.request("POST", &path, &[], yes.as_bytes()).ok(204);
        assert_eq!(asking.join().unwrap()["code"], 0);
    });
}

#[test]
fn who_has_no_token_is_told_nothing() {
    let server = Server::tcp(&[ONE], &[]);
    let At::Tcp(address, _) = &server.at else { panic!("TCP") };
    let nobody = At::Tcp(address.clone(), None);
    for path in ["/v1/health", "/v1/sandboxes", "/metrics", "/v1/openapi.json", "/nothing"] {
        let response = nobody.request("GET", path, &[], b"");
        assert!(response.headers.to_lowercase().contains("www-authenticate: bearer"));
        response.problem(401, "unauthorized");
        server.at.as_token(TWO).request("GET", path, &[], b"").problem(401, "unauthorized");
    }
    let with = |value: &str| nobody.request("GET", "/v1/health", &[("Authorization", value)], b"").status;
    let answers = [with(&format!("bearer {ONE}")), with(ONE), with("Bearer "), with(&format!("Basic {ONE}"))];
    assert_eq!(answers, [200, 401, 401, 401]);
}

#[test]
fn web_pages_are_not_answered() {
    let server = Server::tcp(&[ONE], &[]);
    let with = |headers: &[(&str, &str)]| server.at.request("GET", "/v1/health", headers, b"");
    with(&[("Origin", "http://localhost")]).problem(403, "permission_denied");
    with(&[("Host", "rebound.example.org")]).problem(403, "permission_denied");
    with(&[("Host", "localhost:1")]).ok(200);
    let response = server.at.request("OPTIONS", "/v1/health", &[("Access-Control-Request-Method", "GET")], b"");
    assert!(!response.headers.to_lowercase().contains("access-control"), "{}", response.headers);
}

#[test]
fn a_server_that_would_be_open_does_not_start() {
    let place = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = std::process::Command::new(program()).arg("serve").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let open = token_file(place.path(), ONE, 0o644);
    let open = open.to_str().unwrap();
    assert!(refused(&["--listen", "127.0.0.1:0", "--token-file", open]).contains("not ours alone"));
    assert!(refused(&["--listen", "127.0.0.1:0"]).contains("--token-file"));
    let short = token_file(place.path(), "short", 0o600);
    let short = short.to_str().unwrap();
    assert!(refused(&["--listen", "127.0.0.1:0", "--token-file", short]).contains("too short"));
    let good = token_file(place.path(), ONE, 0o600);
    let good = good.to_str().unwrap();
    assert!(refused(&["--listen", "0.0.0.0:0", "--token-file", good]).contains("in the clear"));
    assert!(refused(&["--listen", "127.0.0.1:0", "--token-file", good, "--socket", "/x"]).contains("--socket"));
}
