//! The guest: pid 1 of every sandbox. It serves commands and files to the host over one byte stream on descriptor 3.
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

use rustix::process::{DumpableBehavior, Pid};

fn main() -> ExitCode {
    // Before anything of the workload exists: no ptrace, no /proc/1/mem, no core.
    if rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err() {
        return ExitCode::from(70);
    }
    let Some(control) = syscalls::control_stream() else { return ExitCode::from(71) };
    // Without isolation the guest is not pid 1: orphans come to it all the same, and must be ended by hand at the end.
    if !rustix::process::getpid().is_init() && rustix::process::set_child_subreaper(Some(Pid::INIT)).is_err() {
        return ExitCode::from(73);
    }
    let mut server = server::Server::new(control);
    let stopped = server.run();
    server.end_all();
    match stopped {
        Ok(()) => ExitCode::SUCCESS,
        // There is nobody to tell: the host sees the stream end.
        Err(_) => ExitCode::from(72),
    }
}
