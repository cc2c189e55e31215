//! Any text is a document or a list of problems, and any document is a plan or a refusal.

use profile::{Document, Environment, Facts, Overrides, Request, Tooling};

/// Checks one input.
pub fn document(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Document::parse("fuzz", text) {
        Err(problems) => assert!(!problems.problems.is_empty(), "a rejection without a problem"),
        Ok(document) => {
            let request = Request::resolve(document, &Environment::default(), Overrides::default());
            match profile::compile(&request, &Facts::assumed()) {
                Err(refusal) => assert!(!refusal.unmet.is_empty(), "a refusal without a reason"),
                Ok(plan) => {
                    let agent = &plan.network.phases["agent"].egress;
                    assert!(plan.network.phases["score"].egress.is_within(agent), "the scorer is a way out");
                    assert!(
                        plan.services.values().all(|service| service.network.egress.is_within(agent)),
                        "a service is a way out"
                    );
                    let names: Vec<&str> = plan.affordances.iter().map(|affordance| affordance.name.as_str()).collect();
                    let executes = names.iter().any(|name| ["bash", "bash_session", "python"].contains(name));
                    assert!(plan.profile.tooling == Tooling::T0 || !executes, "execution beyond T0");
                    serde_json::from_str::<serde_json::Value>(&plan.canonical_json()).expect("canonical JSON");
                }
            }
        }
    }
}
