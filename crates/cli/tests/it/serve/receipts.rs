//! Receipts for logs that somebody else closed.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::serve::client::{Server, program};

/// The command, with the server's own configuration.
fn ringfence(server: &Server, arguments: &[&str]) -> Output {
    let place = server.place.path();
    let mut command = Command::new(program());
    command.env("XDG_CONFIG_HOME", place.join("config")).env("RINGFENCE_STORE", place.join("store"));
    command.env_remove("RINGFENCE_SIGNING_KEY").args(arguments).output().unwrap()
}

/// A log whose receipt is gone: it is made with a key, so that it does not say that there is none.
fn log(server: &Server) -> String {
    let (task, logs) = (server.place.path().join("words.yaml"), server.place.path().join("logs"));
    let text = "name: words\nprofile: T2.H1.N2\nsolver: generate\nscorer: exact\n\
                dataset: [{id: one, input: go, target: done, mock: [{text: done}]}]\n";
    std::fs::write(&task, text).unwrap();
    let (task, logs) = (task.to_str().unwrap(), logs.to_str().unwrap());
    let output = ringfence(server, &["--json", "eval", task, "--log-dir", logs]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ended: Value = serde_json::from_slice(&output.stdout).unwrap();
    std::fs::remove_file(ended["receipt"].as_str().unwrap()).unwrap();
    ended["log"].as_str().unwrap().to_owned()
}

#[test]
fn a_closed_log_is_signed_and_holds() {
    let server = Server::socket(&[]);
    assert!(ringfence(&server, &["key", "new"]).status.success());
    let log = log(&server);
    let made = server.post("/v1/receipts", &json!({"log": log})).ok(201);
    let receipt = made["receipt"].as_str().unwrap();
    assert!(Path::new(receipt).is_file() && Path::new(receipt).parent() == Path::new(&log).parent(), "{receipt}");
    let verified = ringfence(&server, &["--json", "log", "verify", &log]);
    let said = String::from_utf8_lossy(&verified.stdout).into_owned() + &String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
    // It is that log's, and no other's.
    let mut bytes = std::fs::read(&log).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    assert!(!ringfence(&server, &["log", "verify", &log]).status.success());
}

#[test]
fn no_key_is_said_and_no_log_is_signed() {
    let server = Server::socket(&[]);
    server.post("/v1/receipts", &json!({"log": "/nowhere/log.eval"})).problem(409, "no_key");
    server.post("/v1/receipts", &json!({"log": "relative.eval"})).problem(400, "bad_request");
    assert!(ringfence(&server, &["key", "new"]).status.success());
    assert!(server.place.path().join("config/ringfence/signing.key").exists());
    server.post("/v1/receipts", &json!({"log": "/nowhere/log.eval"})).problem(409, "conflict");
}
