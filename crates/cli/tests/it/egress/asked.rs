//! Names that no rule lists, offered to an approver.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::egress::net::net;

#[test]
fn a_name_that_no_rule_lists_is_offered_and_the_answer_recorded() {
    let net = net();
    let scratch = net.scratch();
    let judge = "grep -q host.:.www.example.org && echo {\\\"decision\\\": \\\"approve\\\"} || echo {\\\"decision\\\": \\\"reject\\\"}";
    let policy = json!({"approvers": [
        {"name": "auto", "tools": "*"},
        {"name": "command", "on": "egress", "command": ["/bin/sh", "-c", judge]},
    ]});
    let policy_file = scratch.path().join("policy.yaml");
    std::fs::write(&policy_file, policy.to_string()).unwrap();
    let get = |url: &str| format!("curl -sS --max-time 5 -o /dev/null -w '%{{http_code}}' {url} || echo refused");
    let commands =
        [get("http://www.example.org/asked"), get("http://other.example.org/"), get("http://denied.example.org/")];
    let mut mock = String::new();
    for command in &commands {
        let arguments = json!({"command": command});
        writeln!(mock, "  - {{tool_calls: [{{name: bash, arguments: {arguments}}}]}}").unwrap();
    }
    let text = format!(
        "name: asked\nprofile: T0.H1.N1\napproval: ci\ntools: [bash, submit]\n\
         network: {{allow_domains: [listed.example.org], deny_domains: [denied.example.org]}}\n\
         dataset: [{{id: one, input: go, target: done}}]\nsolver: agent\nscorer: includes\n\
         mock:\n{mock}  - {{tool_calls: [{{name: submit, arguments: {{answer: done}}}}]}}\n"
    );
    let file = scratch.path().join("task.yaml");
    std::fs::write(&file, text).unwrap();
    let output = net.eval(&file, &scratch.path().join("logs")).arg("--approval").arg(&policy_file).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(result["status"], "success", "{result}");
    let seen = format!("{:?}", net.arrived());
    assert!(seen.contains("/asked"), "what was approved is reached: {seen}");
    let audit = result["log"].as_str().unwrap().replace(".eval", ".audit.jsonl");
    let lines = std::fs::read_to_string(&audit).unwrap();
    let decided: Vec<(String, String)> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["kind"] == "approval" && line["data"]["data"]["on"] == "egress")
        .map(|line| {
            let data = &line["data"]["data"];
            (data["approver"].as_str().unwrap().to_owned(), data["decision"].as_str().unwrap().to_owned())
        })
        .collect();
    // Nobody is asked about what is denied: deny beats whoever would say yes.
    let expected = [("command", "approve"), ("command", "reject")].map(|(who, what)| (who.to_owned(), what.to_owned()));
    assert_eq!(decided, expected, "{lines}");
    assert!(lines.contains("decided_no"), "{lines}");
}
