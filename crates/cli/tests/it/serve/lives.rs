//! How long things live: leases, sessions, the server itself.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::client::{At, Duplex, Server, WebSocket, eventually, processes};

fn listed(server: &Server) -> usize {
    server.get("/v1/sandboxes").ok(200)["sandboxes"].as_array().unwrap().len()
}

#[test]
fn a_lease_ends_what_nobody_asks_for() {
    let server = Server::socket(&[]);
    let wish = json!({"profile": "T0.H1.N2", "lease_seconds": 2});
    let id = server.post("/v1/sandboxes", &wish).ok(201)["id"].as_str().unwrap().to_owned();
    // A command that takes longer than the lease keeps it, and so does asking.
    assert_eq!(server.exec(&id, &json!({"argv": ["sleep", "3"]})).0, 0);
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(700));
        server.get(&format!("/v1/sandboxes/{id}")).ok(200);
    }
    eventually("it is gone", || listed(&server) == 0);
    let gone = server.get(&format!("/v1/sandboxes/{id}")).problem(410, "sandbox_gone");
    assert!(gone["detail"].as_str().unwrap().contains("lease"), "{gone}");
}

fn hold(at: &At, session: &str) -> Box<dyn Duplex> {
    let mut stream = at.connect();
    let head = at.head("GET", &format!("/v1/sessions/{session}/hold"), &[]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    stream
}

fn in_session(server: &Server, session: &str, wish: &Value) -> crate::serve::client::Response {
    let headers = [("Ringfence-Session", session)];
    server.at.request("POST", "/v1/sandboxes", &headers, wish.to_string().as_bytes())
}

#[test]
fn a_session_that_ends_takes_its_sandboxes_and_no_others() {
    let server = Server::socket(&[]);
    let session = server.post("/v1/sessions", &json!({"name": "test"})).ok(201)["session"].as_str().unwrap().to_owned();
    let held = hold(&server.at, &session);
    let wish = json!({"profile": "T0.H1.N2"});
    let made = in_session(&server, &session, &wish).ok(201);
    assert_eq!((&made["session"], &made["lease_seconds"]), (&json!(session), &Value::Null));
    let id = made["id"].as_str().unwrap();
    let other = server.post("/v1/sandboxes", &json!({"profile": "T0.H1.N2", "detached": true})).ok(201);
    assert_eq!(other["lease_seconds"], Value::Null);
    in_session(&server, &session, &json!({"profile": "T0.H1.N2", "detached": true})).problem(400, "bad_request");
    in_session(&server, "none", &wish).problem(404, "not_found");
    drop(held);
    eventually("its sandbox is gone", || listed(&server) == 1);
    let gone = server.get(&format!("/v1/sandboxes/{id}")).problem(410, "sandbox_gone");
    assert!(gone["detail"].as_str().unwrap().contains("session"), "{gone}");
    in_session(&server, &session, &wish).problem(404, "not_found");
    server.get(&format!("/v1/sessions/{session}/hold")).problem(404, "not_found");
    server.get(&format!("/v1/sandboxes/{}", other["id"].as_str().unwrap())).ok(200);
}

#[test]
fn a_signal_ends_everything_in_order() {
    let mut server = Server::socket(&[]);
    let id = server.sandbox();
    server.exec(&id, &json!({"argv": ["sh", "-c", "sleep 987653 >/dev/null 2>&1 &"]}));
    eventually("it runs", || processes("987653") > 0);
    let At::Socket(path) = server.at.clone() else { panic!("a socket") };
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(server.said(), "");
    assert_eq!(processes("987653"), 0);
    assert!(!path.exists());
}

#[test]
fn who_waits_when_the_server_ends_is_told() {
    let mut server = Server::socket(&[]);
    let wish = json!({"profile": "T0.H1.N2", "detached": true});
    let id = server.post("/v1/sandboxes", &wish).ok(201)["id"].as_str().unwrap().to_owned();
    let session = server.post("/v1/sessions", &json!({})).ok(201)["session"].as_str().unwrap().to_owned();
    let mut held = hold(&server.at, &session);
    let mut socket = WebSocket::open(&server.at, &format!("/v1/sandboxes/{id}/exec/stream"));
    socket.text(&json!({"argv": ["sleep", "987655"]}));
    let begun = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| server.post(&format!("/v1/sandboxes/{id}/exec"), &json!({"argv": ["sleep", "987656"]})));
        eventually("both run", || processes("987655") > 0 && processes("987656") > 0);
        let begun = Instant::now();
        server.signal(rustix::process::Signal::TERM);
        let told = waiting.join().unwrap().problem(410, "sandbox_gone");
        assert!(told["detail"].is_string());
        assert_eq!(socket.rest().2["code"], "sandbox_gone");
        let mut rest = Vec::new();
        held.read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(b"0\r\n\r\n"), "the response that holds a session ends like one");
        begun
    });
    // A detached sandbox outlives its client, not the server.
    assert_eq!(server.wait().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(processes("987655") + processes("987656"), 0);
}

