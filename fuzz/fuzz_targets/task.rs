//! Any text is a task or a list of problems, and any bytes are a data set or problems of the task that names them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::task(bytes));
