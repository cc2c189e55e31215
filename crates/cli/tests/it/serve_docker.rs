//! Sandboxes of several services over the HTTP API, on a Docker daemon. Run by `./test.sh docker`, which starts a daemon with
//! the images that these tests name.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::serve::client::{Server, WebSocket, eventually};
use serde_json::{Value, json};

/// A web server whose page comes by a volume from a service that ends, a database on one port, and the agent.
const SERVICES: &str = r#"
services:
  web:
    image: ringfence/static
    command: [/busybox, httpd, -f, -p, "8080", -h, /shared]
    expose: ["8080"]
    volumes: ["shared:/shared:ro"]
    depends_on: {seed: {condition: service_completed_successfully}}
    healthcheck: {test: [CMD, /busybox, wget, -q, -O-, "http://127.0.0.1:8080/page"], interval: 1s, retries: 30}
  seed:
    image: ringfence/static
    command: [/busybox, sh, -c, "echo seeded > /shared/page"]
    volumes: ["shared:/shared"]
  db:
    image: ringfence/static
    command: [/busybox, sleep, "10000"]
    environment: {GREETING: "hello from db"}
    working_dir: /tmp
    tmpfs: ["/tmp:size=1m"]
  agent:
    image: ringfence/debian
    x-default: true
    user: agent
    environment: {MINE: mine}
    command: [sleep, "10000"]
    depends_on: {web: {condition: service_healthy}, db: {condition: service_started}}
volumes: {shared: {}}
"#;

/// Tests look at all containers of the daemon: each has it for itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client of the daemon that the lane started; never of one that the machine has.
fn docker(arguments: &[&str]) -> String {
    let own = std::env::var("DOCKER_HOST").unwrap_or_default();
    assert!(own.starts_with("unix:///"), "DOCKER_HOST names no daemon: run this by `./test.sh docker`");
    let output = Command::new("docker").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// How many containers of ours there are, in any state.
fn containers() -> usize {
    docker(&["ps", "--all", "--quiet", "--filter", "label=ringfence.run"]).lines().count()
}

/// That nothing of ours is left at the daemon.
#[track_caller]
fn nothing_is_left() {
    assert_eq!(docker(&["ps", "--all", "--quiet", "--filter", "label=ringfence.run"]), "");
    assert_eq!(docker(&["volume", "ls", "--quiet", "--filter", "label=ringfence.run"]), "");
}

fn wish(text: &str) -> Value {
    json!({"profile": "T0.H1.N2", "compose": {"text": text, "directory": "/tmp"}})
}

/// Documents that ask for what only the operator grants.
#[test]
fn a_request_for_containers_grants_neither_the_full_network_nor_writable_mounts() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let head = "approval: ci\nsandbox: docker\nimage: ringfence/static\njustification: trust me\n";
    let mount = format!("{head}profile: T0.H1.N2\nmounts: ['{}:/out:rw']\n", place.path().display());
    let wishes = [
        (json!({"document": format!("{head}profile: T0.H1.N0\n")}), "operator.full_network"),
        (json!({"document": mount, "origin": "my.yaml"}), "operator.writable_mounts"),
    ];
    let server = Server::socket(&[]);
    for (wish, control) in &wishes {
        let refused = server.post("/v1/sandboxes", wish).problem(422, "refused");
        assert!(refused["unmet"].to_string().contains(control), "{refused}");
    }
    assert_eq!(server.get("/v1/sandboxes").ok(200), json!({"sandboxes": []}));
    drop(server);
    // The operator who starts the server can grant them.
    let server = Server::socket(&["--allow-full-network", "--allow-writable-mounts"]);
    for (wish, _) in &wishes {
        let made = server.post("/v1/sandboxes", wish).ok(201);
        server.request("DELETE", &format!("/v1/sandboxes/{}", made["id"].as_str().unwrap()), b"").ok(204);
    }
    nothing_is_left();
}

