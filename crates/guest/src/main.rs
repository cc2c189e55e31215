//! The guest as a program of its own, with its control stream on descriptor 3: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match guest::control_stream() {
        Some(control) => ExitCode::from(guest::serve(control)),
        None => ExitCode::from(71),
    }
}
