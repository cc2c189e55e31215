//! All profiles on several hosts, whole plans and refusals as snapshots, and what must hold of every plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::{Plan, compile, explain};
use crate::document::Document;
use crate::facts::{Capability, Facts, Finding, Status};
use crate::level::Profile;
use crate::refusal::Refusal;
use crate::settings::{Environment, Overrides, Request};

use Capability::{
    Cgroups, Docker, Kubernetes, Kvm, Landlock, Nftables, Overlay, Proxmox, Qemu, Seccomp, UserNamespaces,
};

/// The embedded engine's needs.
const ENGINE: &[Capability] = &[UserNamespaces, Overlay, Seccomp, Cgroups, Nftables, Landlock];

/// Hosts as they are met in the wild.
fn hosts() -> Vec<(&'static str, Facts)> {
    let with = |working: &[Capability]| {
        Facts::new(Capability::ALL.map(|capability| {
            let finding = if working.contains(&capability) {
                Finding::works("works")
            } else {
                Finding::missing(format!("no {}", capability.name()), format!("get {}", capability.name()))
            };
            (capability, finding)
        }))
    };
    vec![
        ("root", with(ENGINE)),
        ("user", with(&[UserNamespaces, Overlay, Seccomp, Nftables, Landlock])),
        ("old_kernel", with(&[UserNamespaces, Overlay, Seccomp, Cgroups])),
        ("userns_blocked", with(&[Seccomp, Landlock, Cgroups, Docker])),
        (
            "cluster",
            with(&[UserNamespaces, Overlay, Seccomp, Cgroups, Nftables, Landlock, Kubernetes, Proxmox, Qemu, Kvm]),
        ),
        ("bare", with(&[])),
    ]
}

fn facts(host: &str) -> Facts {
    hosts().into_iter().find(|(name, _)| *name == host).unwrap().1
}

fn bare(profile: Profile) -> Request {
    Request::resolve(Document::bare(profile, "the command line"), &Environment::default(), Overrides::default())
}

fn request(text: &str) -> Request {
    request_with(text, &[])
}

fn request_with(text: &str, variables: &[(&str, &str)]) -> Request {
    let variables: BTreeMap<String, String> = variables.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let document = Document::parse("ringfence.yaml", text).unwrap();
    Request::resolve(document, &Environment::parse(&variables).unwrap(), Overrides::default())
}

fn refusal(text: &str, host: &str) -> Refusal {
    compile(&request(text), &facts(host)).unwrap_err()
}

/// One line per obstacle, for reading in a snapshot.
fn show(refusal: &Refusal) -> String {
    let mut out = format!("{refusal}\n");
    for unmet in &refusal.unmet {
        let place = unmet.place.map(|place| format!(" at {place}")).unwrap_or_default();
        writeln!(out, "- {:?} {}{place}: {}", unmet.cause, unmet.control, unmet.reason).unwrap();
        if let Some(hint) = &unmet.hint {
            writeln!(out, "  hint: {hint}").unwrap();
        }
    }
    for alternative in &refusal.nearest {
        writeln!(out, "> {} {}", alternative.profile, alternative.difference).unwrap();
    }
    out
}

