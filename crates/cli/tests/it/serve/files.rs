//! Files: both ways, large ones in little memory, with their user's rights, and every way to fail.

use std::io::{Read as _, Write as _};

use serde_json::json;

use crate::serve::client::Server;

fn files(id: &str, query: &str) -> String {
    format!("/v1/sandboxes/{id}/files{query}")
}

#[test]
fn a_file_is_written_read_listed_and_looked_at() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let bytes: Vec<u8> = (0..=255).collect();
    server.request("PUT", &files(&id, "?path=/tmp/deep/er/file&mode=750"), &bytes).ok(204);
    let read = server.get(&files(&id, "?path=/tmp/deep/er/file"));
    assert_eq!((read.status, &read.body), (200, &bytes));
    assert!(read.headers.to_lowercase().contains("content-type: application/octet-stream"));
    let stat = server.get(&files(&id, "/stat?path=/tmp/deep/er/file")).ok(200);
    assert_eq!(stat, json!({"kind": "file", "size": 256, "mode": "750"}));
    let list = server.get(&files(&id, "/list?path=/tmp/deep/er")).ok(200);
    assert_eq!(list, json!({"entries": [{"name": "file", "kind": "file", "size": 256, "mode": "750"}]}));
    // Empty ones, and relative ones: from where commands start.
    server.request("PUT", &files(&id, "?path=empty"), b"").ok(204);
    assert_eq!(server.get(&files(&id, "?path=empty")).body, b"");
    assert_eq!(server.exec(&id, &json!({"argv": ["test", "-f", "empty"]})).0, 0);
}

#[test]
fn every_way_to_fail_has_its_word() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    server.get(&files(&id, "?path=/none")).problem(404, "file_not_found");
    server.get(&files(&id, "?path=/tmp")).problem(409, "is_a_directory");
    server.get(&files(&id, "?path=/etc/passwd/x")).problem(409, "not_a_directory");
    server.get(&files(&id, "?path=/etc/passwd&limit=3")).problem(413, "too_large");
    server.get(&files(&id, "?path=")).problem(400, "bad_request");
    server.get(&files(&id, "?path=/a%00b")).problem(400, "bad_request");
    server.get(&files(&id, "")).problem(400, "bad_request");
    server.get(&files(&id, "?path=/tmp&limit=x")).problem(400, "bad_request");
    server.get(&files(&id, "?path=/etc/passwd&service=x")).problem(404, "not_found");
    server.request("PUT", &files(&id, "?path=/tmp"), b"x").problem(409, "is_a_directory");
    server.request("PUT", &files(&id, "?path=/tmp/x&mode=9"), b"x").problem(400, "bad_request");
    server.request("PUT", &files(&id, "?path=/tmp/x&limit=3"), b"four").problem(413, "too_large");
    server.get(&files(&id, "/list?path=/none")).problem(404, "file_not_found");
    server.get(&files(&id, "/list?path=/etc/passwd")).problem(409, "not_a_directory");
    server.get(&files(&id, "/stat?path=/none")).problem(404, "file_not_found");
    let body = json!({"argv": ["mkfifo", "/tmp/pipe"]});
    if server.post(&format!("/v1/sandboxes/{id}/exec"), &body).status == 200 {
        let problem = server.get(&files(&id, "?path=/tmp/pipe")).problem(409, "conflict");
        assert_eq!(problem["failure"], "not_regular");
    }
}

#[test]
fn files_are_read_and_written_with_their_users_rights() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    // A plain user's sandboxes have one user only.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    server.request("PUT", &files(&id, "?path=/tmp/secret&mode=600"), b"root's").ok(204);
    server.get(&files(&id, "?path=/tmp/secret&user=1000:1000")).problem(403, "permission_denied");
    assert_eq!(server.get(&files(&id, "?path=/tmp/secret&user=root")).body, b"root's");
    server.request("PUT", &files(&id, "?path=/etc/mine&user=1000:1000"), b"x").problem(403, "permission_denied");
    server.request("PUT", &files(&id, "?path=/tmp/a/b/mine&user=1000:1000&mode=640"), &vec![b'y'; 3 << 20]).ok(204);
    let (_, out, _) = server.exec(&id, &json!({"argv": ["stat", "-c", "%u %g %a %s", "/tmp/a/b/mine", "/tmp/a"]}));
    assert!(out.starts_with("1000 1000 640 3145728\n1000 1000 755 "), "{out}");
    assert_eq!(server.get(&files(&id, "?path=/tmp/a/b/mine&user=1000:1000")).body, vec![b'y'; 3 << 20]);
    // What is there is replaced, not only overwritten; and nothing waits for a pipe.
    server.request("PUT", &files(&id, "?path=/tmp/a/b/mine&user=1000:1000"), b"short").ok(204);
    assert_eq!(server.get(&files(&id, "?path=/tmp/a/b/mine&user=1000:1000")).body, b"short");
    server.get(&files(&id, "?path=/none&user=1000:1000")).problem(404, "file_not_found");
    server.get(&files(&id, "?path=/tmp&user=1000:1000")).problem(409, "is_a_directory");
    server.get(&files(&id, "?path=/etc/passwd&limit=2&user=1000:1000")).problem(413, "too_large");
    server.request("PUT", &files(&id, "?path=/tmp&user=1000:1000"), b"x").problem(409, "is_a_directory");
    server.get(&files(&id, "?path=/etc/passwd&user=nobody-at-all")).problem(422, "unsupported_user");
}

