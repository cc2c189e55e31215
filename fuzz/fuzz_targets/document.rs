//! Any text is a document or a list of problems, and any document is a plan or a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profile::{Document, Environment, Facts, Overrides, Request};

fuzz_target!(|text: &str| {
    match Document::parse("fuzz", text) {
        Err(problems) => assert!(!problems.problems.is_empty(), "a rejection without a problem"),
        Ok(document) => {
            let request = Request::resolve(document, &Environment::default(), Overrides::default());
            match profile::compile(&request, &Facts::assumed()) {
                Err(refusal) => assert!(!refusal.unmet.is_empty(), "a refusal without a reason"),
                Ok(plan) => {
                    for affordance in &plan.affordances {
                        let rules = &request.document.network.rules;
                        assert!(profile::judge(request.profile, rules, affordance).is_ok(), "granted beyond the profile");
                    }
                    assert_eq!(plan.hash(), plan.hash());
                }
            }
        }
    }
});
