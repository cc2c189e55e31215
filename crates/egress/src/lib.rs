//! The gateway: what leaves a sandbox, leaves through here.
//!
//! A sandbox's network namespace has no way out; everything that a program in it sends lands on listeners that this
//! crate serves. It answers queries for listed names with addresses of its own making, reads what a connection claims to
//! be, and only then connects, itself, to an address that it looked up and judged. Whatever happened is a [`Record`].
//!
//! Pure: [`decide`], [`read_hello`], [`read_head`], [`read_question`]. The rest moves bytes.

mod book;
mod bridge;
mod chunks;
mod client;
mod connection;
mod gateway;
mod handshake;
mod head;
mod hello;
mod lines;
mod link;
mod names;
mod neighbours;
mod onlink;
mod outside;
mod process;
mod question;
mod reach;
mod reaching;
mod reason;
mod record;
mod relay;
mod relaying;
mod requests;
mod served;
mod services;
mod shown;
mod socket;
#[cfg(feature = "mutations")]
mod stray;
mod switchboard;
#[cfg(test)]
mod testing;
mod verdict;

pub use client::{Attachment, GatewayError, GatewayProcess, Notice};
pub use gateway::{Gateway, Inlet, Lost, Settings};
pub use head::{Body, Head, MAX_HEAD, read_head};
pub use hello::{HIDDEN_NAMES, Hello, MAX_HELLO, check_hello, read_hello};
pub use neighbours::Neighbour;
pub use outside::{HostResolver, OutsideError};
pub use process::{become_gateway, execute_gateway};
pub use question::{Kind, MAX_QUERY, Question, read_question};
pub use reason::Reason;
pub use record::{Counters, Outcome, Protocol, Record};
pub use served::{Asked, Decider, Limits};
pub use services::{Line, Reach};
pub use shown::Shown;
pub use switchboard::{Neighbours, Switchboard};
pub use verdict::{Attempt, Check, Upgrades, Verdict, decide};
