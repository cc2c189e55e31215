//! Why something could not be had from a daemon: whose call it was, and whether the daemon refused, hung or was not there.

use std::time::Duration;

use bollard::errors::Error;
use strangers::Shown;

use crate::endpoint::EndpointError;

/// Why a daemon did not do something. Whose fault: the provider's.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// There is no daemon to ask.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// It did not answer in time.
    #[error("the Docker daemon at {endpoint} hangs: no answer to `{call}` within {} s", deadline.as_secs_f32())]
    Hangs {
        /// What was asked.
        call: &'static str,
        /// Whom.
        endpoint: String,
        /// How long was waited.
        deadline: Duration,
    },
    /// It said no.
    #[error("the Docker daemon at {endpoint} refused `{call}`: {message}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// Whom.
        endpoint: String,
        /// As HTTP has it.
        status: u16,
        /// In its words.
        message: Shown,
    },
    /// It could not be asked.
    #[error("cannot ask the Docker daemon at {endpoint} for `{call}`: {why}")]
    Unreachable {
        /// What was asked.
        call: &'static str,
        /// Whom.
        endpoint: String,
        /// Why not.
        why: Shown,
    },
    /// It is there, but what it says makes no sense.
    #[error("the Docker daemon at {endpoint} answered `{call}` with {what}")]
    Odd {
        /// What was asked.
        call: &'static str,
        /// Whom.
        endpoint: String,
        /// What is odd about the answer.
        what: String,
    },
    /// The entry process ended before the guest spoke.
    #[error("the container's entry process failed: {said}")]
    Entry {
        /// In its words.
        said: Shown,
    },
    /// The captured network did not come out of the container.
    #[error("the captured network of the container could not be taken over: {0}")]
    Capture(String),
    /// A host path was to be shown by a daemon that has other paths.
    #[error("the Docker daemon at {endpoint} is on another machine: `{path}` of this one cannot be mounted there")]
    RemoteMount {
        /// The path.
        path: String,
        /// Whom.
        endpoint: String,
    },
    /// A runtime that it does not have.
    #[error("the Docker daemon at {endpoint} has no runtime `{runtime}`; it has {known}")]
    NoRuntime {
        /// The runtime.
        runtime: String,
        /// Those that it has.
        known: Shown,
        /// Whom.
        endpoint: String,
    },
    /// Our programs would have to be copied to where nothing can be written.
    #[error(
        "a container with a read-only root cannot be had from the Docker daemon at {endpoint}: our programs are copied into it"
    )]
    ReadOnlyRoot {
        /// Whom.
        endpoint: String,
    },
    /// It would do less than it is asked, and not say so.
    #[error(
        "the Docker daemon at {endpoint} cannot mount `{subpath}` of a volume alone: that takes version 1.45 of its API"
    )]
    NoSubpaths {
        /// What is asked for.
        subpath: String,
        /// Whom.
        endpoint: String,
    },
    /// No private directory for the run.
    #[error("cannot keep the files of the run")]
    Place(#[source] std::io::Error),
    /// The image is not there, and nobody may fetch it.
    #[error("the Docker daemon at {endpoint} has no image `{name}`")]
    NoImage {
        /// As it was asked for.
        name: String,
        /// Whom.
        endpoint: String,
    },
    /// The user's logins cannot be had.
    #[error("the login for the image's registry cannot be had")]
    Login(#[source] registry::CredentialsError),
    /// A build failed.
    #[error("building the image of {directory} failed: {why}")]
    Build {
        /// What was built.
        directory: String,
        /// In the daemon's words.
        why: Shown,
    },
    /// A build's directory could not be read.
    #[error("cannot read {directory} to build an image of it")]
    Context {
        /// What was to be built.
        directory: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl DockerError {
    /// What a client's error means for whoever asked.
    pub(crate) fn of(call: &'static str, endpoint: &str, deadline: Duration, error: Error) -> Self {
        let endpoint = endpoint.to_owned();
        match error {
            Error::RequestTimeoutError => Self::Hangs { call, endpoint, deadline },
            Error::DockerResponseServerError { status_code: status, message } => {
                Self::Refused { call, endpoint, status, message: Shown::new(&message) }
            }
            Error::JsonDataError { message, .. } => Self::Odd { call, endpoint, what: message },
            other => Self::Unreachable { call, endpoint, why: Shown::new(&chain(&other)) },
        }
    }

    /// Whether what was asked for does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. } | Self::NoImage { .. })
    }

    /// Whether it is busy with what was asked for, or with the contrary.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }

    /// Whether a container could not be killed because it had just ended.
    pub(crate) fn has_ended_meanwhile(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.to_string().contains("is not running"))
    }

    /// What to do next, where we know.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Login(error) => return Some(error.hint()),
            Self::Endpoint(error) => error.hint(),
            Self::Unreachable { .. } => {
                "start the daemon, or say where it listens by DOCKER_HOST or `docker context use`"
            }
            Self::Hangs { .. } => "look at the daemon's log, and restart it",
            Self::RemoteMount { .. } => "use a daemon on this machine, or sandbox: container",
            Self::NoRuntime { .. } => "add it under `runtimes` in the daemon's daemon.json, or choose one that it has",
            Self::ReadOnlyRoot { .. } => "use a daemon on this machine, or leave read_only out",
            Self::NoSubpaths { .. } => "use a newer daemon, or a volume of its own for what is shared",
            Self::NoImage { .. } => "name another image, pull it, or use --pull missing",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// An error with everything behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        // Some say their cause themselves.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// The kernel's words for a full disk, which the daemon passes on.
const DISK_FULL: [&str; 2] = ["no space left on device", "disk quota exceeded"];

impl From<DockerError> for sandbox::StartError {
    fn from(error: DockerError) -> Self {
        match &error {
            DockerError::Refused { message, .. } if DISK_FULL.iter().any(|full| message.as_str().contains(full)) => {
                Self::DiskFull(error.to_string())
            }
            _ => Self::Engine(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_ended_while_it_was_removed_is_told_from_other_refusals() {
        let refused = |message: &str| DockerError::Refused {
            call: "remove container",
            endpoint: "unix:///run/docker.sock".into(),
            status: 500,
            message: Shown::new(message),
        };
        let ended = "Could not kill running container f135, cannot remove - Container f135 is not running";
        assert!(refused(ended).has_ended_meanwhile());
        assert!(!refused("driver \"overlay2\" failed to remove root filesystem").has_ended_meanwhile());
    }

    #[test]
    fn a_full_disk_of_the_daemon_is_told_from_other_refusals() {
        let refused = |message: &str| DockerError::Refused {
            call: "create container",
            endpoint: "unix:///s".into(),
            status: 500,
            message: Shown::new(message),
        };
        let full =
            sandbox::StartError::from(refused("mkdir /var/lib/docker/overlay2/f1-init: no space left on device"));
        assert!(matches!(full, sandbox::StartError::DiskFull(_)), "{full}");
        let other = sandbox::StartError::from(refused("No such image: a"));
        assert!(matches!(other, sandbox::StartError::Engine(_)), "{other}");
    }
}
