//! Any bytes are messages or an error; encoding a decoded message and decoding it again gives the same message.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::frames(bytes));
