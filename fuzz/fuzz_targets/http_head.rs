//! Any bytes are a request head, the beginning of one, or an error; an accepted head names the allowed host exactly once.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::http_head(bytes));
