//! Why credentials could not be found out. Nothing here repeats what a file or a helper said: it may be a secret.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use strangers::Shown;
use thiserror::Error;

/// Why credentials could not be found out.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The configuration could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration is too large to be one.
    #[error("`{}` is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// The configuration is not JSON, or not of Docker's form.
    #[error("`{}` is no configuration of Docker: line {line}, column {column}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// An entry of `auths` is no login.
    #[error("the entry for `{server}` in `auths` is no login")]
    Entry {
        /// The entry's name.
        server: Shown,
    },
    /// The name of a helper could be a path.
    #[error("`{name}` is no name of a credential helper")]
    HelperName {
        /// The name.
        name: Shown,
    },
    /// A helper is not installed.
    #[error("`{program}` is in no directory of PATH")]
    HelperMissing {
        /// The program.
        program: String,
    },
    /// A helper could not be run.
    #[error("cannot run `{program}`")]
    Helper {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A helper did not end.
    #[error("`{program}` did not answer within {after:?}")]
    HelperStalled {
        /// The program.
        program: String,
        /// How long was waited.
        after: Duration,
    },
    /// A helper failed.
    #[error("`{program}` failed ({status})")]
    HelperFailed {
        /// The program.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A helper's answer is no login, or too long.
    #[error("`{program}` gave no login")]
    HelperAnswer {
        /// The program.
        program: String,
    },
}

impl CredentialsError {
    /// What to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "check the path and its permissions, and DOCKER_CONFIG".to_owned(),
            Self::TooLarge { .. } | Self::Malformed { .. } => {
                "mend the file, or log in again with `docker login`".to_owned()
            }
            Self::Entry { server } => format!("log in again with `docker login {server}`"),
            Self::HelperName { .. } => "mend `credsStore` and `credHelpers` in Docker's configuration".to_owned(),
            Self::HelperMissing { .. } => {
                "install it, or take it out of `credsStore` and `credHelpers` in Docker's configuration".to_owned()
            }
            Self::Helper { program, .. }
            | Self::HelperStalled { program, .. }
            | Self::HelperFailed { program, .. }
            | Self::HelperAnswer { program } => format!("run `{program} get` and give it the registry's name"),
        }
    }
}
