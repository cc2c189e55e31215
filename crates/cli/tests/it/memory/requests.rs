//! Bodies of requests to `serve`.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::memory::limited::{ALLOWED, status_bytes};
use crate::serve::client::Server;

#[test]
fn a_body_of_millions_of_values_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("socket").display().to_string();
    let server = Server::start(place, &["--socket", &socket], &[], &[("MALLOC_ARENA_MAX", "1")]);
    // As much as a body may have; what is inside a document's text is its reader's.
    let values = |part: &str| format!("[{}0]", part.repeat((4 << 20) / part.len() - 100));
    for path in ["/v1/sandboxes", "/v1/verify", "/v1/receipts"] {
        server.request("POST", path, b"[0]").problem(400, "bad_request");
    }
    // From here on: what it had at most, and the bound.
    let pid = server.child.id();
    let before = status_bytes(pid, "VmHWM:").unwrap();
    let most = status_bytes(pid, "VmPeak:").unwrap() + ALLOWED;
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    prlimit(Some(Pid::from_child(&server.child)), Resource::As, limit).unwrap();
    let labels: Vec<String> = (0..330_000).map(|number| format!("\"{number}\":\"\"")).collect();
    let labels = format!("{{\"profile\":\"T0.H1.N2\",\"labels\":{{{}}}}}", labels.join(","));
    let bodies = ["[],", "{\"\":0},", "0,"].map(values);
    let within = |body: &String| format!("{{\"profile\":\"T0.H1.N2\",\"x\":{body}}}");
    for body in bodies.iter().map(within).chain(bodies.iter().cloned()).chain([labels]) {
        for path in ["/v1/sandboxes", "/v1/verify", "/v1/receipts"] {
            let problem = server.request("POST", path, body.as_bytes()).problem(400, "bad_request");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("too many values"), "{path} {}: {detail}", &body[..40]);
        }
    }
    let after = status_bytes(pid, "VmHWM:").unwrap();
    assert!(after < before + ALLOWED, "{} MiB of {} MiB", after >> 20, before >> 20);
    server.get("/v1/sandboxes").ok(200);
}
