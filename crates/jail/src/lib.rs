//! The Linux kernel's side of Ringfence. The only crate with `unsafe` code.
//!
//! For now it answers one question: does this kernel, with these rights, really do what a sandbox needs? Every answer
//! comes from doing it in a child process that is thrown away ([`probe`]).

mod attempt;
mod kvm;
mod nftables;
pub mod probe;
mod steps;

pub use attempt::{Failure, Step};
