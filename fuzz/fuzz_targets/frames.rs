//! Any bytes are messages or an error, and a message that was read is written back as it was.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::frames(bytes));
