//! Every tool under every T and N and every preset, through real evaluations: what ran, what was refused before anything
//! started, what was rejected, what ended the sample; and that the log says so.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use crate::common::evaluation::{dump, ended, write};
use serde_json::{Value, json};

/// A tool with a sound call of it, whether it is sensitive, the strictest T that grants it, and whether it needs a network.
struct Case {
    name: &'static str,
    arguments: Value,
    sensitive: bool,
    strictest: u8,
    network: bool,
}

fn cases() -> Vec<Case> {
    let case = |name, arguments, sensitive, strictest, network| Case { name, arguments, sensitive, strictest, network };
    vec![
        case("bash", json!({"command": "echo ran"}), true, 0, false),
        case("python", json!({"code": "print('ran')"}), true, 0, false),
        case("bash_session", json!({"action": "type_submit", "input": "echo ran"}), true, 0, false),
        case("write_file", json!({"file_path": "/repo/a", "content": "x"}), true, 0, false),
        case("edit_file", json!({"file_path": "/repo/a", "old_string": "x", "new_string": "y"}), true, 0, false),
        case("delete_file", json!({"file_path": "/repo/a"}), true, 0, false),
        case("text_editor", json!({"command": "create", "path": "/repo/b", "file_text": "x"}), true, 0, false),
        case("read_file", json!({"file_path": "/repo/a"}), false, 1, false),
        case("ls", json!({}), false, 1, false),
        case("think", json!({"thought": "hm"}), false, 1, false),
        case("todo_write", json!({"todos": [{"content": "a", "status": "pending"}]}), false, 1, false),
        case("web_search", json!({"query": "anything"}), false, 1, true),
        case("web_fetch", json!({"url": "http://listed.example.org/"}), false, 1, true),
        case("submit", json!({"answer": "done"}), false, 1, false),
    ]
}

impl Case {
    fn granted(&self, t: u8, n: u8) -> bool {
        t <= self.strictest && !(self.network && n == 2)
    }
}

/// A search service on this machine.
fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let body = r#"{"results": [{"title": "One", "url": "https://one.example.org/", "content": "first"}]}"#;
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

fn head(t: u8, n: u8, preset: &str) -> String {
    let network = if n == 1 { "network: {allow_domains: [listed.example.org]}\n" } else { "" };
    let why = if n == 0 { "justification: a test of every tool\n" } else { "" };
    format!("name: matrix\nprofile: T{t}.H1.N{n}\napproval: {preset}\n{network}{why}")
}

fn declared(case: &Case, service: SocketAddr) -> Value {
    match case.name {
        "web_search" => {
            json!({"name": "web_search", "provider": "json", "endpoint": format!("http://{service}/?q={{query}}")})
        }
        name => json!(name),
    }
}

/// Everything that a profile grants, in one evaluation: a sample for each tool.
fn granted(place: &Path, (t, n, preset): (u8, u8, &str), service: SocketAddr) -> usize {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.granted(t, n)).collect();
    if cases.is_empty() {
        return 0;
    }
    let tools: Vec<Value> = cases.iter().map(|case| declared(case, service)).collect();
    let done = json!({"tool_calls": [{"name": "submit", "arguments": {"answer": "done"}}]});
    let samples: Vec<Value> = cases
        .iter()
        .map(|case| {
            let call = json!({"tool_calls": [{"name": case.name, "arguments": case.arguments}]});
            let mock = if case.name == "submit" { vec![done.clone()] } else { vec![call, done.clone()] };
            json!({"id": case.name, "input": "go", "target": "done", "mock": mock})
        })
        .collect();
    let text = format!(
        "{}tools: {}\ndataset: {}\nsolver: agent\nscorer: includes\n",
        head(t, n, preset),
        json!(tools),
        json!(samples)
    );
    let (code, result, err) = ended(place, &[&write(place, "task.yaml", &text), "--allow-full-network"]);
    assert_eq!(code, 0, "T{t} N{n} {preset}: {result} {err}");
    let log = dump(place, result["log"].as_str().unwrap());
    for case in &cases {
        check(case, &log, (t, n, preset));
    }
    cases.len()
}

