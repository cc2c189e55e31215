//! Commands: to their end, and streaming.

use std::io::Write as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::serve::client::{At, Message, Server, WebSocket, eventually, processes};

#[test]
fn a_command_has_words_variables_a_directory_a_user_and_input() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let body = json!({
        "argv": ["sh", "-c", "pwd; echo $ONE; id -u; cat; echo wrong >&2; exit 3"], "env": {"ONE": "1"}, "cwd": "/tmp",
        "user": "root", "stdin_base64": STANDARD.encode("input\n"),
    });
    assert_eq!(server.exec(&id, &body), (3, "/tmp\n1\n0\ninput\n".into(), "wrong\n".into()));
    // Nothing of the server's own environment is there.
    let (_, out, _) = server.exec(&id, &json!({"argv": ["env"]}));
    assert!(!out.contains("RINGFENCE") && out.contains("LANG=C.UTF-8"), "{out}");
}

#[test]
fn commands_end_in_every_way() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let exec = format!("/v1/sandboxes/{id}/exec");
    let begun = Instant::now();
    let done =
        server.post(&exec, &json!({"argv": ["sh", "-c", "echo begun; sleep 60"], "timeout_seconds": 0.5})).ok(200);
    assert_eq!((&done["outcome"], &done["stdout_base64"]), (&json!("timed_out"), &json!(STANDARD.encode("begun\n"))));
    assert!(begun.elapsed() < Duration::from_secs(20));
    let done = server.post(&exec, &json!({"argv": ["sh", "-c", "kill -9 $$"]})).ok(200);
    assert_eq!((&done["outcome"], &done["signal"]), (&json!("signalled"), &json!(9)));
    let much = json!({"argv": ["sh", "-c", "yes | head -c 100000"], "output_limit": 1000});
    let done = server.post(&exec, &much).ok(200);
    assert_eq!((&done["outcome"], &done["stream"]), (&json!("output_limit"), &json!("stdout")));
    let mut tail = much;
    tail["on_overflow"] = json!("keep_tail");
    let done = server.post(&exec, &tail).ok(200);
    assert_eq!((&done["outcome"], &done["truncated"]), (&json!("exited"), &json!(true)));
    assert_eq!(STANDARD.decode(done["stdout_base64"].as_str().unwrap()).unwrap().len(), 1000);
}

#[test]
fn what_cannot_be_run_is_a_problem() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let exec = format!("/v1/sandboxes/{id}/exec");
    let missing = server.post(&exec, &json!({"argv": ["no-such-program"]})).problem(404, "file_not_found");
    assert!(missing["detail"].as_str().unwrap().contains("no-such-program"), "{missing}");
    server.post(&exec, &json!({"argv": ["/etc/passwd"]})).problem(403, "permission_denied");
    let user = server.post(&exec, &json!({"argv": ["id"], "user": "nobody-at-all"})).problem(422, "unsupported_user");
    assert_eq!(user["failure"], "unknown_user");
    for body in [
        json!({"argv": []}),
        json!({"argv": [""]}),
        json!({"argv": ["a\u{0}b"]}),
        json!({"argv": ["id"], "env": {"A=B": "1"}}),
        json!({"argv": ["id"], "timeout_seconds": -1}),
        json!({"argv": ["id"], "stdin_base64": "***"}),
        json!({"argv": ["id"], "output_limit": 1_u64 << 40}),
        json!({"argv": ["id"], "pty": {"rows": 1, "cols": 1}}),
        json!({"argv": "id"}),
        json!({}),
    ] {
        server.post(&exec, &body).problem(400, "bad_request");
    }
    server.post(&exec, &json!({"argv": ["id"], "service": "other"})).problem(404, "not_found");
    server.post("/v1/sandboxes/s-nowhere/exec", &json!({"argv": ["id"]})).problem(404, "not_found");
}

#[test]
fn what_a_command_leaves_running_goes_on() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let body = json!({"argv": ["sh", "-c", "(sleep 0.3; echo later > /tmp/later) >/dev/null 2>&1 &"]});
    assert_eq!(server.exec(&id, &body).0, 0);
    eventually("the file is written", || server.exec(&id, &json!({"argv": ["cat", "/tmp/later"]})).0 == 0);
}

#[test]
fn a_client_that_goes_away_takes_its_command_along() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let word = "987651";
    let body = json!({"argv": ["sleep", word]}).to_string();
    let head = server.at.head("POST", &format!("/v1/sandboxes/{id}/exec"), &[]);
    let mut stream = server.at.connect();
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    eventually("it runs", || processes(word) > 0);
    drop(stream);
    eventually("it is gone", || processes(word) == 0);
    assert_eq!(server.exec(&id, &json!({"argv": ["true"]})).0, 0);
}

fn streams(at: &At, id: &str) -> WebSocket {
    WebSocket::open(at, &format!("/v1/sandboxes/{id}/exec/stream"))
}

#[test]
fn a_command_streams_both_ways() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": ["sh", "-c", "while read line; do echo \"<$line>\"; done; echo end >&2; exit 4"]}));
    socket.input(b"one\n");
    assert_eq!(socket.next(), Message::Binary(b"\x01<one>\n".to_vec()));
    socket.input(b"two\n");
    assert_eq!(socket.next(), Message::Binary(b"\x01<two>\n".to_vec()));
    socket.input(b"");
    assert_eq!(socket.rest(), (Vec::new(), b"end\n".to_vec(), json!({"outcome": "exited", "code": 4})));
    // Much, in both directions at once.
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": ["cat"]}));
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..8 {
        socket.input(&chunk);
        let mut left = chunk.len();
        while left > 0 {
            let Message::Binary(bytes) = socket.next() else { panic!("no output") };
            left -= bytes.len() - 1;
        }
    }
    socket.input(b"");
    assert_eq!(socket.rest().2, json!({"outcome": "exited", "code": 0}));
}

#[test]
fn a_command_that_streams_is_ended_resized_and_left() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": ["sleep", "60"]}));
    socket.text(&json!({"signal": "KILL"}));
    assert_eq!(socket.rest().2, json!({"outcome": "killed"}));
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": ["sh", "-c", "stty size; read x; stty size"], "pty": {"rows": 10, "cols": 20}}));
    assert!(matches!(socket.next(), Message::Binary(bytes) if bytes.starts_with(b"\x0110 20")));
    socket.text(&json!({"resize": {"rows": 30, "cols": 40}}));
    socket.input(b"\n");
    let (out, _, ended) = socket.rest();
    assert!(String::from_utf8_lossy(&out).contains("30 40") && ended["code"] == 0, "{out:?} {ended}");
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": ["no-such-program"]}));
    assert_eq!(socket.rest().2["code"], "file_not_found");
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": 7}));
    assert_eq!(socket.rest().2["code"], "bad_request");
    let mut socket = streams(&server.at, &id);
    socket.text(&json!({"argv": ["sleep", "987652"]}));
    eventually("it runs", || processes("987652") > 0);
    drop(socket);
    eventually("it is gone", || processes("987652") == 0);
    server.get(&format!("/v1/sandboxes/{id}/exec/stream")).problem(400, "bad_request");
}
