//! The guest as a program of its own, with its control stream on descriptor 3, or on 3 and 4: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let two_ways = std::env::args_os().nth(1).is_some_and(|argument| argument == "two-ways");
    match guest::control_stream(two_ways) {
        Some((control, writes)) => ExitCode::from(guest::serve(control, writes)),
        None => ExitCode::from(71),
    }
}
