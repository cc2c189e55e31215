//! What works on hosts that users have, by the program as it is installed there. `./test.sh hosts` runs this.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod matrix;
mod ways;
