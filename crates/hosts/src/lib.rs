//! Virtual machines with the kernels and ways of starting that users have.
//!
//! [`image`] makes a disk with a whole Debian of its package registry, once; [`Machine`] boots a copy of it in QEMU, without
//! hardware virtualisation, and runs commands in it by ssh over loopback.

pub mod image;
mod machine;

use std::path::PathBuf;
use std::process::Command;

pub use image::{Image, Suite};
pub use machine::{Machine, Output};

/// Errors of images and machines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that was needed failed.
    #[error("{what} failed: {output}")]
    Failed {
        /// What it was for.
        what: String,
        /// What it printed last.
        output: String,
    },
    /// The machine did not answer.
    #[error("the machine {0} did not answer by ssh in time; its console is in {1}")]
    Silent(&'static str, PathBuf),
    /// A file or a program could not be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Runs a command to its end.
fn run(what: &str, command: &mut Command) -> Result<String, Error> {
    let output = command.output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    Err(Error::Failed { what: what.to_owned(), output: last })
}
