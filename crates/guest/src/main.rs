//! The guest: pid 1 of every sandbox. It serves commands and files to the host over one byte stream on descriptor 3, or, where a
//! stream is two, on 3 and 4.
//!
//! It is small, static and single-threaded, trusts the host, and is trusted by nobody: every control that matters sits
//! outside of it. Inside, the workload may be root; the guest therefore is not dumpable, ignores signals, and counts on
//! nothing that the workload can change.

mod attempt;
mod commands;
mod failure;
mod files;
mod links;
mod names;
mod outbox;
mod pause;
mod relay;
mod server;
mod spawn;
mod syscalls;
mod tree;
mod users;
mod within;

use std::process::ExitCode;

use mutation::{Mutation, mutated};
use rustix::process::{DumpableBehavior, Pid};

fn main() -> ExitCode {
    // Before anything of the workload exists: no ptrace, no /proc/1/mem, no core.
    if !mutated(Mutation::GuestTraceable)
        && rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err()
    {
        return ExitCode::from(70);
    }
    let two_ways = std::env::args_os().nth(1).is_some_and(|argument| argument == "two-ways");
    let Some((control, writes)) = syscalls::control_stream(two_ways) else { return ExitCode::from(71) };
    // Without isolation the guest is not pid 1: orphans come to it all the same, and must be ended by hand at the end.
    if !rustix::process::getpid().is_init() && rustix::process::set_child_subreaper(Some(Pid::INIT)).is_err() {
        return ExitCode::from(73);
    }
    let mut server = server::Server::new(control, writes);
    let stopped = server.run();
    server.end_all();
    match stopped {
        Ok(()) => ExitCode::SUCCESS,
        // There is nobody to tell: the host sees the stream end.
        Err(_) => ExitCode::from(72),
    }
}
