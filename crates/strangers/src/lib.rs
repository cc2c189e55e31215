//! What clients of others' servers share: what such a server says is short and harmless before anybody sees it
//! ([`Shown`]), and whom TLS trusts is decided once ([`trusting`]). No requests: each client makes its own.

mod shown;
mod tls;

pub use shown::{MAX_SHOWN, Shown};
pub use tls::{trusting, trusting_nobody};
