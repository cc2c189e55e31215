//! Policies: what they say, and what is wrong with them.

use serde_json::{Map, Value, json};

use super::policy::{Approver, On, Policy};

fn policy(text: &str) -> Result<Policy, Vec<String>> {
    let tools = ["own_tool".to_owned()];
    Policy::parse("policy.yaml", text, &tools).map_err(|problems| {
        problems.problems.iter().map(|problem| format!("{:?} {}", problem.place, problem.message)).collect()
    })
}

fn holds(conditions: &str, tool: &str, arguments: Value) -> bool {
    let read = policy(&format!("approvers: [{{name: auto, tools: {tool}, where: {conditions}}}]"));
    let Value::Object(arguments) = arguments else { return false };
    read.is_ok_and(|policy| policy.rules[0].wheres.iter().all(|one| one.holds(&arguments)))
}

#[test]
fn the_documented_policy_is_one() {
    let text = include_str!("../../../../fuzz/seeds/policy/documented.yaml");
    let policy = policy(text);
    let rules: Vec<(&str, On)> =
        policy.iter().flat_map(|policy| policy.rules.iter().map(|rule| (rule.approver.name(), rule.on))).collect();
    let expected = [
        ("auto", On::Call),
        ("auto", On::Call),
        ("command", On::Call),
        ("human", On::Call),
        ("auto", On::Result),
        ("human", On::Egress),
    ];
    assert_eq!(rules, expected);
}

#[test]
fn a_preset_in_a_policy_is_its_whole_chain() {
    let policy = policy("approvers: [{name: preset, preset: dev, tools: '*'}]");
    let names: Vec<&str> =
        policy.iter().flat_map(|policy| policy.rules.iter().map(|rule| rule.approver.name())).collect();
    assert_eq!(names, ["plain_tools", "human"]);
    assert!(matches!(super::policy::preset(&profile::Approval::Ci)[0].approver, Approver::Auto(_)));
}

#[test]
fn conditions_are_held_against_arguments() {
    let bash = |condition: &str, command: &str| {
        holds(&format!("{{command: {condition}}}"), "bash", json!({"command": command}))
    };
    assert!(bash("ls", "ls") && !bash("ls", "ls -l"));
    assert!(bash("{program: [ls, cat]}", "cat /a") && !bash("{program: [ls]}", "ls; rm x"));
    assert!(
        bash("{matches: 'ls .*'}", "ls a") && !bash("{matches: 'ls'}", "ls; rm x") && !bash("{matches: 'a|ls'}", "xls")
    );
    assert!(bash("{starts_with: ls, contains: x}", "ls x") && !bash("{starts_with: ls, contains: x}", "ls y"));
    assert!(bash("{one_of: [a, b]}", "b"));
    let path = |path: &str| holds("{file_path: {under: /repo}}", "read_file", json!({"file_path": path}));
    assert!(path("/repo/a") && !path("/repository") && !path("/repo/../etc") && !path("/repo") && !path("repo/a"));
    let url = |url: &str| holds("{url: {host: ['*.example.org']}}", "web_fetch", json!({"url": url}));
    assert!(
        url("https://a.example.org/")
            && !url("https://example.org/")
            && !url("https://evil.test/?a.example.org")
            && !url("x")
    );
    assert!(!url("https://a.example.org@evil.test/"));
    let count = |count: i64| holds("{limit: {at_least: 1, at_most: 10}}", "read_file", json!({"limit": count}));
    assert!(count(1) && count(10) && !count(0) && !count(11));
    assert!(holds("{replace_all: true}", "edit_file", json!({"replace_all": true})));
    // What is not there fulfils nothing.
    assert!(!holds("{limit: {at_most: 10}}", "read_file", json!({"file_path": "/a"})));
}

#[test]
fn patterns_are_held_against_the_whole_name() {
    let of = |pattern: &str, name: &str| super::parse::matches(pattern, name);
    assert!(of("bash", "bash") && !of("bash", "bash_session") && of("bash*", "bash_session") && of("*", "x"));
    assert!(
        of("web_?etch", "web_fetch") && !of("?", "") && of("**", "") && of("*a*b", "xaayb") && !of("*a*b", "xaayc")
    );
    // Many stars take no longer than they are.
    assert!(!of(&"*a".repeat(40), &"a".repeat(39)));
}

#[test]
fn an_approver_without_tools_or_with_others_keys_is_wrong() {
    for wrong in [
        "approvers: []",
        "approvers: {}",
        "{}",
        "approver: []",
        "approvers: [{name: auto}]",
        "approvers: [{tools: bash}]",
        "approvers: [{name: auto, tools: bash, decision: modify}]",
        "approvers: [{name: human, tools: bash, timeout: 0}]",
        "approvers: [{name: human, tools: bash, choices: [maybe]}]",
        "approvers: [{name: preset, tools: bash}]",
        "approvers: [{name: preset, preset: none, tools: bash}]",
        "approvers: [{name: auto, tools: bash, on: never}]",
        "approvers: [{name: auto, tools: bash, where: [a]}]",
        "approvers: [{name: auto, tools: bash, where: {command: {}}}]",
        "approvers: [{name: auto, tools: bash, where: {command: {host: ['1.2.3.4:5']}}}]",
        "approvers: [{name: auto, on: egress}]",
        "approvers: [{name: auto, on: egress, hosts: [a.example.org], decision: approve}]",
        "approvers: [{name: auto, tools: []}]",
        "approvers: [{name: auto, tools: bash, where: {}}]",
        "approvers: [{name: human, tools: bash, choices: []}]",
        "approvers: [{name: auto, on: egress, hosts: []}]",
        "approvers: [{name: auto, tools: bash, where: {command: {one_of: []}}}]",
        "approvers: [{name: auto, tools: bash, where: {command: {program: []}}}]",
        "approvers: [{name: auto, tools: bash, where: {command: {matches: 'x)|(?:.*'}}}]",
        "approvers: [{name: auto, tools: read_file, where: {file_path: {under: ''}}}]",
        "approvers: [{name: auto, tools: bash_session, where: {input: {program: [ls]}}}]",
        "approvers: [{name: auto, tools: '*', where: {command: {program: [ls]}}}]",
    ] {
        assert!(policy(wrong).is_err(), "{wrong}");
    }
    let empty: Map<String, Value> = Map::new();
    assert!(
        policy("approvers: [{name: auto, tools: own_tool}]")
            .is_ok_and(|policy| policy.rules[0].wheres.iter().all(|one| one.holds(&empty)))
    );
}