#[test]
fn every_profile_on_every_host_is_a_plan_or_a_refusal() {
    let mut out = String::new();
    for (name, facts) in hosts() {
        writeln!(out, "# {name}").unwrap();
        for profile in Profile::all() {
            let line = match explain(&bare(profile), &facts) {
                Ok(explained) => {
                    let required: Vec<&str> = explained.required.iter().map(|unmet| unmet.control.as_str()).collect();
                    let residual: Vec<&str> = explained.plan.residual.iter().map(|residual| residual.id).collect();
                    format!(
                        "plan on {}; requires [{}]; remains [{}]",
                        explained.plan.provider,
                        required.join(" "),
                        residual.join(" ")
                    )
                }
                Err(refusal) => {
                    let unmet: Vec<&str> = refusal.unmet.iter().map(|unmet| unmet.control.as_str()).collect();
                    let nearest: Vec<String> =
                        refusal.nearest.iter().map(|nearest| nearest.profile.to_string()).collect();
                    format!("refused for [{}]; nearest [{}]", unmet.join(" "), nearest.join(" "))
                }
            };
            writeln!(out, "{profile} {line}").unwrap();
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn typical_plans_in_full() {
    for (profile, _) in crate::level::TYPICAL {
        let explained = explain(&bare(profile), &facts("cluster")).unwrap();
        insta::assert_json_snapshot!(format!("plan_{profile}"), explained);
    }
}

/// Uses every part of a document once.
const FULL: &str = r#"
profile: T0.H1.N1
sandbox: [docker, compose.yaml]
runtime: runsc
image: registry.example.org/agent@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
network:
  allow_domains: [example.org, "*.packages.example.org", "tcp://git.example.org:22"]
  allow_domains_ports: [{domain: db.example.org, port: 5432, protocol: TCP}]
  allow_cidr: [203.0.113.7/24]
  allow_private_answers: [intern.example.org]
  deny_domains: [bad.packages.example.org]
  deny_cidr: [203.0.113.128/25]
tools: [bash, read_file, {name: web_search, reach: [example.org]}, {name: lookup, runs: provider, reach: [example.org], needs: T1, sensitive: false}]
mounts: ["./data:/data", "./out:/out:rw"]
environment: {API_KEY: hunter2, PORT: 8080}
approval: dev
audit: audit.jsonl
limits: {time: 10m, tool_timeout: 20, output: 32KiB, memory: 512MiB, cpu: 0.5, pids: 256, disk: 2GiB, file_size: 10MiB}
file_tools: {mode: sandbox, root: /repo, read_only: true, max_bytes: 1MB, preflight: force}
phases:
  setup: {network: {level: N0, deny_domains: [worse.example.org]}}
  score: {network: N2}
services:
  db: {image: postgres, ports: [5432], network: {level: N1, allow_domains: [dump.example.org]}, environment: {PASSWORD: hunter3}}
justification: setup installs packages; agreed with the site's security officer
"#;

#[test]
fn full_document_in_full() {
    let plan = compile(&request(FULL), &Facts::assumed()).unwrap();
    insta::assert_json_snapshot!(plan);
}

#[test]
fn environment_values_are_never_in_a_plan() {
    let request = request(FULL);
    let plan = compile(&request, &Facts::assumed()).unwrap();
    for text in [plan.canonical_json(), format!("{request:?}"), format!("{plan:?}")] {
        assert!(!text.contains("hunter"), "a value leaked: {text}");
    }
}

#[test]
fn h0_cannot_enforce_a_network_level() {
    insta::assert_snapshot!(show(&explain(&bare("T0.H0.N2".parse().unwrap()), &facts("root")).unwrap_err()));
    insta::assert_snapshot!(show(&refusal(
        "profile: T0.H0.N0\napproval: ci\njustification: x\nphases: {score: {network: N2}}",
        "root"
    )));
}

#[test]
fn a_refusal_lists_everything_at_once() {
    insta::assert_snapshot!(show(&refusal(
        "profile: T1.H2.N2\nsandbox: docker\nruntime: runsc\naudit: off\ntools: [bash, web_fetch]\nlimits: {memory: 1GiB}\nnetwork: {allow_domains: [example.org]}\n",
        "bare"
    )));
}

#[test]
fn the_hosts_files_are_an_image_only_where_they_are() {
    let shown = show(&refusal("profile: T2.H2.N2\nimage: host", "cluster"));
    assert!(shown.contains("Contradiction image at 2:8"), "{shown}");
    let shown = show(&refusal("profile: T2.H2.N2", "cluster"));
    assert!(shown.contains("Required image: `sandbox: k8s` needs an image"), "{shown}");
    assert!(compile(&request("profile: T2.H1.N2\nsandbox: [docker, compose.yaml]"), &facts("userns_blocked")).is_ok());
}

#[test]
fn n0_and_h0_need_a_justification() {
    for profile in ["T0.H1.N0", "T2.H1.N0", "T0.H0.N0"] {
        let unmet = refusal(&format!("profile: {profile}\napproval: ci\n"), "root").unmet;
        assert!(unmet.iter().any(|unmet| unmet.control == "justification"), "{profile}");
        let stated = format!("profile: {profile}\napproval: ci\njustification: agreed\n");
        assert!(compile(&request(&stated), &facts("root")).is_ok(), "{profile}");
    }
}

#[test]
fn audit_off_is_refused_where_it_is_needed() {
    let shown = show(&refusal("profile: T0.H1.N1\napproval: ci\naudit: off\njustification: x", "root"));
    assert!(shown.contains("Required audit at 3:8"), "{shown}");
}

#[test]
fn a_service_is_no_way_around_the_agents_network() {
    let shown = show(&refusal(
        "profile: T0.H1.N2\nsandbox: docker\napproval: ci\nservices: {proxy: {image: squid, network: N0}}\njustification: x",
        "userns_blocked",
    ));
    assert!(shown.contains("could use the service `proxy` at N0 as a way out"), "{shown}");
}

#[test]
fn a_scorer_is_no_deferred_way_out() {
    let shown = show(&refusal(
        "profile: T0.H1.N2\napproval: ci\nphases: {score: {network: {level: N1, allow_domains: [example.org]}}}",
        "root",
    ));
    assert!(shown.contains("`score` at N1 is weaker than T0.H1.N2"), "{shown}");
}

#[test]
fn setup_may_have_a_network_that_the_agent_has_not() {
    let plan = compile(
        &request(
            "profile: T0.H1.N2\napproval: ci\nphases: {setup: {network: {level: N1, allow_domains: [example.org]}}}",
        ),
        &facts("root"),
    )
    .unwrap();
    let name = "example.org".parse().unwrap();
    assert!(plan.network.phases["setup"].egress.permits(&name, 443));
    assert!(!plan.network.phases["agent"].egress.permits(&name, 443));
    assert!(plan.residual.iter().any(|residual| residual.id == "weaker_phase"));
}

#[test]
fn a_stated_limit_that_cannot_hold_is_refused_and_a_default_one_is_said() {
    let plan = compile(&request("profile: T0.H1.N2\napproval: ci"), &facts("user")).unwrap();
    assert!(plan.residual.iter().any(|residual| residual.id == "no_resource_limits"));
    let refused = refusal("profile: T0.H1.N2\napproval: ci\nlimits: {memory: 1GiB}", "user");
    assert_eq!(refused.unmet.iter().map(|unmet| unmet.control.as_str()).collect::<Vec<_>>(), ["limits.resources"]);
}

#[test]
fn n2_holds_without_redirect_rules_and_says_what_is_lost() {
    let plan = compile(&request("profile: T0.H1.N2\napproval: ci"), &facts("old_kernel")).unwrap();
    assert!(plan.residual.iter().any(|residual| residual.id == "attempts_unrecorded"));
    assert!(compile(&request("profile: T0.H1.N1\napproval: ci"), &facts("old_kernel")).is_err());
}

#[test]
fn what_could_not_be_found_out_counts_as_missing() {
    let mut findings: BTreeMap<Capability, Finding> =
        Facts::assumed().iter().map(|(capability, finding)| (capability, finding.clone())).collect();
    findings.insert(Seccomp, Finding::unknown("no answer in 2 s"));
    let facts = Facts::new(findings);
    assert_eq!(facts.finding(Seccomp).unwrap().status, Status::Unknown);
    assert!(compile(&request("profile: T2.H1.N2"), &facts).is_err());
}

#[test]
fn kernel_boundary_is_by_runtime_not_by_h() {
    let boundary = |text: &str| {
        let plan = compile(&request(text), &Facts::assumed()).unwrap();
        serde_json::to_value(plan.kernel_boundary).unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!(boundary("profile: T2.H1.N2"), "shared");
    assert_eq!(boundary("{profile: T2.H1.N2, image: x, sandbox: docker, runtime: runsc}"), "user_space");
    assert_eq!(boundary("{profile: T2.H2.N2, image: x}"), "shared");
    assert_eq!(boundary("{profile: T2.H2.N2, image: x, runtime: kata-qemu}"), "own");
    assert_eq!(boundary("{profile: T2.H2.N2, image: x, runtime: who-knows}"), "shared");
    assert_eq!(boundary("{profile: T2.H3.N2, image: x}"), "own");
}

#[test]
fn variables_narrow_and_never_widen() {
    let unmet = |text: &str, variables: &[(&str, &str)]| match compile(&request_with(text, variables), &facts("root")) {
        Ok(_) => String::new(),
        Err(refusal) => show(&refusal),
    };
    let document = "profile: T1.H1.N2\nlimits: {tool_timeout: 10}\napproval: dev\nfile_tools: {mode: store, root: /repo, max_bytes: 1000, preflight: force}\n";
    let widening = [
        ("INSPECT_PROFILE", "T0.H1.N2"),
        ("INSPECT_PROFILE", "T1.H0.N2"),
        ("INSPECT_PROFILE", "T1.H1.N1"),
        ("INSPECT_ENABLE_EXEC", "1"),
        ("INSPECT_ENABLE_WEB_SEARCH", "yes"),
        ("INSPECT_ENABLE_WEB_BROWSER", "on"),
        ("INSPECT_APPROVAL_PRESET", "ci"),
        ("INSPECT_AGENTS_TOOL_TIMEOUT", "11"),
        ("INSPECT_AGENTS_FS_MODE", "sandbox"),
        ("INSPECT_AGENTS_FS_ROOT", "/repository"),
        ("INSPECT_AGENTS_FS_MAX_BYTES", "1001"),
        ("INSPECT_SANDBOX_PREFLIGHT", "auto"),
    ];
    let refusals: Vec<String> =
        widening.iter().map(|(name, value)| format!("{name}={value}\n{}", unmet(document, &[(name, value)]))).collect();
    insta::assert_snapshot!(refusals.join("\n"));
    let narrowing = [
        ("INSPECT_PROFILE", "T2.H1.N2"),
        ("INSPECT_ENABLE_EXEC", "0"),
        ("INSPECT_APPROVAL_PRESET", "prod"),
        ("INSPECT_AGENTS_TOOL_TIMEOUT", "5"),
        ("INSPECT_AGENTS_FS_ROOT", "/repo/part"),
        ("INSPECT_AGENTS_FS_READ_ONLY", "1"),
        ("INSPECT_AGENTS_FS_MAX_BYTES", "1000"),
        ("INSPECT_MAX_TOOL_OUTPUT", "99999"),
    ];
    for (name, value) in narrowing {
        assert_eq!(unmet(document, &[(name, value)]), "", "{name}={value}");
    }
}

#[test]
fn off_switches_withhold_and_say_so() {
    let plan = compile(
        &request_with("profile: T0.H1.N2\napproval: ci\ntools: [bash, think]", &[("INSPECT_ENABLE_EXEC", "off")]),
        &facts("root"),
    )
    .unwrap();
    assert_eq!(plan.affordances.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["think"]);
    insta::assert_json_snapshot!(plan.withheld, @r#"
    [
      {
        "name": "bash",
        "reason": {
          "narrowed": {
            "setting": "INSPECT_ENABLE_EXEC"
          }
        }
      }
    ]
    "#);
}

#[test]
fn on_switches_add_nothing_to_a_list_and_the_browser_to_the_standard_set() {
    let names = |text: &str| -> Vec<String> {
        let request = request_with(text, &[("INSPECT_ENABLE_WEB_BROWSER", "1")]);
        compile(&request, &facts("root")).unwrap().affordances.into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(names("profile: T1.H1.N1\ntools: [think]"), ["think"]);
    assert!(names("profile: T1.H1.N1").contains(&"web_browser".to_owned()));
    assert!(!names("profile: T1.H1.N1").contains(&"bash".to_owned()));
}

#[test]
fn sandboxed_file_tools_only_read_unless_a_writer_is_named() {
    let plan = |text: &str| compile(&request(text), &facts("root")).unwrap();
    let silent = plan("profile: T0.H1.N2\napproval: ci\nfile_tools: {mode: sandbox}");
    assert!(silent.file_tools.read_only);
    assert!(!silent.affordances.iter().any(|tool| tool.name == "write_file"));
    let named = plan("profile: T0.H1.N2\napproval: ci\ntools: [write_file]\nfile_tools: {mode: sandbox}");
    assert!(!named.file_tools.read_only);
    let contradiction =
        refusal("profile: T0.H1.N2\napproval: ci\ntools: [write_file]\nfile_tools: {read_only: true}", "root");
    assert!(show(&contradiction).contains("`write_file` writes"));
}

#[test]
fn the_hash_is_stable() {
    // If this changes, the plan's format changed: raise `Plan::SCHEMA` and say so in the changelog.
    let plan = compile(&request("profile: T0.H1.N2\napproval: ci"), &facts("root")).unwrap();
    insta::assert_snapshot!(plan.hash());
}

#[test]
fn the_order_of_a_file_does_not_change_the_hash() {
    let hash = |text: &str| compile(&request(text), &facts("root")).unwrap().hash();
    assert_eq!(
        hash("profile: T0.H1.N1\napproval: ci\ntools: [bash, think]\nnetwork: {allow_domains: [a.org, b.org]}"),
        hash("network: {allow_domains: [B.org., a.org]}\ntools: [think, bash]\napproval: CI\nprofile: t0.h1.n1"),
    );
}

fn some_facts() -> impl Strategy<Value = Facts> {
    prop::collection::vec(any::<bool>(), Capability::ALL.len()).prop_map(|working| {
        Facts::new(Capability::ALL.into_iter().zip(working).map(|(capability, works)| {
            (capability, if works { Finding::works("w") } else { Finding::missing("m", "f") })
        }))
    })
}

proptest! {
    #[test]
    fn every_request_compiles_to_a_plan_within_its_grant_or_a_reasoned_refusal(
        profile in prop::sample::select(Profile::all().collect::<Vec<_>>()),
        facts in some_facts(),
        tools in prop::sample::subsequence(vec!["bash", "web_fetch", "think", "write_file", "web_browser"], 0..4),
        allow in prop::sample::subsequence(vec!["a.org", "*.b.org", "tcp://c.org:22"], 0..3),
    ) {
        let text = format!("profile: {profile}\napproval: ci\njustification: x\ntools: {tools:?}\nnetwork: {{allow_domains: {allow:?}}}\n");
        let request = request(&text);
        match compile(&request, &facts) {
            Ok(plan) => check_plan(&request, &plan)?,
            Err(refusal) => {
                prop_assert!(!refusal.unmet.is_empty());
                for alternative in &refusal.nearest {
                    prop_assert_ne!(alternative.profile, profile);
                }
            }
        }
    }
}

fn check_plan(request: &Request, plan: &Plan) -> Result<(), TestCaseError> {
    for affordance in &plan.affordances {
        prop_assert!(crate::grant::judge(request.profile, &request.document.network.rules, affordance).is_ok());
    }
    for zone in plan.network.phases.values() {
        prop_assert!(zone.level >= request.profile.network);
    }
    prop_assert_eq!(plan.hash(), plan.clone().hash());
    Ok(())
}
