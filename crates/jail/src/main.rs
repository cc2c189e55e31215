//! The program that makes sandboxes, and that containers of other engines begin with: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    jail::main()
}
