//! Tools of the model provider itself: had by name, at N0, and said for what they are.

use super::*;
use crate::affordance::{Reach, Runs, Sensitivity};

fn asking(profile: &str, network: &str, tools: &str) -> String {
    format!("profile: {profile}\napproval: ci\njustification: agreed\nnetwork: {network}\ntools: [submit, {tools}]\n")
}

#[test]
fn tools_of_the_provider_are_granted_at_n0_alone_and_said_for_what_they_are() {
    for (profile, tool) in [
        ("T0.H1.N0", "provider_web_search"),
        ("T1.H1.N0", "{name: provider_web_search}"),
        ("T0.H1.N0", "{name: provider_code_execution}"),
    ] {
        let plan = compile(&request(&asking(profile, "{}", tool)), &facts("root")).unwrap();
        let granted = plan.affordances.iter().find(|affordance| affordance.runs == Runs::Provider).unwrap();
        assert_eq!((&granted.reach, granted.sensitivity), (&Reach::Provider, Sensitivity::Sensitive));
        assert_eq!(serde_json::to_value(granted).unwrap()["reach"], "provider");
        let told =
            |text: &str| plan.residual.iter().any(|one| one.id == "outside_the_sandbox" && one.text.contains(text));
        assert!(told(&granted.name) && told("neither enforced nor seen by us"), "{:?}", plan.residual);
        assert!(plan.recorded.iter().any(|line| line.contains("after they were made")), "{:?}", plan.recorded);
        let without = compile(&request(&asking(profile, "{}", "think")), &facts("root")).unwrap();
        assert_ne!(plan.hash(), without.hash());
    }
}

#[test]
fn tools_of_the_provider_fit_no_narrower_profile() {
    let everywhere = "{allow_domains: ['*.example.org']}";
    let names = "{deny_domains: [bad.example.org]}";
    let ranges = "{deny_cidr: [192.0.2.0/24]}";
    for (profile, network, tool) in [
        ("T0.H1.N1", everywhere, "provider_web_search"),
        ("T0.H1.N2", "{}", "provider_web_search"),
        ("T0.H1.N1", everywhere, "provider_code_execution"),
        ("T0.H1.N2", "{}", "provider_code_execution"),
        ("T1.H1.N0", "{}", "provider_code_execution"),
        ("T2.H1.N0", "{}", "provider_web_search"),
        // A list of what is denied cannot be kept where our rules do not hold.
        ("T0.H1.N0", names, "provider_web_search"),
        ("T0.H1.N0", ranges, "provider_code_execution"),
    ] {
        let refused = show(&refusal(&asking(profile, network, tool), "root"));
        assert!(refused.contains(&format!("Contradiction tooling.{tool}")), "{profile} {network}: {refused}");
        let of_tooling = refused.contains("lower tooling level");
        assert!(of_tooling || refused.contains("no rule of ours holds at the provider"), "{refused}");
    }
}

#[test]
fn nobody_has_tools_of_the_provider_without_naming_them() {
    let standard = "profile: T0.H1.N0\napproval: ci\njustification: agreed\n";
    for variables in [&[][..], &[("INSPECT_ENABLE_EXEC", "1"), ("INSPECT_ENABLE_WEB_SEARCH", "1")]] {
        let plan = compile(&request_with(standard, variables), &facts("root")).unwrap();
        assert!(plan.affordances.iter().all(|affordance| affordance.runs != Runs::Provider), "{variables:?}");
    }
}

#[test]
fn variables_narrow_tools_of_the_provider_away() {
    let both = asking("T0.H1.N0", "{}", "provider_web_search, provider_code_execution");
    for (variable, tool) in
        [("INSPECT_ENABLE_EXEC", "provider_code_execution"), ("INSPECT_ENABLE_WEB_SEARCH", "provider_web_search")]
    {
        let plan = compile(&request_with(&both, &[(variable, "0")]), &facts("root")).unwrap();
        assert!(plan.affordances.iter().all(|affordance| affordance.name != tool), "{variable}");
        assert_eq!(plan.withheld.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), [tool]);
    }
}

#[test]
fn what_a_tool_of_the_provider_is_cannot_be_said_otherwise() {
    for more in ["reach: []", "runs: sandbox", "needs: T1", "sensitive: false"] {
        let text = asking("T0.H1.N0", "{}", &format!("{{name: provider_web_search, {more}}}"));
        assert!(Document::parse("x", &text).is_err(), "{more}");
    }
}
