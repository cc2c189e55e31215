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

mod provider;

use Capability::{
    Cgroups, Docker, DockerHere, DockerLimits, IdRanges, Kubernetes, Kvm, Landlock, Nftables, Overlay, Proxmox, Qemu,
    Seccomp, UserNamespaces,
};

/// The embedded engine's needs.
const ENGINE: &[Capability] = &[UserNamespaces, Overlay, Seccomp, Cgroups, IdRanges, Nftables, Landlock];

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
        ("old_kernel", with(&[UserNamespaces, Overlay, Seccomp, Cgroups, IdRanges])),
        ("userns_blocked", with(&[Seccomp, Landlock, Cgroups, Docker, DockerHere, DockerLimits])),
        ("cluster", with(&[ENGINE, &[Kubernetes, Proxmox, Qemu, Kvm]].concat())),
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
                    let nearest: Vec<String> = refusal
                        .nearest
                        .iter()
                        .map(|nearest| {
                            if nearest.weaker {
                                format!("weaker:{}", nearest.profile)
                            } else {
                                nearest.profile.to_string()
                            }
                        })
                        .collect();
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
runtime: kata
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
limits: {time: 10m, tool_timeout: 20, output: 32KiB, memory: 512MiB, cpu: 0.5, pids: 256, file_size: 10MiB}
file_tools: {mode: sandbox, root: /repo, read_only: true, max_bytes: 1MB, preflight: force}
phases:
  setup: {network: {level: N0, deny_domains: [worse.example.org]}}
  score: {network: N2}
