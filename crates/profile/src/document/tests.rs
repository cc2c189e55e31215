//! Bad documents: every mistake has a place and a way out.

use super::Document;

/// Each document with everything we say about it.
fn complaints(texts: &[&str]) -> String {
    let shown = texts.iter().map(|text| match Document::parse("ringfence.yaml", text) {
        Ok(_) => format!("{text}\n    was accepted\n"),
        Err(problems) => {
            let lines = problems.problems.iter().map(|problem| {
                let place = problem.place.map_or("-".to_owned(), |place| place.to_string());
                let hint = problem.hint.as_ref().map(|hint| format!("\n        hint: {hint}")).unwrap_or_default();
                format!("    {place} {}{hint}\n", problem.message)
            });
            format!("{text}\n{}", lines.collect::<String>())
        }
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn structure() {
    insta::assert_snapshot!(complaints(&[
        "",
        "just text",
        "[a, list]",
        "image: host",
        "profile: T9.H1.N1",
        "profile: 7",
        "profil: T0.H1.N1",
        "profile: T0.H1.N1\nsurprise: 1",
        "profile: T0.H1.N1\ntools:",
        "profile: T0.H1.N1\ntools: bash",
        "profile: T0.H1.N1\nsandbox: podman",
        "profile: T0.H1.N1\nsandbox: [docker]",
        "profile: T0.H1.N1\nsandbox: docker\nprovider: container",
        "profile: T0.H1.N1\napproval: prd",
        "profile: T0.H1.N1\naudit: 3",
        "profile: T0.H1.N1\naudit: /dev/null",
        "profile: T0.H1.N1\nimage: ' '\nruntime: ''\nsandbox: [container, x.yaml]",
        "profile: T0.H1.N1\nmounts: ['a:/d', 'b:/d/e:rw', 'c:/f', 'd:/f/']",
        "profile: T0.H1.N1\nenvironment: {'TOKEN=hunter2': x}",
        "profile: T0.H1.N1\njustification: ''",
        "profile: T0.H1.N1\nimage: 1.10",
        "profile: T0.H1.N1\nphases: {agnet: {network: N2}}",
        "profile: T0.H1.N1\nphases: {setup: {network: N7}}",
        "profile: T0.H1.N1\nphases: {setup: {network: {allow_domains: []}}}",
        "profile: T0.H1.N1\nservices: {db: {ports: [0, 99999, x]}}",
        "profile: T0.H1.N1\nservices: {agent: {image: x}, 'a b': {image: x}}",
        "profile: T0.H1.N1\nlimits: {memory: lots, pids: 0, cpu: -1, time: 1 fortnight, memroy: 1GiB}",
        "profile: T0.H1.N1\nmounts: ['/run:/x', 'data', '/home/u/.ssh:/keys']",
        "profile: T0.H1.N1\nenvironment: {'1X': a, OK: [1], FINE: yes}",
        "profile: T0.H1.N1\nfile_tools: {mode: disk, root: ../x, read_only: maybe, preflight: never}",
        "profile: T0.H1.N1\nfile_tools: {allow: src, deny: ['/etc', '../x', '[a', ok, 7], alow: []}",
        "profile: T7.H1.N1\nimage: [x]\nextra: 1\nnetwork: {allow_domains: [localhost]}",
    ]));
}

#[test]
fn network() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N1\nnetwork: {allow_domains: '*'}",
        "profile: T0.H1.N1\nnetwork: {allow_domains: ['*', 10.0.0.1, 'https://example.org', '*.org', 'a b.org', 'example.org:22']}",
        "profile: T0.H1.N1\nnetwork: {allow_domain: [example.org]}",
        "profile: T0.H1.N1\nnetwork: {allow_domains_ports: [{port: 53, protocol: UDP, domain: a.org}, {port: 22}, {domain: a.org}, {port: 0, domain: a.org}]}",
        "profile: T0.H1.N1\nnetwork: {allow_cidr: [0.0.0.0/0, 169.254.169.254, 10.0.0.0/33, example.org]}",
        "profile: T0.H1.N1\nnetwork:\n  allow_domains:\n    - name: '*.example.org'\n      match: [a.example.org, example.org]\n      no_match: [b.example.org, example.net]\n    - {match: [a.org]}",
    ]));
}

