//! The `ringfence` command: reads what the user wants, asks the crates below, prints.
//!
//! The composition root: nothing is decided here that another crate could decide.

mod args;
mod commands;
mod exit;
mod printer;
mod render;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    let mut printer = printer::Printer::new(arguments.json);
    let exit = commands::run(arguments.command, &mut printer);
    // Whoever closed the pipe has seen enough.
    if printer.pipe_closed() { exit::Exit::Done.into() } else { exit.into() }
}
