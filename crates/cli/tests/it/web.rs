//! `web_search` as a user runs it, against a service on this machine.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;

use serde_json::Value;

const KEY: &str = "tvly-hunter2-hunter2-hunter2";

/// A service that gives the key away in its answer: whatever it says, the key is in nothing that is written.
fn service() -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !String::from_utf8_lossy(&request).contains("search_depth") {
                let count = stream.read(&mut buffer).unwrap();
                assert!(count > 0);
                request.extend_from_slice(&buffer[..count]);
            }
            tell.send(String::from_utf8(request).unwrap()).unwrap();
            let body = format!(
                r#"{{"results": [{{"title": "Your key", "url": "https://a.example.org/?k={KEY}", "content": "is {KEY}"}}]}}"#
            );
            let start =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            stream.write_all(format!("{start}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        }
    });
    (port, asked)
}

fn task(place: &Path, provider: &str) -> String {
    let text = format!(
        "name: search\nprofile: T1.H1.N1\nnetwork: {{allow_domains: [api.tavily.com]}}\n\
         tools: [{{name: web_search, {provider}}}, submit]\ndataset: [{{id: one, input: go, target: done}}]\n\
         solver: {{kind: agent}}\nscorer: includes\nmock:\n\
         \x20 - {{tool_calls: [{{name: web_search, arguments: {{query: what is there}}}}]}}\n\
         \x20 - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}\n"
    );
    let path = place.join("task.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn key_of_a_search_is_in_nothing_that_is_written() {
    let place = tempfile::tempdir().unwrap();
    let (port, asked) = service();
    let task = task(place.path(), &format!("provider: tavily, endpoint: 'http://127.0.0.1:{port}'"));
    for format in ["eval", "json"] {
        let logs = place.path().join(format);
        let output = crate::common::command(place.path())
            .env("TAVILY_API_KEY", KEY)
            // A proxy would be another reach.
            .env("HTTP_PROXY", "http://127.0.0.1:9")
            .args(["--json", "eval", &task, "--log-format", format, "--log-dir"])
            .arg(&logs)
            .output()
            .unwrap();
        let mut all = String::from_utf8(output.stdout).unwrap();
        let result: Value = serde_json::from_str(&all).unwrap();
        assert_eq!(result["status"], "success", "{result}");
        let request = asked.recv().unwrap();
        assert!(request.contains(&format!("Bearer {KEY}")) && request.contains("what is there"), "{request}");
        all.push_str(&String::from_utf8(output.stderr).unwrap());
        let log = result["log"].as_str().unwrap();
        let dumped = crate::common::command(place.path()).args(["log", "dump", log]).output().unwrap();
        all.push_str(&String::from_utf8(dumped.stdout).unwrap());
        for entry in std::fs::read_dir(&logs).unwrap() {
            all.push_str(&String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()));
        }
        assert!(!all.contains("hunter2"), "{all}");
        // Who was asked is written down, in the log and in the audit chain.
        let audit = std::fs::read_to_string(log.replace(&format!(".{format}"), ".audit.jsonl")).unwrap();
        let line = audit.lines().find(|line| line.contains("\"kind\":\"web_search\"")).unwrap();
        assert!(line.contains("tavily") && line.contains("127.0.0.1") && line.contains("\"results\":1"), "{line}");
        assert!(all.contains("TAVILY_API_KEY"), "the plan names the variable");
    }
}

#[test]
fn missing_key_is_said_before_anything_starts() {
    let place = tempfile::tempdir().unwrap();
    let task = task(place.path(), "provider: tavily");
    for value in [None, Some("")] {
        let mut command = crate::common::command(place.path());
        command.env_remove("TAVILY_API_KEY").args(["eval", &task, "--log-dir"]).arg(place.path().join("logs"));
        if let Some(value) = value {
            command.env("TAVILY_API_KEY", value);
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("TAVILY_API_KEY") && told.contains("hint"), "{told}");
        assert!(!place.path().join("logs").exists());
    }
}

#[test]
fn search_without_a_provider_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let task = task(place.path(), "reach: [api.tavily.com]");
    let output = crate::common::command(place.path()).args(["eval", &task]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("provider: tavily"), "{told}");
}
