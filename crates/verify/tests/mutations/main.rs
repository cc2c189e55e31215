//! Probes that cannot fail prove nothing: each control is taken away alone, and verification must say so of exactly that one.
//!
//! A program of its own, because it becomes the gateway, the world and the runner of each case. Every case is a process: its
//! variable says what is taken away, and its network is empty, so that whatever a mutation opens leads nowhere.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may stop at its own set-up, and says how it went"
)]

mod cases;
mod runner;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = egress::become_gateway().or_else(verify::become_world) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [runner::ALONE, program, user] => runner::alone(program, user),
        [runner::VERIFY] => runner::verify(),
        filters => cases::run(filters),
    }
}
