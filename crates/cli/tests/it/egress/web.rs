//! Web tools of an evaluation: pages come by the sandbox's own network, and only what its rules allow.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::egress::net::{Net, net, write};

/// What an evaluation came to.
struct Fetched {
    /// What the model was told by each call.
    results: Vec<String>,
    /// Every error of a call, in words.
    errors: Vec<String>,
    /// The gateway's records.
    records: Vec<Value>,
    /// Everything that was written and said.
    all: String,
}

impl Fetched {
    fn recorded(&self, reason: &str) {
        assert!(
            self.records.iter().any(|record| record["reason"] == reason),
            "{reason}: {:#?} {:?}",
            self.records,
            self.errors
        );
    }
}

fn task(network: &str, urls: &[&str]) -> String {
    let mut mock = String::new();
    for url in urls {
        let url = json!(url);
        writeln!(mock, "  - {{tool_calls: [{{name: web_fetch, arguments: {{url: {url}}}}}]}}").unwrap();
    }
    format!(
        "name: web\nprofile: T1.H1.N1\nnetwork: {network}\ntools: [web_fetch, submit]\nlimits: {{tool_timeout: 10}}\n\
         dataset: [{{id: one, input: go, target: done}}]\nsolver: {{kind: agent}}\nscorer: includes\n\
         mock:\n{mock}  - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}\n"
    )
}

/// Runs a task to its end and reads what it wrote.
fn eval(net: &Net, file: &Path, arguments: &[&str], trusted: Option<&Path>) -> Fetched {
    let scratch = net.scratch();
    let mut command = net.eval(file, &scratch.path().join("logs"));
    command.args(arguments);
    if let Some(authority) = trusted {
        command.env("SSL_CERT_FILE", authority);
    }
    let output = command.output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{told}"));
    assert_eq!(result["status"], "success", "{result}");
    let log = result["log"].as_str().unwrap();
    let audit = std::fs::read_to_string(log.replace(".eval", ".audit.jsonl")).unwrap();
    let dumped = Command::new(env!("CARGO_BIN_EXE_ringfence")).args(["log", "dump", log]).output().unwrap();
    let dumped = String::from_utf8(dumped.stdout).unwrap();
    let all: Value = serde_json::from_str(&dumped).unwrap();
    let events = all["samples"][0]["events"].as_array().unwrap();
    let calls: Vec<&Value> = events.iter().filter(|event| event["event"] == "tool").collect();
    let record = |event: &Value| (event["data"]["kind"] == "network").then(|| event["data"]["record"].clone());
    Fetched {
        results: calls.iter().map(|call| call["result"].as_str().unwrap().to_owned()).collect(),
        errors: calls.iter().filter_map(|call| Some(call["error"]["message"].as_str()?.to_owned())).collect(),
        records: events.iter().filter_map(record).collect(),
        all: format!("{said}{told}{dumped}{audit}"),
    }
}

fn fetch(net: &Net, network: &str, urls: &[&str]) -> Fetched {
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    write(&file, &task(network, urls));
    eval(net, &file, &[], Some(&net.testnet.ca()))
}

const PAGE: &str =
    "<!DOCTYPE html><title>Example Domain</title><h1>Example Domain</h1><p>For <a href=\"/more\">use</a>.";

fn page(net: &Net) {
    write(&net.www().join("page.html"), PAGE);
    write(&net.www().join("index.html"), PAGE);
}

#[test]
fn allowed_page_is_fetched() {
    let net = net();
    page(&net);
    let fetched = fetch(
        &net,
        "{allow_domains: [www.example.org, api.example.org]}",
        &[
            "http://www.example.org/page.html",
            "https://www.example.org/page.html",
            "https://www.example.org/redirect?to=https://api.example.org/canary",
        ],
    );
    let expected = "Title: Example Domain\nURL: https://www.example.org/page.html\n\n# Example Domain\n\nFor [use](https://www.example.org/more).";
    assert_eq!(fetched.results[1], expected, "{:?}", fetched.errors);
    assert_eq!(fetched.results[0], expected.replace("https", "http"));
    assert_eq!(fetched.results[2], "URL: https://api.example.org/canary\n\ncanary api.example.org\n");
    assert!(fetched.errors.is_empty());
    // It came by the gateway, by name.
    let allowed: Vec<_> = fetched.records.iter().filter(|record| record["verdict"] == "allowed").collect();
    assert!(
        allowed.iter().any(|record| record["protocol"] == "tls" && record["name"] == "api.example.org"),
        "{allowed:?}"
    );
    assert!(fetched.all.contains("\"web_fetch\""));
}

#[test]
fn pages_of_servers_that_nobody_vouches_for_are_refused() {
    let net = net();
    page(&net);
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    write(&file, &task("{allow_domains: [www.example.org]}", &["https://www.example.org/page.html"]));
    let fetched = eval(&net, &file, &[], None);
    assert!(fetched.errors[0].starts_with("www.example.org cannot be trusted"), "{:?}", fetched.errors);
    assert!(!net.arrived().iter().any(|seen| format!("{seen:?}").contains("page.html")), "nothing was asked for");
}

/// Asserts that an address gives the model a plain refusal, reaches nobody, and is in the gateway's records.
fn refused(network: &str, url: &str, told: &str, reason: &str) {
    let net = net();
    let fetched = fetch(&net, network, &[url]);
    assert_eq!(fetched.errors.len(), 1, "{url}: {:?}", fetched.results);
    assert!(fetched.errors[0].contains(told), "{url}: {:?}", fetched.errors);
    fetched.recorded(reason);
    assert_eq!(net.arrived(), [], "{url}");
}

