//! The `ringfence` command: reads what the user wants, asks the crates below, prints.
//!
//! The composition root: nothing is decided here that another crate could decide.

mod args;
mod commands;
mod eval_args;
mod exit;
mod grant_args;
mod limit_args;
mod panics;
mod printer;
mod render;
mod serve_args;
mod table;
mod trust_args;

use std::process::ExitCode;

use clap::Parser as _;

use crate::exit::Exit;
use crate::printer::{Look, Printer, Written, plain, span};

fn main() -> ExitCode {
    panics::install();
    if let Some(code) = egress::become_gateway().or_else(verify::become_world) {
        return code;
    }
    // Errors about arguments repeat them; what speaks to a terminal is stopped before anything can.
    let speaks = |argument: &std::ffi::OsString| {
        argument.to_str().is_none_or(|text| printer::sanitise(text) != text && !text.chars().all(printer::is_text))
    };
    if let Some(argument) = std::env::args_os().skip(1).find(speaks) {
        let shown = argument.to_string_lossy();
        let message = vec![span(Look::Bad, "error"), plain(format!(": an argument has control characters: {shown}"))];
        Printer::new(false).message(&vec![message]);
        return Exit::Input.into();
    }
    let arguments = args::Arguments::parse();
    let mut printer = Printer::new(arguments.json);
    let exit = commands::run(arguments.command, &mut printer);
    match (exit, printer.written()) {
        (exit, Written::Failed(why)) => {
            let message = vec![span(Look::Bad, "error"), plain(format!(": cannot write the output: {why}"))];
            printer.message(&vec![message]);
            if exit == Exit::Done { Exit::Failed.into() } else { exit.into() }
        }
        // A reader that closes the pipe has seen enough; what was refused stays refused.
        (exit, Written::All | Written::PipeClosed) => exit.into(),
    }
}
