//! Approval policies: any text is a policy or a list of problems with places.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(problems) = eval::Policy::parse("policy.yaml", text, &["own_tool".to_owned()]) {
        assert!(!problems.problems.is_empty());
    }
});
