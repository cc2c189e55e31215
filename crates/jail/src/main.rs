//! The zygote's program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    jail::zygote::main()
}
