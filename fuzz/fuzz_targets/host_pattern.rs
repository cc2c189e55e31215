//! A host pattern or an allow rule prints to what it was, and is made of nothing but letters, digits, `-`, `.`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::host_pattern(bytes));
