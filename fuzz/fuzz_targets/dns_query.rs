//! Any bytes are a DNS query or an error; every response repeats the query's ID and fits a datagram.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::dns_query(bytes));
