//! Records, rules and approvals: what leaves a sandbox, by the gateway of the server.

use serde_json::{Value, json};

use crate::serve::client::{Server, eventually};

const DOCUMENT: &str =
    "profile: T0.H1.N1\napproval: ci\nnetwork:\n  allow_domains: [\"*.example.org\", other.example.com]\n";

fn sandbox(server: &Server, wish: &Value) -> String {
    server.post("/v1/sandboxes", wish).ok(201)["id"].as_str().unwrap().to_owned()
}

/// Asks for a name; nobody in the sandbox can tell why it is not there.
fn look_up(server: &Server, id: &str, name: &str) {
    server.exec(id, &json!({"argv": ["getent", "hosts", name], "timeout_seconds": 50}));
}

fn records(server: &Server, id: &str, after: u64) -> Value {
    server.get(&format!("/v1/sandboxes/{id}/records?after={after}")).ok(200)
}

#[test]
fn what_is_refused_is_recorded_and_counted() {
    let server = Server::socket(&[]);
    let id = sandbox(&server, &json!({"document": DOCUMENT}));
    assert_eq!(records(&server, &id, 0), json!({"records": [], "next": 0, "dropped": 0}));
    look_up(&server, &id, "bad.example.net");
    eventually("a record", || !records(&server, &id, 0)["records"].as_array().unwrap().is_empty());
    let all = records(&server, &id, 0);
    let first = &all["records"][0];
    assert_eq!((&first["name"], &first["verdict"]), (&json!("bad.example.net"), &json!("refused")), "{all}");
    assert_eq!((&first["sandbox"], &first["service"], &first["number"]), (&json!(id), &json!("default"), &json!(1)));
    let next = all["next"].as_u64().unwrap();
    assert_eq!(records(&server, &id, next)["records"].as_array().unwrap().len(), 0);
    let totals = server.get(&format!("/v1/sandboxes/{id}/totals")).ok(200);
    assert!(totals["refused"].as_u64().unwrap() >= 1 && totals["connections"] == 0, "{totals}");
    server.get(&format!("/v1/sandboxes/{id}/records?after=-1")).problem(400, "bad_request");
}

#[test]
fn rules_are_narrowed_and_never_widened() {
    let server = Server::socket(&[]);
    let id = sandbox(&server, &json!({"document": DOCUMENT}));
    let path = format!("/v1/sandboxes/{id}/rules");
    let put = |body: &Value| server.request("PUT", &path, body.to_string().as_bytes());
    // A name that is listed is given an address before anybody asks outside.
    assert_eq!(server.exec(&id, &json!({"argv": ["getent", "hosts", "a.example.org"]})).0, 0);
    put(&json!({"allow": ["b.example.org"]})).ok(204);
    look_up(&server, &id, "c.example.org");
    eventually("a refusal", || {
        let all = records(&server, &id, 0);
        let refused = |one: &Value| one["name"] == "c.example.org" && one["verdict"] == "refused";
        all["records"].as_array().unwrap().iter().any(refused)
    });
    let refused = put(&json!({"allow": ["example.net"]})).problem(422, "refused");
    assert_eq!(refused["unmet"][0]["control"], "network.rules");
    put(&json!({"allow": ["no name!"]})).problem(400, "bad_request");
    put(&json!({"allow": ["*.example.org", "other.example.com"]})).ok(204);
    assert_eq!(server.exec(&id, &json!({"argv": ["getent", "hosts", "d.example.org"]})).0, 0);
    // At N2 there is nothing to widen.
    let closed = server.sandbox();
    let closed = format!("/v1/sandboxes/{closed}/rules");
    server.request("PUT", &closed, json!({"allow": ["a.example.org"]}).to_string().as_bytes()).problem(422, "refused");
    server.request("PUT", &closed, json!({"allow": []}).to_string().as_bytes()).ok(204);
}

#[test]
fn a_person_decides_about_names_that_no_rule_lists() {
    let server = Server::socket(&[]);
    let id = sandbox(&server, &json!({"document": DOCUMENT, "approval": "human"}));
    let waits = || server.get("/v1/approvals").ok(200)["approvals"].as_array().unwrap().clone();
    assert!(waits().is_empty());
    for (name, decision, code) in [("yes.example.net", "approve", true), ("no.example.net", "reject", false)] {
        let found = std::thread::scope(|scope| {
            let asking = scope
                .spawn(|| server.exec(&id, &json!({"argv": ["getent", "hosts", name], "timeout_seconds": 50})).0 == 0);
            eventually("a question", || !waits().is_empty());
            let waiting = waits().remove(0);
            assert_eq!((&waiting["name"], &waiting["sandbox"]), (&json!(name), &json!(id)));
            let path = format!("/v1/approvals/{}", waiting["id"].as_str().unwrap());
            server.post(&path, &json!({"decision": "perhaps"})).problem(400, "bad_request");
            server.post(&path, &json!({"decision": decision, "explanation": "a test"})).ok(204);
            server.post(&path, &json!({"decision": decision})).problem(404, "not_found");
            asking.join().unwrap()
        });
        assert_eq!(found, code, "{name}");
    }
    // A name that is denied, or a sandbox that asks nobody, makes no question.
    let silent = sandbox(&server, &json!({"document": DOCUMENT}));
    look_up(&server, &silent, "never.example.net");
    assert!(waits().is_empty());
}
