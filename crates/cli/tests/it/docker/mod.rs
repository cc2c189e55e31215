//! Sandboxes of a Docker daemon, through the command as a user runs it. Run by `./test.sh docker`, which starts a daemon
//! with the images that these tests name.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod daemon;
mod elsewhere;
mod evaluations;
mod grants;
mod leftovers;
mod logins;
mod runs;
mod services;