const WWW: &str = "{allow_domains: [www.example.org]}";

#[test]
fn page_of_an_unlisted_name() {
    refused(WWW, "http://evil.example.net/", "do not allow evil.example.net on port 80", "name_not_listed");
    refused(WWW, "https://evil.example.net/", "do not allow evil.example.net on port 443", "name_not_listed");
}

#[test]
fn page_of_a_raw_address() {
    refused(WWW, "http://93.184.215.66/", "do not allow 93.184.215.66 on port 80", "raw_address");
    refused(WWW, "https://93.184.215.66/", "do not allow 93.184.215.66 on port 443", "raw_address");
    // Other notations are the same address.
    refused(WWW, "http://0x5db8d742/", "do not allow 93.184.215.66 on port 80", "raw_address");
}

#[test]
fn page_of_the_metadata_service() {
    refused(WWW, "http://169.254.169.254/latest/meta-data/", "do not allow 169.254.169.254", "raw_address");
    let listed = "{allow_domains: [meta.example.org]}";
    refused(listed, "http://meta.example.org/latest/", "meta.example.org", "answer_metadata");
}

#[test]
fn page_on_a_port_that_is_not_the_webs() {
    refused(WWW, "http://www.example.org:22/", "do not allow www.example.org on port 22", "port_not_listed");
    refused(WWW, "http://www.example.org:7000/", "do not allow www.example.org on port 7000", "port_not_listed");
}

#[test]
fn page_that_redirects_to_a_forbidden_host() {
    let net = net();
    let to = |scheme: &str, url: &str| format!("{scheme}://www.example.org/redirect?to={url}");
    let urls = [
        to("http", "http://evil.example.net/loot"),
        to("https", "https://93.184.215.66/loot"),
        to("http", "http://169.254.169.254/loot"),
        to("https", "http://www.example.org/loot"),
        to("http", "file:///etc/passwd"),
    ];
    let fetched = fetch(&net, WWW, &urls.each_ref().map(String::as_str));
    assert_eq!(fetched.errors.len(), 5, "{:?}", fetched.results);
    for (error, told) in fetched.errors.iter().zip([
        "do not allow evil.example.net",
        "do not allow 93.184.215.66",
        "do not allow 169.254.169.254",
        "not encrypted",
        "only http and https",
    ]) {
        assert!(error.contains(told), "{error}");
    }
    fetched.recorded("name_not_listed");
    fetched.recorded("raw_address");
    let arrived = format!("{:?}", net.arrived());
    assert!(arrived.contains("/redirect") && !arrived.contains("\"GET /loot"), "{arrived}");
}

#[test]
fn page_of_a_name_that_moves_inside() {
    let net = net();
    page(&net);
    // By turns a public and a private address: whatever is asked, the private one is never connected to.
    let fetched = fetch(&net, "{allow_domains: [rebind.example.org]}", &["http://rebind.example.org/page.html"; 4]);
    assert!(!fetched.results.is_empty());
    assert!(net.arrived().iter().all(|seen| seen.address.to_string() != "10.66.0.10"), "{:?}", net.arrived());
    let private = fetch(&net, "{allow_domains: [private.example.org]}", &["http://private.example.org/page.html"]);
    private.recorded("answer_private");
    assert_eq!(private.errors.len(), 1);
}

#[test]
fn web_tools_without_a_network_are_refused_before_anything_starts() {
    let net = net();
    let scratch = net.scratch();
    let file = scratch.path().join("task.yaml");
    let search = |network: &str| {
        task(network, &[]).replace("[web_fetch, submit]", "[{name: web_search, provider: tavily}, submit]")
    };
    for (text, told) in [
        (task("{}", &[]).replace("H1.N1", "H1.N2"), "tooling.web_fetch"),
        (search("{}").replace("H1.N1", "H1.N2"), "tooling.web_search"),
        (search("{allow_domains: [www.example.org]}"), "tooling.web_search"),
    ] {
        write(&file, &text);
        let output = net.eval(&file, &scratch.path().join("logs")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}{said}");
        assert!(said.contains(told), "{said}");
    }
    assert_eq!(net.seen(), []);
}

/// The example's search service, as its first lines say, in the runner's namespace.
struct Service(std::process::Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn example_web_only_runs() {
    let net = net();
    page(&net);
    let examples: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let scratch = net.scratch();
    let file = scratch.path().join("web_only.yaml");
    write(&file, &std::fs::read_to_string(examples.join("web_only.yaml")).unwrap());
    let mut command = net.testnet.command("/usr/bin/python3");
    command.args(["-m", "http.server", "8080", "--bind", "127.0.0.1", "--directory"]).arg(examples.join("web_only"));
    let _service = Service(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !net.direct(&crate::egress::net::tcp("127.0.0.1", 8080, b"GET / HTTP/1.0\r\n\r\n")).contains("200 OK") {
        assert!(Instant::now() < deadline, "the service does not listen");
    }
    let fetched = eval(&net, &file, &["-T", "endpoint=http://127.0.0.1:8080"], None);
    assert!(fetched.errors.is_empty(), "{:?}", fetched.errors);
    assert!(
        fetched.results[1].starts_with("1. Example Domain\n   http://www.example.org/\n   This domain"),
        "{:?}",
        fetched.results
    );
    assert!(fetched.results[2].contains("# Example Domain"), "{:?}", fetched.results);
    assert!(fetched.all.contains("\"provider\":\"json\"") && fetched.all.contains("127.0.0.1"), "{}", fetched.all);
}