services:
  db: {image: postgres, ports: [5432], network: {level: N1, allow_domains: [https://example.org], deny_cidr: [203.0.113.0/24]}, environment: {PASSWORD: hunter3}}
justification: setup installs packages; agreed with the site's security officer
"#;

#[test]
fn a_plan_says_that_mounts_may_hold_credentials() {
    let said = |text: &str, dangerously_mount_secrets| {
        let document = Document::parse("ringfence.yaml", text).unwrap();
        let overrides = Overrides { dangerously_mount_secrets, ..Overrides::default() };
        let plan = compile(&Request::resolve(document, &Environment::default(), overrides), &facts("root")).unwrap();
        plan.residual.iter().any(|residual| residual.id == "mounted_secrets")
    };
    let mounts = "profile: T2.H1.N2\nmounts: ['./data:/data']";
    assert!(said(mounts, true));
    assert!(!said(mounts, false));
    assert!(!said("profile: T2.H1.N2", true), "there is nothing to be read");
}

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
fn a_plan_says_whose_ids_a_sandbox_has() {
    let claims = |host: &str| {
        let plan = compile(&request("profile: T2.H1.N2"), &facts(host)).unwrap();
        let promised = plan.controls.iter().any(|control| control.id == "host.ids");
        (promised, plan.residual.iter().any(|residual| residual.id == "user_is_user"))
    };
    assert_eq!(claims("root"), (true, false));
    assert_eq!(claims("user"), (false, true));
}

/// The pools that nothing bounds (docs/security/kernel-pools.md) are in every plan on a shared kernel.
#[test]
fn a_plan_says_which_kernel_pools_are_not_bounded() {
    let residual = |(document, host): (&str, &str), id: &str| {
        let plan = compile(&request(document), &facts(host)).unwrap();
        plan.residual.into_iter().find(|residual| residual.id == id).map(|residual| residual.text)
    };
    let embedded = ("profile: T2.H1.N2", "root");
    let docker = ("profile: T2.H1.N2\nsandbox: docker\nimage: debian:12\n", "userns_blocked");
    for document in [embedded, docker] {
        let shared = residual(document, "shared_pools").unwrap();
        for pool in [
            "file locks, orphaned TCP sockets, disk bandwidth, the kernel's log",
            "descriptors in flight before Linux 6.10",
        ] {
            assert!(shared.contains(pool), "{pool}: {shared}");
        }
    }
    for id in ["terminals_unbounded", "socket_buffers_unbounded"] {
        assert!(residual(docker, id).is_some() && residual(embedded, id).is_none(), "{id}");
    }
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
    assert!(shown.contains("the service `proxy` may reach what the agent may not"), "{shown}");
}

#[test]
fn lists_are_compared_not_only_levels() {
    let shown = show(&refusal(
        "profile: T0.H1.N1\nsandbox: docker\nimage: x\napproval: ci\nnetwork: {allow_domains: [a.example.org]}\n\
         phases: {score: {network: {level: N1, allow_domains: [other.example.net]}}}\n\
         services: {px: {image: squid, network: {level: N1, allow_cidr: [203.0.113.0/24]}}}\n",
        "userns_blocked",
    ));
    assert!(shown.contains("Contradiction network.px") && shown.contains("Contradiction network.score"), "{shown}");
}

#[test]
fn an_empty_list_in_a_phase_is_not_the_documents_list() {
    let text = "profile: T0.H1.N1\napproval: ci\nnetwork: {allow_domains: [a.example.org]}\n\
                phases: {agent: {network: {level: N1, allow_domains: []}}}\n";
    let plan = compile(&request(text), &facts("root")).unwrap();
    let name = "a.example.org".parse().unwrap();
    assert!(plan.network.phases["setup"].egress.permits(&name, 443));
    assert!(!plan.network.phases["agent"].egress.permits(&name, 443));
    assert!(!plan.network.phases["score"].egress.permits(&name, 443), "the scorer has the agent's network");
}

#[test]
fn tools_are_judged_by_the_agents_own_network() {
    for agent in ["N2", "{level: N1, allow_domains: [c.example.org]}"] {
        let text = format!(
            "profile: T1.H1.N1\nnetwork: {{allow_domains: [api.search.example]}}\nphases: {{agent: {{network: {agent}}}}}\n\
             tools: [{{name: web_search, reach: [api.search.example]}}]\n"
        );
        assert!(show(&refusal(&text, "root")).contains("Contradiction tooling.web_search"), "{agent}");
    }
}

/// A document of that network level whose search asks a provider.
fn searching(level: &str, provider: &str, allow: &str) -> String {
    format!(
        "profile: T1.H1.{level}\njustification: x\napproval: ci\nnetwork: {{allow_domains: [{allow}]}}\n\
         tools: [submit, {{name: web_search, {provider}}}]\n"
    )
}

#[test]
fn a_search_is_judged_by_its_providers_name() {
    let json = "provider: json, endpoint: 'https://search.example.org/?q={query}', key: SEARCH_KEY";
    for (provider, host) in [
        ("provider: tavily", "api.tavily.com"),
        ("provider: google, reach: [www.googleapis.com]", "www.googleapis.com"),
        ("provider: brave", "api.search.brave.com"),
        (json, "search.example.org"),
    ] {
        let refused = |text: &str| show(&refusal(text, "root")).contains("Contradiction tooling.web_search");
        assert!(refused(&searching("N2", provider, "")), "{provider}");
        assert!(refused(&searching("N1", provider, "other.example.org")), "{provider}");
        let plan = compile(&request(&searching("N1", provider, host)), &facts("root")).unwrap();
        let search = plan.search.as_ref().unwrap();
        assert_eq!(search.host, host);
        assert!(compile(&request(&searching("N0", provider, "")), &facts("root")).is_ok(), "{provider}");
        // Who is asked is part of what is promised.
        let other = compile(&request(&searching("N0", "provider: tavily", "")), &facts("root")).unwrap();
        assert_ne!(plan.hash(), other.hash());
    }
}

#[test]
fn a_search_on_this_machine_needs_no_rule_and_a_network() {
    let here = "provider: tavily, endpoint: 'http://127.0.0.1:8080'";
    let plan = compile(&request(&searching("N1", here, "")), &facts("root")).unwrap();
    assert_eq!(plan.search.as_ref().unwrap().endpoint, "http://127.0.0.1:8080/search");
    assert!(plan.residual.iter().any(|residual| residual.text.contains("a port of this machine")));
    assert!(show(&refusal(&searching("N2", here, ""), "root")).contains("tooling.web_search"));
}

#[test]
fn a_search_that_is_narrowed_away_has_no_provider() {
    let text = searching("N1", "provider: tavily", "api.tavily.com");
    let plan = compile(&request_with(&text, &[("INSPECT_ENABLE_WEB_SEARCH", "0")]), &facts("root")).unwrap();
    assert_eq!((plan.search, plan.withheld.len()), (None, 1));
}

#[test]
fn t2_has_no_tools_whatever_one_says_of_itself() {
    let mut lying = request(
        "profile: T0.H1.N2\napproval: ci\ntools: [{name: shell, runs: sandbox, reach: [], needs: T1, sensitive: false}]",
    );
    lying.profile = "T2.H1.N2".parse().unwrap();
    let plan = compile(&lying, &facts("root")).unwrap();
    assert_eq!(plan.affordances, []);
    assert_eq!(plan.withheld.len(), 1);
}

#[test]
fn a_declared_tool_is_said_to_be_believed() {
    let plan =
        compile(&request("profile: T1.H1.N2\ntools: [{name: mine, runs: host, reach: [], needs: T1}]"), &facts("root"))
            .unwrap();
    assert!(plan.residual.iter().any(|residual| residual.id == "declared_tool"));
}

#[test]
fn h0_claims_nothing_that_it_cannot_do() {
    let shown = show(&refusal(
        "profile: T0.H0.N0\napproval: ci\njustification: x\nimage: python\nmounts: ['./d:/d']\n\
         network: {deny_domains: [bad.example.org]}\nlimits: {memory: 1MiB, pids: 3, disk: 1MiB, time: 5}\n",
        "root",
    ));
    for control in ["image", "mounts", "network.deny", "limits.memory", "limits.pids", "limits.disk"] {
        assert!(shown.contains(&format!(" {control} at ")), "{control}: {shown}");
    }
    assert!(!shown.contains("limits.time"), "{shown}");
    let plan = compile(&request("profile: T0.H0.N0\napproval: ci\njustification: x"), &facts("root")).unwrap();
    assert!(plan.residual.iter().any(|residual| residual.id == "unbounded"));
}

#[test]
fn a_limit_without_a_mechanism_is_refused_on_every_provider() {
    for (text, limit) in
        [("profile: T2.H2.N2\nimage: x", "pids"), ("profile: T2.H1.N2\nimage: x\nsandbox: docker", "disk")]
    {
        let refused = compile(&request(&format!("{text}\nlimits: {{{limit}: 7}}")), &Facts::assumed()).unwrap_err();
        assert!(show(&refused).contains(&format!("Unenforceable limits.{limit}")));
    }
}

#[test]
fn a_raised_profile_takes_its_document_along() {
    let text = "profile: T0.H1.N1\napproval: ci\nsandbox: docker\nimage: x\nruntime: runsc\ntools: [bash, web_fetch]\n\
                network: {allow_domains: [a.example.org], deny_domains: [b.example.org]}\n\
                phases: {setup: {network: N0}}\njustification: x\n";
    let raised = compile(&request_with(text, &[("INSPECT_PROFILE", "T0.H1.N2")]), &facts("userns_blocked")).unwrap();
    for zone in raised.network.phases.values() {
        assert_eq!(zone.egress, crate::rules::Egress::Nothing);
    }
    assert_eq!(raised.withheld.iter().map(|withheld| withheld.name.as_str()).collect::<Vec<_>>(), ["web_fetch"]);
    assert!(raised.notes.iter().any(|note| note.contains("raised from T0.H1.N1")));
    let moved = compile(&request_with(text, &[("INSPECT_PROFILE", "T0.H2.N2")]), &facts("cluster")).unwrap();
    assert_eq!((moved.provider, moved.runtime), (crate::document::Provider::K8s, None));
}

#[test]
fn the_environment_does_not_widen_what_the_profile_implies() {
    let text = "profile: T0.H1.N2\napproval: ci\nfile_tools: {mode: sandbox}";
    for variable in [("INSPECT_SANDBOX_PREFLIGHT", "skip"), ("INSPECT_AGENTS_FS_READ_ONLY", "0")] {
        let refused = compile(&request_with(text, &[variable]), &facts("root")).unwrap_err();
        assert!(show(&refused).contains("would widen the profile's"), "{variable:?}");
    }
    let skipped = refusal("profile: T0.H1.N2\napproval: ci\nfile_tools: {mode: sandbox, preflight: skip}", "root");
    assert!(show(&skipped).contains("skipping the file tools' preflight needs a written justification"));
}

#[test]
fn a_switch_beyond_the_profile_still_finds_alternatives() {
    let request = request_with("profile: T1.H1.N1", &[("INSPECT_ENABLE_EXEC", "1")]);
    let refused = explain(&request, &facts("root")).unwrap_err();
    assert!(show(&refused).contains("asks for bash, bash_session, python"));
    assert_eq!(refused.nearest.first().map(|nearest| nearest.profile.to_string()).as_deref(), Some("T0.H1.N1"));
}

#[test]
fn the_browser_switch_leaves_the_rest_of_the_standard_set_as_it_was() {
    let variables = [("INSPECT_ENABLE_WEB_BROWSER", "1")];
    let text = "profile: T0.H1.N1\napproval: ci\nfile_tools: {read_only: true}";
    let plan = compile(&request_with(text, &variables), &facts("root")).unwrap();
    assert!(plan.affordances.iter().any(|tool| tool.name == "web_browser"));
    assert_eq!(plan.withheld.len(), 4, "the four tools that write are withheld and said so");
}

#[test]
fn another_provider_of_the_same_h_is_taken_and_said() {
    let plan = compile(&request("profile: T2.H1.N2\nimage: x"), &facts("userns_blocked")).unwrap();
    assert_eq!(plan.provider, crate::document::Provider::Docker);
    assert!(plan.notes.iter().any(|note| note.contains("`container` cannot be enforced")));
    assert!(compile(&request("profile: T2.H1.N2\nimage: x\nsandbox: container"), &facts("userns_blocked")).is_err());
}

#[test]
fn setuid_programs_are_allowed_in_a_user_namespace_only_and_said() {
    let plan = compile(&request("profile: T2.H1.N2\nallow_setuid: true"), &facts("root")).unwrap();
    assert!(plan.allow_setuid && plan.residual.iter().any(|residual| residual.id == "setuid_programs"));
    assert!(!compile(&request("profile: T2.H1.N2\nallow_setuid: false"), &facts("root")).unwrap().allow_setuid);
    let refused = compile(&request("profile: T2.H2.N2\nimage: x\nallow_setuid: true"), &Facts::assumed()).unwrap_err();
    assert!(show(&refused).contains("Contradiction allow_setuid at 3:15"));
}

#[test]
fn a_runtime_is_known_by_its_exact_name() {
    let plan = |runtime: &str| {
        compile(&request(&format!("{{profile: T2.H2.N2, image: x, runtime: {runtime}}}")), &Facts::assumed()).unwrap()
    };
    assert_eq!(plan("katana").kernel_boundary, super::KernelBoundary::Shared);
    let kata = plan("kata-qemu");
    assert_eq!(kata.kernel_boundary, super::KernelBoundary::Own);
    assert!(kata.residual.iter().any(|residual| residual.id == "runtime_is_believed"));
}

#[test]
fn a_configuration_that_the_hash_does_not_hold_is_said() {
    let plan = compile(&request("profile: T2.H1.N2\nsandbox: [docker, compose.yaml]"), &Facts::assumed()).unwrap();
    assert!(plan.residual.iter().any(|residual| residual.id == "unbound_configuration"));
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
    assert!(plan.residual.iter().any(|residual| residual.id == "unbounded"));
    let refused = refusal("profile: T0.H1.N2\napproval: ci\nlimits: {memory: 1GiB}", "user");
    assert_eq!(refused.unmet.iter().map(|unmet| unmet.control.as_str()).collect::<Vec<_>>(), ["limits.memory"]);
}

#[test]
fn n2_holds_without_redirect_rules_and_says_what_is_lost() {
    let plan = compile(&request("profile: T0.H1.N2\napproval: ci"), &facts("old_kernel")).unwrap();
    assert!(plan.residual.iter().any(|residual| residual.id == "attempts_unrecorded"));
    assert!(compile(&request("profile: T0.H1.N1\napproval: ci"), &facts("old_kernel")).is_err());
}

#[test]
fn a_kernel_in_user_space_is_for_n2_and_says_what_it_does_not_do() {
    let text = |network: &str| {
        format!(
            "profile: T0.H1.{network}\nsandbox: docker\nimage: x\nruntime: runsc\napproval: ci\njustification: a test"
        )
    };
    let plan = compile(&request(&text("N2")), &Facts::assumed()).unwrap();
    assert_eq!(plan.kernel_boundary, super::KernelBoundary::UserSpace);
    for residual in ["attempts_unrecorded", "kernel_of_the_runtime"] {
        assert!(plan.residual.iter().any(|found| found.id == residual), "{residual}");
    }
    assert!(!plan.controls.iter().any(|control| control.id == "network.capture"));
    for network in ["N0", "N1"] {
        let refused = compile(&request(&text(network)), &Facts::assumed()).unwrap_err();
        assert!(refused.unmet.iter().any(|unmet| unmet.control == "network.capture"), "{refused:?}");
    }
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
fn file_tools_in_memory_run_in_our_process() {
    let runs = |text: &str| -> Vec<(String, crate::Runs)> {
        let tools = compile(&request(text), &facts("root")).unwrap().affordances;
        tools.into_iter().map(|tool| (tool.name, tool.runs)).collect()
    };
    let expected = |runs| vec![("ls".to_owned(), runs), ("read_file".to_owned(), runs)];
    assert_eq!(runs("profile: T1.H1.N2\ntools: [read_file, ls]"), expected(crate::Runs::Host));
    assert_eq!(
        runs("profile: T1.H1.N2\ntools: [read_file, ls]\nfile_tools: {mode: sandbox}"),
        expected(crate::Runs::Sandbox)
    );
}

#[test]
fn denied_paths_beat_allowed_ones_and_the_environment_only_narrows() {
    let tools = |globs: &str, variables: &[(&str, &str)]| {
        let text = format!("profile: T1.H1.N2\nfile_tools: {{mode: store{globs}}}");
        compile(&request_with(&text, variables), &facts("root")).unwrap().file_tools
    };
    let touched = |globs: &str, variables: &[(&str, &str)]| -> Vec<&str> {
        let tools = tools(globs, variables);
        let paths = ["a.md", "src/a.rs", "src/key.pem", "src/deep/b.rs", "docs/c.md"];
        paths.into_iter().filter(|path| tools.forbids(path).is_none()).collect()
    };
    let all = ["a.md", "src/a.rs", "src/key.pem", "src/deep/b.rs", "docs/c.md"];
    assert_eq!(touched("", &[]), all, "absent means everything");
    assert_eq!(touched(", allow: []", &[]), [""; 0], "empty means nothing");
    assert_eq!(touched(", allow: [src]", &[]), ["src/a.rs", "src/key.pem", "src/deep/b.rs"]);
    assert_eq!(touched(", allow: [src], deny: ['*.pem']", &[]), ["src/a.rs", "src/deep/b.rs"]);
    assert_eq!(touched(", allow: [src]", &[("INSPECT_FS_ALLOW", "*.md,src/deep/**")]), ["src/deep/b.rs"]);
    assert_eq!(touched("", &[("INSPECT_FS_ALLOW", "*.md"), ("INSPECT_FS_DENY", "docs/*:x")]), ["a.md"]);
    assert_eq!(touched(", allow: []", &[("INSPECT_FS_ALLOW", "**")]), [""; 0], "nothing is widened");
    assert_eq!(touched(", deny: [src]", &[("INSPECT_FS_DENY", "docs")]), ["a.md"], "both deny");
    assert_eq!(touched("", &[("INSPECT_FS_ALLOW", " ")]), all, "an empty variable is unset");
    let looks = tools(", allow: ['src/deep/*.rs'], deny: [docs]", &[]);
    for (directory, may) in [("", true), ("src", true), ("src/deep", true), ("src/other", false), ("docs", false)] {
        assert_eq!(looks.forbids_looking_into(directory).is_none(), may, "{directory}");
    }
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
                    let other = alternative.profile;
                    prop_assert_ne!(other, profile);
                    let weaker = other.tooling < profile.tooling
                        || other.isolation < profile.isolation
                        || other.network < profile.network;
                    prop_assert_eq!(alternative.weaker, weaker);
                    prop_assert_eq!(alternative.difference.starts_with("Weaker: "), weaker);
                }
                // What is weaker comes after everything that is not.
                prop_assert!(refusal.nearest.is_sorted_by_key(|alternative| alternative.weaker));
            }
        }
    }
}