#[test]
fn tools() {
    insta::assert_snapshot!(complaints(&[
        "profile: T0.H1.N1\ntools: [bsh, web_search, think, think]",
        "profile: T0.H1.N1\ntools: [{name: mine}, {name: 'a b', runs: host}, {runs: host}, {name: mine2, runs: moon}]",
        "profile: T0.H1.N1\ntools: [{name: bash, needs: T1}, {name: bash_session, sensitive: false}, {name: web_fetch, reach: []}]",
        "profile: T0.H1.N1\ntools: [{name: bash, provider: tavily}, {name: web_search, provider: bing}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, endpoint: 'https://a.example.org'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: tavily, reach: [other.example.org]}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: brave, key: X, endpoint: 'https://a.example.org/path'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: google, endpoint: 'http://search.example.org'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: google, endpoint: 'https://10.0.0.1'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: google, endpoint: 'https://me:pw@search.example.org'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json, endpoint: 'https://a.example.org/'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json, endpoint: 'https://{query}/?q=x'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json, endpoint: 'https://a.example.org/{query}'}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json, endpoint: 'https://a.example.org/?q={query}', key: hunter-2, results: {list: items}}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json, endpoint: 'https://a.example.org/?q={query}', key: {variable: SEARCH_K, header: 'a b'}}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: json, endpoint: 'https://a.example.org/?q={query}', key: AWS_SECRET_ACCESS_KEY}]",
        "profile: T0.H1.N1\ntools: [{name: web_search, provider: tavily, endpoint: 'https://a.example.org'}]",
        "profile: T0.H1.N1\ntools: [{name: mine, runs: host, reach: everything}, {name: web_search, reach: [localhost]}]",
        "profile: T2.H1.N2\ntools: [{name: shell, runs: host, reach: [], needs: T2}, {name: Bash, runs: sandbox, needs: T1}]",
        "profile: T0.H1.N2\ntools: [{name: liar, runs: host, reach: sandbox}, {name: liar2, runs: provider, reach: web}]",
    ]));
}

#[test]
fn audit_off_in_quotes_is_off() {
    let document = Document::parse("x", "profile: T0.H1.N1\naudit: 'off'").unwrap();
    assert_eq!(document.audit.unwrap().value, crate::approval::Audit::Off);
}

#[test]
fn a_product_of_rules_is_bounded() {
    let names: Vec<String> = (0..2000).map(|n| format!("n{n}.example.org")).collect();
    let ports: Vec<String> = (1000..3000).map(|port| format!("{{port: {port}}}")).collect();
    let text = format!(
        "profile: T0.H1.N1\nnetwork: {{allow_domains: [{}], allow_domains_ports: [{}]}}",
        names.join(","),
        ports.join(",")
    );
    let problems = Document::parse("x", &text).unwrap_err();
    assert_eq!(problems.problems[0].message, "more than 4096 rules");
}

#[test]
fn an_undeclared_reach_counts_as_the_widest() {
    let document = Document::parse("x", "profile: T0.H1.N1\ntools: [{name: mine, runs: host}]").unwrap();
    let tool = &document.tools.unwrap()[0].value;
    assert_eq!(tool.reach, crate::affordance::Reach::Anything);
    assert_eq!(tool.sensitivity, crate::affordance::Sensitivity::Sensitive);
    assert_eq!(tool.needs, crate::level::Tooling::T0);
}

#[test]
fn json_is_yaml_too() {
    let document =
        Document::parse("x", r#"{"profile": "t0.h1.n1", "network": {"allow_domains": ["example.org"]}}"#).unwrap();
    assert!(document.network.rules.allows_something());
}
