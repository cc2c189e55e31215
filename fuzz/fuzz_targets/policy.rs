//! Approval policies: any text is a policy or a list of problems with places.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::policy(bytes));
