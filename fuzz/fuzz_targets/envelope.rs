//! Receipts: any bytes are refused, or are an envelope, or a statement, in its one form.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::envelope(bytes));