#[test]
fn services_are_started_addressed_and_ended() {
    let _alone = alone();
    let server = Server::socket(&[]);
    let made = server.post("/v1/sandboxes", &wish(SERVICES)).ok(201);
    let id = made["id"].as_str().unwrap();
    let names: Vec<_> = made["services"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["agent", "db", "seed", "web"]);
    assert_eq!(made["default"], "agent");
    assert_eq!(made["profile"], "T0.H1.N2");
    let agent = &made["services"]["agent"];
    assert_eq!((&agent["user"], &agent["workdir"], &agent["listed"]), (&json!("agent"), &json!("/"), &json!(id)));
    assert_eq!((&made["services"]["db"]["user"], &made["services"]["db"]["workdir"]), (&Value::Null, &json!("/tmp")));
    assert!(agent["image"].as_str().unwrap().starts_with("ringfence/debian@sha256:"), "{agent}");
    assert!(made["plan"]["services"]["db"]["image"].is_object(), "{}", made["plan"]["services"]);
    assert_eq!(server.get("/v1/sandboxes").ok(200)["sandboxes"][0]["services"], made["services"]);
    assert_eq!(containers(), 4);

    // The default service, and others by name.
    let script =
        "id -un; echo $MINE; curl -s -m 5 http://web:8080/page; curl -s -m 5 http://web:9090/ || echo undeclared";
    let exec = |body: &Value| server.exec(id, body);
    let (code, out, err) = exec(&json!({"argv": ["sh", "-c", script]}));
    assert_eq!((code, out.as_str()), (0, "agent\nmine\nseeded\nundeclared\n"), "{err}");
    let body = json!({"service": "db", "argv": ["/busybox", "sh", "-c", "pwd; echo $GREETING; /busybox id -u"]});
    assert_eq!(exec(&body).1, "/tmp\nhello from db\n0\n");
    let missing = server.post(&format!("/v1/sandboxes/{id}/exec"), &json!({"service": "none", "argv": ["id"]}));
    assert_eq!(missing.problem(404, "not_found")["hint"], "this sandbox has: agent, db, seed, web");
    let mut socket = WebSocket::open(&server.at, &format!("/v1/sandboxes/{id}/exec/stream"));
    socket.text(&json!({"service": "db", "argv": ["/busybox", "cat"]}));
    socket.input(b"to db");
    socket.input(b"");
    assert_eq!(socket.rest(), (b"to db".to_vec(), Vec::new(), json!({"outcome": "exited", "code": 0})));

    // Files of each are its own, with its own user's rights.
    let files = |query: &str| format!("/v1/sandboxes/{id}/files{query}");
    server.request("PUT", &files("?path=note&service=db"), b"db's").ok(204);
    assert_eq!(server.get(&files("?path=/tmp/note&service=db")).body, b"db's");
    server.get(&files("?path=/tmp/note")).problem(404, "file_not_found");
    server.request("PUT", &files("?path=/etc/mine"), b"x").problem(403, "permission_denied");
    server.request("PUT", &files("?path=/etc/mine&user=root"), b"x").ok(204);
    server.get(&files("/list?path=/root")).problem(403, "permission_denied");
    assert_eq!(server.get(&files("/stat?path=/shared/page&service=web")).ok(200)["size"], 7);

    // What each tried is recorded under its name, and no rule lets one out that the plan does not.
    eventually("a record of the agent", || {
        let all = server.get(&format!("/v1/sandboxes/{id}/records")).ok(200);
        let refused = |one: &Value| one["service"] == "agent" && one["verdict"] == "refused" && one["sandbox"] == id;
        all["records"].as_array().unwrap().iter().any(refused)
    });
    let rules = json!({"service": "db", "allow": ["a.example.org"]}).to_string();
    server.request("PUT", &format!("/v1/sandboxes/{id}/rules"), rules.as_bytes()).problem(422, "refused");
    let listed = Command::new(crate::serve::client::program())
        .args(["sandbox", "exec", &format!("{id}-db"), "--", "/busybox", "echo", "here"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "here\n", "{}", String::from_utf8_lossy(&listed.stderr));

    server.request("DELETE", &format!("/v1/sandboxes/{id}"), b"").ok(204);
    nothing_is_left();
    server.get(&format!("/v1/sandboxes/{id}")).problem(410, "sandbox_gone");
}

#[test]
fn a_service_that_fails_is_told_with_its_last_words_and_nothing_is_left() {
    let _alone = alone();
    let server = Server::socket(&[]);
    let text = "services:\n  \
        agent: {image: ringfence/debian, x-default: true, command: [sleep, '10000']}\n  \
        broken: {image: ringfence/static, command: [/busybox, sh, -c, 'echo my last words; exit 7']}\n";
    let told = server.post("/v1/sandboxes", &wish(text)).problem(409, "conflict");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("`broken`") && detail.contains("code 7") && detail.contains("my last words"), "{told}");
    assert!(told["hint"].is_string());
    let text = "services:\n  agent: {image: ringfence/nothing-like-that, pull_policy: never}\n";
    server.post("/v1/sandboxes", &wish(text)).problem(503, "unavailable");
    // What a sandbox does not give is refused with its place, before anything starts.
    let text = "services:\n  agent: {image: ringfence/debian, privileged: true}\n";
    let refused = server.post("/v1/sandboxes", &wish(text)).problem(422, "refused");
    assert!(refused["unmet"][0]["control"].as_str().unwrap().contains("privileged"), "{refused}");
    assert_eq!(server.get("/v1/sandboxes").ok(200), json!({"sandboxes": []}));
    nothing_is_left();
}