#[test]
fn directories_are_listed_and_looked_at_with_their_users_rights() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    // A plain user's sandboxes have one user only.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    server.exec(&id, &json!({"argv": ["sh", "-c", "mkdir -m 700 /tmp/hidden; echo answer > /tmp/hidden/answers"]}));
    let as_user = "&user=1000:1000";
    assert_eq!(server.get(&files(&id, "/stat?path=/tmp/hidden/answers")).ok(200)["size"], 7);
    server.get(&files(&id, &format!("/list?path=/tmp/hidden{as_user}"))).problem(403, "permission_denied");
    server.get(&files(&id, &format!("/stat?path=/tmp/hidden/answers{as_user}"))).problem(403, "permission_denied");
    // What it may see is the same that root sees, links themselves and many entries too.
    let script =
        "mkdir /tmp/open; cd /tmp/open; for n in $(seq 3000); do : > file-with-a-long-name-$n; done; ln -s a link";
    server.exec(&id, &json!({"argv": ["sh", "-c", script]}));
    let listed = server.get(&files(&id, &format!("/list?path=/tmp/open{as_user}"))).ok(200);
    assert_eq!(listed, server.get(&files(&id, "/list?path=/tmp/open")).ok(200));
    assert_eq!(listed["entries"].as_array().unwrap().len(), 3001);
    let link = server.get(&files(&id, &format!("/stat?path=/tmp/open/link{as_user}"))).ok(200);
    assert_eq!(link, json!({"kind": "link", "size": 1, "mode": "777"}));
    server.get(&files(&id, &format!("/list?path=/none{as_user}"))).problem(404, "file_not_found");
    server.get(&files(&id, &format!("/list?path=/etc/passwd{as_user}"))).problem(409, "not_a_directory");
    server.get(&files(&id, &format!("/stat?path=/none{as_user}"))).problem(404, "file_not_found");
    server.get(&files(&id, "/stat?path=/etc&user=nobody-at-all")).problem(422, "unsupported_user");
}

/// The most memory that a process has had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn large_files_pass_in_little_memory() {
    const SIZE: usize = 50 << 20;
    let server = Server::socket(&[]);
    let id = server.sandbox();
    server.request("PUT", &files(&id, "?path=/tmp/warm"), &vec![1; 1 << 20]).ok(204);
    let before = peak(server.child.id());
    let path = files(&id, "?path=/tmp/large");
    let chunk: Vec<u8> = (0_u32..1 << 20).map(|number| number.to_le_bytes()[1]).collect();
    // By the chunk, so that the client needs little too.
    let mut stream = server.at.connect();
    let head = server.at.head("PUT", &path, &[("Connection", "close")]);
    stream.write_all(format!("{head}Content-Length: {SIZE}\r\n\r\n").as_bytes()).unwrap();
    for _ in 0..SIZE / chunk.len() {
        stream.write_all(&chunk).unwrap();
    }
    crate::serve::client::answer(&mut *stream).unwrap().ok(204);
    let mut stream = server.at.connect();
    stream.write_all(format!("{}\r\n", server.at.head("GET", &path, &[("Connection", "close")])).as_bytes()).unwrap();
    let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        total += count;
    }
    assert!(total > SIZE, "{total}");
    let grown = peak(server.child.id()).saturating_sub(before);
    assert!(grown < 16 << 10, "the server grew by {grown} KiB");
    let (_, out, _) = server.exec(&id, &json!({"argv": ["sh", "-c", "wc -c < /tmp/large"]}));
    assert_eq!(out.trim(), SIZE.to_string());
}

#[test]
fn fifty_mebibytes_of_input_in_one_request() {
    use base64::Engine as _;
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let input = base64::engine::general_purpose::STANDARD.encode(vec![b'z'; 50 << 20]);
    let (_, out, _) = server.exec(&id, &json!({"argv": ["wc", "-c"], "stdin_base64": input}));
    assert_eq!(out.trim(), (50 << 20).to_string());
}
