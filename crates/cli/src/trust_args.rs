//! Which earlier logs are believed, on the command line: shared by the commands that go on from a log.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TrustArguments {
    /// Also go on from logs that this public key signed, beside those that the signing key signed; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) trust_key: Vec<PathBuf>,
    /// Go on from a log that no trusted key signed, although the new one is signed; written into the new log and its receipt
    #[arg(long)]
    pub(crate) trust_unsigned: bool,
}
