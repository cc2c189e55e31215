//! A gateway and nothing else, for tests of its process. The product starts itself as one.

use std::process::ExitCode;

fn main() -> ExitCode {
    egress::become_gateway().unwrap_or(ExitCode::from(64))
}