#[test]
fn documents_and_files_say_the_same() {
    let _alone = alone();
    let server = Server::socket(&[]);
    let place = server.place.path().join("task");
    std::fs::create_dir(&place).unwrap();
    let file = place.join("compose.yaml");
    let text = "services:\n  \
        one: {image: ringfence/debian, x-default: true, command: [sleep, '10000'], volumes: ['./given:/given:ro']}\n  \
        two: {image: ringfence/static, command: [/busybox, sleep, '10000']}\n";
    std::fs::write(&file, text).unwrap();
    std::fs::write(place.join("given"), "given\n").unwrap();
    let document = "profile: T0.H1.N1\nsandbox: [docker, compose.yaml]\napproval: ci\n\
                    environment: {GRANTED: granted}\nnetwork: {allow_domains: [a.example.org]}\n";
    let origin = place.join("profile.yaml").display().to_string();
    let plain =
        "profile: T0.H1.N1\napproval: ci\nenvironment: {GRANTED: granted}\nnetwork: {allow_domains: [a.example.org]}\n";
    for wish in [
        json!({"document": document, "origin": origin}),
        json!({"document": plain, "compose": {"file": file.display().to_string()}}),
        json!({"document": plain, "compose": {"text": text, "directory": place.display().to_string()}}),
    ] {
        let made = server.post("/v1/sandboxes", &wish).ok(201);
        let id = made["id"].as_str().unwrap();
        let services: Vec<_> = made["services"].as_object().unwrap().keys().cloned().collect();
        assert_eq!((services, &made["default"]), (vec!["one".to_owned(), "two".to_owned()], &json!("one")));
        let body = json!({"argv": ["sh", "-c", "cat /given; echo $GRANTED; getent hosts a.example.org >/dev/null && echo listed"]});
        assert_eq!(server.exec(id, &body).1, "given\ngranted\nlisted\n", "{wish}");
        // Narrowed for the one, and not for the other.
        let rules = json!({"allow": []}).to_string();
        server.request("PUT", &format!("/v1/sandboxes/{id}/rules"), rules.as_bytes()).ok(204);
        assert_eq!(server.exec(id, &json!({"argv": ["sh", "-c", "getent hosts b.example.org || echo no"]})).1, "no\n");
        server.request("DELETE", &format!("/v1/sandboxes/{id}"), b"").ok(204);
    }
    // A document's own services: the agent's sandbox is the default one.
    let document = "profile: T0.H1.N2\nsandbox: docker\napproval: ci\nimage: ringfence/debian\n\
                    services: {db: {image: ringfence/debian, ports: [5432], environment: {PLACE: there}}}\n";
    let made = server.post("/v1/sandboxes", &json!({"document": document})).ok(201);
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["default"], "default");
    let body = json!({"service": "db", "argv": ["sh", "-c", "id -un; pwd; echo $PLACE"]});
    assert_eq!(server.exec(id, &body).1, "root\n/\nthere\n");
    server.request("DELETE", &format!("/v1/sandboxes/{id}"), b"").ok(204);
    nothing_is_left();
}

