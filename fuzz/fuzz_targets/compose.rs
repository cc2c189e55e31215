//! Any text is a supported Compose file, a list of problems or a list of refusals; every file that it names has the same text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::compose(bytes));