#[test]
fn who_leaves_while_a_sandbox_is_made_leaves_none() {
    let server = Server::socket(&[]);
    let count = |name: &str| {
        let text = String::from_utf8(server.get("/metrics").body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("ringfence_{name} ")).map(str::to_owned));
        line.unwrap().parse::<u64>().unwrap()
    };
    // Proving it first takes long enough to leave meanwhile.
    let body = json!({"profile": "T0.H1.N2", "verify": "fast"}).to_string();
    let mut stream = server.at.connect();
    let head = server.at.head("POST", "/v1/sandboxes", &[]);
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    eventually("it is being made", || count("sandboxes") == 1);
    assert_eq!(count("sandboxes_created_total"), 0, "it was made before anybody could leave");
    drop(stream);
    eventually("it is gone again", || count("sandboxes") == 0);
    assert_eq!(listed(&server), 0);
}

#[test]
fn a_killed_server_leaves_no_sandbox() {
    let mut server = Server::socket(&[]);
    let id = server.sandbox();
    server.exec(&id, &json!({"argv": ["sh", "-c", "sleep 987654 >/dev/null 2>&1 &"]}));
    eventually("it runs", || processes("987654") > 0);
    let begun = Instant::now();
    server.signal(rustix::process::Signal::KILL);
    server.wait();
    eventually("it is gone", || processes("987654") == 0);
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Its socket is still there; the next server takes its place.
    let place = std::mem::replace(&mut server.place, tempfile::tempdir().unwrap());
    let path = place.path().join("socket");
    assert!(path.exists());
    let next = Server::start(place, &["--socket", path.to_str().unwrap()], &[], &[]);
    next.get("/v1/health").ok(200);
    // But not that of one that lives, nor that of a file.
    let taken = |path: &str| {
        let output =
            std::process::Command::new(crate::serve::client::program()).args(["serve", "--socket", path]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(taken(path.to_str().unwrap()).contains("already"));
    let file = next.place.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert!(taken(file.to_str().unwrap()).contains("not a socket"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_server_that_nobody_needs_ends() {
    let mut server = Server::socket(&["--exit-when-idle", "2"]);
    let wish = json!({"profile": "T0.H1.N2", "lease_seconds": 3});
    let begun = Instant::now();
    server.post("/v1/sandboxes", &wish).ok(201);
    assert_eq!(server.wait().code(), Some(0));
    assert!(begun.elapsed() > Duration::from_secs(3), "it ended before its sandbox did");
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let server = Server::socket(&["--max-sandboxes", "2"]);
    let (one, _) = (server.sandbox(), server.sandbox());
    server.post("/v1/sandboxes", &json!({"profile": "T0.H1.N2"})).problem(409, "conflict");
    server.request("DELETE", &format!("/v1/sandboxes/{one}"), b"").ok(204);
    server.sandbox();
    let metrics = server.get("/metrics");
    let text = String::from_utf8(metrics.body).unwrap();
    for line in
        ["ringfence_sandboxes 2", "ringfence_sandboxes_created_total 3", "ringfence_responses_total{status=\"4xx\"} 1"]
    {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}
