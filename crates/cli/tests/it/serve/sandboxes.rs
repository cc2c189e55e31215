//! Sandboxes: made, listed, looked at, ended, refused.

use serde_json::json;

use crate::serve::client::Server;

const SERVICES: &str = "profile: T0.H1.N2\napproval: ci\nservices:\n  db: {image: host, ports: [5432]}\n";

#[test]
fn a_sandbox_is_made_listed_and_ended() {
    let server = Server::socket(&[]);
    let health = server.get("/v1/health").ok(200);
    assert_eq!((&health["status"], &health["api"]), (&json!("ok"), &json!(1)));
    let wish = json!({"profile": "t0.h1.n2", "labels": {"task": "one"}});
    let made = server.post("/v1/sandboxes", &wish).ok(201);
    let id = made["id"].as_str().unwrap();
    assert_eq!((&made["profile"], &made["default"]), (&json!("T0.H1.N2"), &json!("default")));
    assert_eq!(made["observed"], json!({"state": "not_probed"}));
    assert_eq!(made["labels"], json!({"task": "one"}));
    assert_eq!(made["lease_seconds"], json!(60.0));
    assert_eq!(made["plan"]["schema"], "ringfence.plan/1");
    assert_eq!(made["plan_hash"].as_str().unwrap().len(), 64);
    assert_eq!(made["services"]["default"]["image"], "host");
    assert_eq!(made["services"]["default"]["listed"], json!(id));
    assert_eq!(server.get(&format!("/v1/sandboxes/{id}")).ok(200), made);
    assert_eq!(server.get("/v1/sandboxes").ok(200), json!({"sandboxes": [made]}));
    server.request("DELETE", &format!("/v1/sandboxes/{id}"), b"").ok(204);
    assert_eq!(server.get("/v1/sandboxes").ok(200), json!({"sandboxes": []}));
    let gone = server.get(&format!("/v1/sandboxes/{id}")).problem(410, "sandbox_gone");
    assert!(gone["detail"].as_str().unwrap().contains("deleted"));
}

#[test]
fn what_cannot_be_had_is_refused_with_everything_in_the_way() {
    let server = Server::socket(&[]);
    let wish = json!({"profile": "T0.H0.N0"});
    let refused = server.post("/v1/sandboxes", &wish).problem(422, "refused");
    let controls: Vec<_> = refused["unmet"].as_array().unwrap().iter().map(|unmet| unmet["control"].clone()).collect();
    assert!(controls.iter().any(|control| control.as_str().unwrap().contains("justification")), "{refused}");
    assert!(refused["hint"].is_string());
    let document = "profile: T0.H1.N9\nimage: 7\n";
    let wrong = server.post("/v1/sandboxes", &json!({"document": document, "origin": "my.yaml"}));
    let wrong = wrong.problem(400, "bad_request");
    assert!(wrong["detail"].as_str().unwrap().starts_with("my.yaml:1:"), "{wrong}");
    assert!(!wrong["problems"].as_array().unwrap().is_empty());
    for (wish, word) in [
        (json!({}), "nothing says"),
        (json!({"profile": "T9"}), "profile"),
        (json!({"profile": "T0.H1.N2", "provider": "cloud"}), "provider"),
        (json!({"profile": "T0.H1.N2", "approval": "maybe"}), "approval"),
        (json!({"profile": "T0.H1.N2", "image": "archive:/nowhere.tar"}), "image"),
        (json!({"profile": "T0.H1.N2", "lease_seconds": 0}), "lease_seconds"),
        (json!({"profile": "T0.H1.N2", "surprise": 1}), "surprise"),
        (json!({"compose": {"text": "services: {}", "directory": "/"}}), "nothing says"),
        (json!({"profile": "T0.H1.N2", "compose": {"text": "services: {}"}}), "compose"),
        (json!({"profile": "T0.H1.N2", "compose": {"file": "compose.yaml"}}), "compose"),
        (json!({"profile": "T0.H1.N2", "compose": {"file": "/nowhere/compose.yaml"}}), "/nowhere/compose.yaml"),
        (json!({"profile": "T0.H1.N2", "compose": {"text": "services: [", "directory": "/"}}), "compose.yaml:1:"),
        (
            json!({"profile": "T0.H1.N2", "compose": {"text": "services: {}", "directory": "/"}, "image": "x"}),
            "compose",
        ),
        (
            json!({"profile": "T0.H1.N2", "compose": {"text": "services: {}", "directory": "/"}, "provider": "local"}),
            "docker",
        ),
        (json!({"document": "profile: T0.H1.N2\nsandbox: [docker, c.yaml]\napproval: ci\n"}), "from where"),
    ] {
        let problem = server.post("/v1/sandboxes", &wish).problem(400, "bad_request");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{wish}: {problem}");
    }
    // Never a sandbox without the services that its document has.
    let services = server.post("/v1/sandboxes", &json!({"document": SERVICES}));
    assert!(matches!(services.status, 400 | 422), "{}", String::from_utf8_lossy(&services.body));
    assert_eq!(server.get("/v1/sandboxes").ok(200), json!({"sandboxes": []}));
}

