//! A fake internet for tests of the gateway, in two network namespaces of its own.
//!
//! In one of them, the internet, every server runs: DNS, HTTP, HTTPS with an authority of its own, echoes over TCP and
//! UDP, a metadata address, hosts in private ranges, a name that rebinds. In the other, the runner, the program under
//! test runs; all its routes lead to the internet. Every server says what reached it, so that a test can also show that
//! nothing did. The servers live in the binary of this crate; the library starts it and asks it.

pub mod addresses;
pub mod control;
pub mod names;
mod net;
mod processes;

pub use control::Seen;
pub use net::Testnet;
pub use processes::StartError;