fn check(case: &Case, log: &Value, (t, n, preset): (u8, u8, &str)) {
    let at = format!("{} at T{t} N{n} under {preset}", case.name);
    let samples = log["samples"].as_array().unwrap();
    let sample = samples.iter().find(|sample| sample["id"] == case.name).unwrap();
    let events = sample["events"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    // What it may use is said before anybody is asked.
    let told = events.iter().position(|event| event["data"]["kind"] == "affordances").unwrap();
    let model = events.iter().position(|event| event["event"] == "model").unwrap();
    assert!(told < model, "{at}");
    let names = |list: &str| events[told]["data"][list].to_string();
    assert!(names("granted").contains(&format!("\"{}\"", case.name)), "{at}");
    let tool = of("tool").into_iter().find(|event| event["function"] == case.name);
    let decided = of("approval").last().map(|event| event["decision"].as_str().unwrap().to_owned());
    let rejected = tool.is_some_and(|event| event["error"]["type"] == "approval");
    if case.name == "submit" {
        assert!(tool.is_some() && decided.is_none() && sample["limit"].is_null(), "{at}: {sample}");
        return;
    }
    match (case.sensitive, preset) {
        (true, "dev") => {
            assert!(rejected && decided.as_deref() == Some("reject"), "{at}: {tool:?} {decided:?}");
            // Both gates were asked, and said so.
            assert_eq!(of("approval").len(), 2, "{at}");
        }
        (true, "prod") => {
            assert!(tool.is_none() && decided.as_deref() == Some("terminate"), "{at}: {tool:?} {decided:?}");
            assert_eq!(sample["limit"]["type"], "operator", "{at}");
            assert_eq!(of("sample_limit").len(), 1, "{at}");
        }
        _ => {
            assert!(!rejected && decided.as_deref() == Some("approve"), "{at}: {tool:?} {decided:?}");
            assert!(sample["limit"].is_null(), "{at}");
            ran(case, tool.unwrap(), &at);
        }
    }
}

/// What a tool gives that ran.
fn ran(case: &Case, event: &Value, at: &str) {
    let (result, error) = (event["result"].as_str().unwrap(), event["error"]["type"].as_str());
    match case.name {
        "bash" | "python" | "bash_session" => assert!(error.is_none() && result.contains("ran"), "{at}: {event}"),
        // The store is empty.
        "read_file" | "edit_file" | "delete_file" => assert_eq!(error, Some("file_not_found"), "{at}: {event}"),
        "web_search" => assert!(error.is_none() && result.contains("https://one.example.org/"), "{at}: {event}"),
        // There is no internet here: the name is listed, and cannot be had.
        "web_fetch" => assert!(error.is_some_and(|kind| kind != "parsing" && kind != "approval"), "{at}: {event}"),
        _ => assert!(error.is_none(), "{at}: {event}"),
    }
}

/// What a profile does not grant is refused before anything starts, each for itself.
fn refused(place: &Path, (t, n, preset): (u8, u8, &str), service: SocketAddr) -> usize {
    let mut count = 0;
    for case in cases().into_iter().filter(|case| !case.granted(t, n)) {
        let at = format!("{} at T{t} N{n} under {preset}", case.name);
        let call = json!([{"tool_calls": [{"name": case.name, "arguments": case.arguments}]}]);
        let text = format!(
            "{}tools: [{}]\ndataset: [{{input: go, target: done}}]\nsolver: agent\nscorer: includes\nmock: {call}\n",
            head(t, n, preset),
            declared(&case, service)
        );
        let (code, said, err) = ended(place, &[&write(place, "task.yaml", &text), "--allow-full-network"]);
        assert_eq!(code, 3, "{at}: {said} {err}");
        assert!(said.to_string().contains(case.name), "{at}: {said}");
        count += 1;
    }
    count
}

fn all(preset: &str) {
    let place = tempfile::tempdir().unwrap();
    let service = service();
    let mut seen = 0;
    for (t, n) in (0..3).flat_map(|t| (0..3).map(move |n| (t, n))) {
        let logs = place.path().join("logs");
        let count = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
        seen += granted(place.path(), (t, n, preset), service);
        let before = count(&logs);
        seen += refused(place.path(), (t, n, preset), service);
        assert_eq!(count(&logs), before, "a refused task leaves no log");
    }
    assert_eq!(seen, cases().len() * 9);
}

#[test]
fn every_tool_under_every_profile_with_ci() {
    all("ci");
}

#[test]
fn every_tool_under_every_profile_with_dev() {
    all("dev");
}

#[test]
fn every_tool_under_every_profile_with_prod() {
    all("prod");
}

/// Numbers that are the same in every run (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % most).unwrap()
    }

    fn text(&mut self) -> String {
        let odd = [
            "",
            "/repo/a",
            "../../etc/passwd",
            "/repo/\u{0}",
            "a\nb",
            "\u{202e}",
            "-",
            "~",
            "true",
            "\u{1b}[31m",
            "http://",
            "[",
            "http://[::1]:0/",
            "https://listed.example.org:99999/",
            "file:///etc/passwd",
            "ä".repeat(20).leak(),
            "\\",
            "{}",
            "'",
        ];
        odd[self.below(odd.len() as u64)].to_owned()
    }

    fn value(&mut self, depth: u32) -> Value {
        match self.below(if depth > 2 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(i64::try_from(self.below(5)).unwrap() - 2),
            3 => json!([i64::MAX, i64::MIN, 1 << 40][self.below(3)]),
            4 => json!([0.5, -1e300, 3.0][self.below(3)]),
            5 => json!(self.text()),
            6 => Value::Array((0..self.below(4)).map(|_| self.value(depth + 1)).collect()),
            _ => Value::Object((0..self.below(4)).map(|_| (self.text(), self.value(depth + 1))).collect()),
        }
    }

    /// Arguments of a tool: mostly its own names, with whatever in them.
    fn arguments(&mut self, case: &Case) -> Value {
        let mut arguments = case.arguments.as_object().unwrap().clone();
        for name in case.arguments.as_object().unwrap().keys() {
            match self.below(4) {
                0 => {}
                1 => drop(arguments.remove(name)),
                2 => drop(arguments.insert(name.clone(), json!(self.text()))),
                _ => drop(arguments.insert(name.clone(), self.value(0))),
            }
        }
        for name in ["offset", "limit", "view_range", "old_str", "insert_line", "replace_all", "path", "input"] {
            if self.below(6) == 0 {
                arguments.insert(name.to_owned(), self.value(0));
            }
        }
        Value::Object(arguments)
    }
}