proptest! {
    #[test]
    fn raising_a_level_never_adds_to_a_plan(
        a in prop::sample::select(Profile::all().collect::<Vec<_>>()),
        b in prop::sample::select(Profile::all().collect::<Vec<_>>()),
        listed in any::<bool>(),
        allow in prop::sample::subsequence(vec!["a.org", "*.b.org", "tcp://c.org:22", "https://d.org"], 0..4),
        cidr in prop::sample::subsequence(vec!["10.1.2.0/24", "203.0.113.0/24"], 0..2),
        private in prop::sample::subsequence(vec!["a.org"], 0..=1),
        deny in prop::sample::subsequence(vec!["x.b.org", "a.org"], 0..2),
        agent in prop::sample::select(vec!["", "phases: {agent: {network: N2}}", "phases: {agent: {network: {level: N1, allow_domains: [a.org]}}}"]),
        name in "([abcdx]\\.){1,2}org",
        port in prop::sample::select(vec![22_u16, 80, 443, 8080]),
    ) {
        let tools = if listed { "tools: [bash, web_fetch, think, {name: mine, runs: host, reach: [a.org], needs: T1}]" } else { "" };
        let text = format!(
            "profile: {a}\napproval: ci\njustification: x\nimage: x\n{tools}\n{agent}\n\
             network: {{allow_domains: {allow:?}, allow_cidr: {cidr:?}, allow_private_answers: {private:?}, deny_domains: {deny:?}}}\n"
        );
        let lower = request(&text);
        let higher = lower.under(b);
        if let (true, Ok(low), Ok(high)) = (a <= b, compile(&lower, &Facts::assumed()), compile(&higher, &Facts::assumed())) {
            for tool in &high.affordances {
                prop_assert!(low.affordances.contains(tool), "{b} grants {} and {a} does not", tool.name);
            }
            let name = name.parse().unwrap();
            let address = "10.1.2.3".parse().unwrap();
            for phase in ["setup", "agent", "score"] {
                let (low, high) = (&low.network.phases[phase].egress, &high.network.phases[phase].egress);
                prop_assert!(!high.permits(&name, port) || low.permits(&name, port), "{b} reaches {name}:{port} in {phase} and {a} does not");
                prop_assert!(!high.permits_address(address) || low.permits_address(address));
                prop_assert!(high.is_within(low));
            }
        }
    }
}

fn check_plan(request: &Request, plan: &Plan) -> Result<(), TestCaseError> {
    let agent = &plan.network.phases["agent"];
    let rules = crate::zones::Zones::of(&request.document, request.profile).agent.rules;
    for affordance in &plan.affordances {
        let profile = Profile { network: agent.level, ..request.profile };
        prop_assert!(crate::grant::judge(profile, &rules, affordance).is_ok());
    }
    prop_assert!(agent.level >= request.profile.network);
    prop_assert!(plan.network.phases["score"].egress.is_within(&agent.egress));
    Ok(())
}
