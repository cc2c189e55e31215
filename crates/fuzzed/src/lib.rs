//! Fuzz targets as functions: each takes any input and panics where a property does not hold.
//!
//! `fuzz/` hands them to libFuzzer. `tests/seeds.rs` calls them with every input in `fuzz/seeds`, which has the inputs that targets
//! begin from and every input that has ever failed, so that an ordinary test run finds an old defect that comes back.

#![expect(clippy::missing_panics_doc, reason = "a panic is how a target reports a defect")]
#![expect(clippy::expect_used, reason = "a panic is how a target reports a defect")]

mod targets {
    pub(crate) mod client_hello;
    pub(crate) mod compose;
    pub(crate) mod dns_query;
    pub(crate) mod document;
    pub(crate) mod envelope;
    pub(crate) mod frames;
    pub(crate) mod host_pattern;
    pub(crate) mod http_head;
    pub(crate) mod policy;
    pub(crate) mod redact;
    pub(crate) mod task;
}

pub use targets::client_hello::client_hello;
pub use targets::compose::compose;
pub use targets::dns_query::dns_query;
pub use targets::document::document;
pub use targets::envelope::envelope;
pub use targets::frames::frames;
pub use targets::host_pattern::host_pattern;
pub use targets::http_head::http_head;
pub use targets::policy::policy;
pub use targets::redact::redact;
pub use targets::task::task;

/// A fuzz target: its name, which is that of its directory in `fuzz/seeds`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every fuzz target.
pub const TARGETS: &[Target] = &[
    ("client_hello", client_hello),
    ("compose", compose),
    ("dns_query", dns_query),
    ("document", document),
    ("envelope", envelope),
    ("frames", frames),
    ("host_pattern", host_pattern),
    ("http_head", http_head),
    ("policy", policy),
    ("redact", redact),
    ("task", task),
];
