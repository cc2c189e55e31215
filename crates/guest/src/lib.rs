//! The guest: pid 1 of every sandbox. It serves commands and files to the host over one byte stream, or, where a stream is two, over
//! both.
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
mod started;
mod syscalls;
mod tree;
mod users;
mod within;

use std::os::fd::OwnedFd;

use mutation::{Mutation, mutated};
use rustix::process::{DumpableBehavior, Pid};

/// The guest's whole life on this control stream; returns the code to end with. Where the stream is two, `writes` is what is
/// written to. Whoever calls it has one thread, and no descriptor but these and its standard streams.
pub fn serve(control: OwnedFd, writes: Option<OwnedFd>) -> u8 {
    started::note();
    // Before anything of the workload exists: no ptrace, no /proc/1/mem, no core.
    let traceable = mutated(Mutation::GuestTraceable);
    let behaviour = if traceable { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
    if rustix::process::set_dumpable_behavior(behaviour).is_err() {
        return 70;
    }
    // Without isolation the guest is not pid 1: orphans come to it all the same, and must be ended by hand at the end.
    if !rustix::process::getpid().is_init() && rustix::process::set_child_subreaper(Some(Pid::INIT)).is_err() {
        return 73;
    }
    // Never dropped: what a process has, its end takes back at once, and faster than piece by piece.
    let mut server = std::mem::ManuallyDrop::new(server::Server::new(control, writes));
    let stopped = server.run();
    server.end_all();
    match stopped {
        Ok(()) => 0,
        // There is nobody to tell: the host sees the stream end.
        Err(_) => 72,
    }
}

pub use syscalls::control_stream;
