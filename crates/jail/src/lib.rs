//! The Linux kernel's side of Ringfence. The only crate with `unsafe` code, beside the guest's one file.
//!
//! - [`probe`]: does this kernel, with these rights, really do what a sandbox needs? Every answer comes from doing it in
//!   a child process that is thrown away.
//! - [`zygote`]: a small helper process that creates sandboxes, outlives a killed runner, and cleans up.
//! - [`enter`]: the way into a container that another engine made.
//! - [`world`]: network namespaces of our own, for proofs.
//! - [`cgroups`]: control groups, v1 and v2.
//! - [`confine()`]: a process of ours that needs sockets, memory and threads, and nothing else.

mod attempt;
mod capture;
pub mod cgroups;
mod confine;
pub mod enter;
mod filter;
mod kvm;
mod landlock;
mod layer;
#[cfg(feature = "mutations")]
mod mutated;
mod netlink;
mod nftables;
pub mod probe;
mod steps;
mod syscalls;
pub mod world;
pub mod zygote;

pub use attempt::{Failure, Step};
pub use confine::{Confined, confine};

/// The program: the zygote, unless its first argument makes it the way into a container.
pub fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == enter::ENTER) {
        return enter::main(arguments);
    }
    zygote::main()
}
