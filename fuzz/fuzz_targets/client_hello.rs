//! Any bytes are a ClientHello, the beginning of one, or an error; bytes after a ClientHello do not change how it is read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::client_hello(bytes));