/// A client has no word by which mounts through links, or of keys, are allowed.
#[test]
fn a_client_cannot_mount_through_links_or_keys() {
    let server = Server::socket(&[]);
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(data.path().join("keys/.ssh")).unwrap();
    std::os::unix::fs::symlink("/usr", data.path().join("planted")).unwrap();
    let wish = |name: &str| {
        let mount = format!("{}:/o", data.path().join(name).display());
        json!({"document": format!("profile: T0.H1.N2\napproval: ci\nmounts: ['{mount}']\n")})
    };
    for (name, why) in [("planted", "is a link, and leads to /usr"), ("keys", ".ssh holds credentials")] {
        let problem = server.post("/v1/sandboxes", &wish(name)).problem(400, "bad_request");
        assert!(problem.to_string().contains(why), "{name}: {problem}");
    }
    let mut asks = wish("keys");
    asks["dangerously_mount_secrets"] = json!(true);
    server.post("/v1/sandboxes", &asks).problem(400, "bad_request");
    // The operator's word, when the server is started.
    let open = Server::socket(&["--dangerously-mount-secrets"]);
    open.post("/v1/sandboxes", &wish("keys")).ok(201);
    open.post("/v1/sandboxes", &wish("planted")).problem(400, "bad_request");
}

#[test]
fn a_request_grants_neither_h0_nor_n0_nor_writable_mounts() {
    let place = tempfile::tempdir().unwrap();
    let mount = format!("profile: T0.H1.N2\napproval: ci\nmounts: ['{}:/out:rw']\n", place.path().display());
    let wishes = [
        (json!({"profile": "T0.H0.N0", "justification": "trust me"}), "operator.local"),
        (json!({"profile": "T0.H1.N0", "justification": "trust me"}), "operator.full_network"),
        (json!({"document": mount, "origin": "my.yaml"}), "operator.writable_mounts"),
    ];
    let server = Server::socket(&[]);
    for (wish, control) in &wishes {
        let refused = server.post("/v1/sandboxes", wish).problem(422, "refused");
        assert!(refused["unmet"].to_string().contains(control), "{refused}");
    }
    assert_eq!(server.get("/v1/sandboxes").ok(200), json!({"sandboxes": []}));
    // The operator who starts the server can grant them.
    let server = Server::socket(&["--allow-local", "--allow-full-network", "--allow-writable-mounts"]);
    for (wish, _) in &wishes {
        server.post("/v1/sandboxes", wish).ok(201);
    }
}

#[test]
fn a_plan_that_is_proven_says_what_was_seen() {
    let server = Server::socket(&[]);
    let wish = json!({"profile": "T0.H1.N2", "verify": "fast"});
    for _ in 0..2 {
        let observed = server.post("/v1/sandboxes", &wish).ok(201)["observed"].clone();
        assert_eq!((&observed["state"], &observed["profile"]), (&json!("probed"), &json!("T0.H1.N2")));
        assert_eq!(observed["failed"], 0);
    }
    let report = server.post("/v1/verify", &wish).ok(200);
    assert_eq!(report["conclusion"], "as_planned", "{report}");
    server.post("/v1/verify", &json!({"profile": "T0.H0.N0", "justification": "a test"})).problem(422, "refused");
}

#[test]
fn a_sandbox_is_on_the_users_own_list() {
    let server = Server::socket(&[]);
    let id = server.sandbox();
    let output = std::process::Command::new(crate::serve::client::program())
        .args(["sandbox", "exec", &id, "--", "sh", "-c", "echo here; id -u"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n0\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_document_is_what_the_code_says() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let output =
        std::process::Command::new(crate::serve::client::program()).args(["serve", "--openapi"]).output().unwrap();
    let made = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("RINGFENCE_WRITE_OPENAPI").is_some() {
        std::fs::write(kept, &made).unwrap();
    }
    // A plain user's copy of the tests has no documents beside it.
    if let Ok(kept) = std::fs::read_to_string(kept) {
        assert!(
            kept == made,
            "docs/openapi.json is not what the code says: run this test with RINGFENCE_WRITE_OPENAPI=1"
        );
    }
    let server = Server::socket(&[]);
    let document = server.get("/v1/openapi.json").ok(200);
    assert_eq!(document, serde_json::from_str::<serde_json::Value>(&made).unwrap());
}
