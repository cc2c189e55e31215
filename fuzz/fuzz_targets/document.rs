//! Any text is a document or a list of problems, and any document is a plan or a refusal.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::document(bytes));
