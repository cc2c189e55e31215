//! Printing and parsing a host pattern or an allow rule gives the same value; names consist of letters, digits, `-` and `.`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::host_pattern(bytes));