#[test]
fn services_end_with_their_session_and_with_the_server() {
    let _alone = alone();
    let mut server = Server::socket(&[]);
    let session = server.post("/v1/sessions", &json!({})).ok(201)["session"].as_str().unwrap().to_owned();
    let mut held = server.at.connect();
    let request = server.at.head("GET", &format!("/v1/sessions/{session}/hold"), &[]);
    held.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    held.read_exact(&mut [0; 12]).unwrap();
    let headers = [("Ringfence-Session", session.as_str())];
    server.at.request("POST", "/v1/sandboxes", &headers, wish(SERVICES).to_string().as_bytes()).ok(201);
    assert_eq!(containers(), 4);
    drop(held);
    eventually("its containers are gone", || containers() == 0);
    eventually("its volumes are gone", || {
        docker(&["volume", "ls", "--quiet", "--filter", "label=ringfence.run"]).is_empty()
    });
    // A service that dies takes the others along: half a sandbox is none.
    let made = server.post("/v1/sandboxes", &wish(SERVICES)).ok(201);
    let id = made["id"].as_str().unwrap();
    let db =
        docker(&["ps", "--no-trunc", "--format", "{{.ID}} {{.Command}} {{.Names}}", "--filter", "label=ringfence.run"]);
    let first = db.split_whitespace().next().unwrap();
    docker(&["kill", first]);
    eventually("all are gone", || containers() == 0);
    let gone = server.get(&format!("/v1/sandboxes/{id}")).problem(410, "sandbox_gone");
    assert!(gone["detail"].as_str().unwrap().contains("died"), "{gone}");
    server.post("/v1/sandboxes", &wish(SERVICES)).ok(201);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    nothing_is_left();
}

#[test]
fn services_are_proven_each() {
    let _alone = alone();
    let server = Server::socket(&[]);
    let text = "services:\n  \
        one: {image: ringfence/debian, x-default: true, command: [sleep, '10000']}\n  \
        two: {image: ringfence/static, command: [/busybox, sleep, '10000']}\n";
    let mut proven = wish(text);
    proven["verify"] = json!("fast");
    let observed = server.post("/v1/sandboxes", &proven).ok(201)["observed"].clone();
    assert_eq!((&observed["state"], &observed["profile"]), (&json!("probed"), &json!("T0.H1.N2")), "{observed}");
    for service in ["one", "two"] {
        assert_eq!(observed["services"][service]["failed"], 0, "{observed}");
    }
}

#[test]
fn a_client_says_what_is_the_tasks_and_what_the_sample_says_of_itself() {
    let _alone = alone();
    let server = Server::socket(&[]);
    let place = tempfile::tempdir().unwrap();
    let inner = place.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(place.path().join("note"), "beside").unwrap();
    let text = "services: {agent: {image: 'ringfence/${SAMPLE_METADATA_KIND}', environment: {ID: '${SAMPLE_METADATA_ID}'}, volumes: ['../note:/note:ro'], command: [/busybox, sleep, '1000']}}";
    let variables = json!({"SAMPLE_METADATA_KIND": "static", "SAMPLE_METADATA_ID": "s1"});
    let wish = |root: Option<&std::path::Path>, variables: &Value| json!({"profile": "T0.H1.N2", "compose": {"text": text, "directory": inner, "root": root, "variables": variables}});
    let made = server.post("/v1/sandboxes", &wish(Some(place.path()), &variables)).ok(201);
    let id = made["id"].as_str().unwrap();
    let script = "/busybox cat /note; /busybox echo -n $ID";
    let (code, out, err) = server.exec(id, &json!({"argv": ["/busybox", "sh", "-c", script]}));
    assert_eq!((code, out.as_str()), (0, "besides1"), "{err}");
    server.request("DELETE", &format!("/v1/sandboxes/{id}"), b"").ok(204);
    // Without a word of the client's nothing above is the task's; a directory elsewhere is no root.
    for root in [None, Some(std::path::Path::new("/usr"))] {
        server.post("/v1/sandboxes", &wish(root, &variables)).problem(422, "refused");
    }
    for odd in [json!({"A=B": "x"}), json!({"A": "x\0y"}), json!({"A": "x".repeat(20_000)})] {
        server.post("/v1/sandboxes", &wish(None, &odd)).problem(400, "bad_request");
    }
    nothing_is_left();
}