#[test]
fn random_arguments_through_a_whole_evaluation_are_answers() {
    let place = tempfile::tempdir().unwrap();
    let service = service();
    let mut dice = Dice(7);
    let cases = cases();
    let tools: Vec<Value> = cases.iter().map(|case| declared(case, service)).collect();
    let samples: Vec<Value> = (0..20)
        .map(|id| {
            let calls = (0..20).map(|_| {
                let case = &cases[dice.below(cases.len() as u64 - 1)];
                let name = if dice.below(20) == 0 { dice.text() } else { case.name.to_owned() };
                let arguments = match dice.below(20) {
                    0 => json!("{\"command\": oops"),
                    1 => json!("[1, 2]"),
                    _ => dice.arguments(case),
                };
                json!({"tool_calls": [{"name": if name.is_empty() { "none".into() } else { name }, "arguments": arguments}]})
            });
            let done = json!({"tool_calls": [{"name": "submit", "arguments": {"answer": "done"}}]});
            let mock: Vec<Value> = calls.chain([done]).collect();
            json!({"id": id, "input": "go", "target": "done", "mock": mock})
        })
        .collect();
    let text = format!(
        "{}limits: {{tool_timeout: 2}}\ntools: {}\ndataset: {}\nsolver: {{kind: agent, max_steps: 30}}\nscorer: includes\n",
        head(0, 1, "ci"),
        json!(tools),
        json!(samples)
    );
    let (code, result, err) = ended(place.path(), &[&write(place.path(), "task.yaml", &text)]);
    assert_eq!(code, 0, "{result} {err}");
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let kinds = [
        "parsing",
        "timeout",
        "unicode_decode",
        "permission",
        "file_not_found",
        "is_a_directory",
        "limit",
        "unknown",
        "sandbox_unavailable",
    ];
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for sample in log["samples"].as_array().unwrap() {
        assert!(sample["error"].is_null(), "{}", sample["error"]);
        let events = sample["events"].as_array().unwrap().iter().filter(|event| event["event"] == "tool");
        assert_eq!(events.clone().count(), 21);
        for event in events {
            let kind = event["error"]["type"].as_str().unwrap_or("none");
            assert!(kind == "none" || kinds.contains(&kind), "{event}");
            assert!(!event["result"].as_str().unwrap().contains("panicked"), "{event}");
            *seen.entry(kind.to_owned()).or_default() += 1;
        }
    }
    // Both sorts are among them.
    assert!(seen["none"] > 40 && seen["parsing"] > 40, "{seen:?}");
}
