//! Where a daemon listens: `DOCKER_HOST`, a context, or one of the usual sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::contexts;

/// The environment variables and the home directory that a client looks at.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Variables; empty ones count as absent.
    pub variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// This process' own; variables that are not text are left out.
    pub fn of_this_process() -> Self {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { variables: variables.collect() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Where the client's own files are.
    pub(crate) fn config(&self) -> Option<PathBuf> {
        let stated = self.get("DOCKER_CONFIG").map(PathBuf::from);
        stated.or_else(|| self.get("HOME").map(|home| Path::new(home).join(".docker")))
    }
}

/// A place where a daemon listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket of this machine.
    Unix(PathBuf),
    /// Another machine, in the clear.
    Tcp(String),
    /// Another machine by TLS: its address, and the directory with `ca.pem`, `cert.pem` and `key.pem`.
    Tls(String, PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) | Self::Tls(address, _) => write!(f, "tcp://{address}"),
        }
    }
}

/// Why it is not known where a daemon listens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Nothing listens at any of the usual places.
    #[error("no Docker daemon listens: tried {0}")]
    Nowhere(String),
    /// A place of a kind that we cannot reach.
    #[error("`{0}` is no endpoint of a Docker daemon that can be reached: only unix:// and tcp:// are")]
    Unknown(String),
    /// TLS is asked for, and there are no certificates.
    #[error("`{0}` is to be reached by TLS, and nothing says where the certificates are")]
    NoCertificates(String),
    /// A context that does not exist, or cannot be read.
    #[error("the Docker context `{name}` cannot be used: {why}")]
    Context {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

impl EndpointError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Nowhere(_) => "start a Docker daemon, join the group docker, or set DOCKER_HOST",
            Self::Unknown(_) => {
                "set DOCKER_HOST to unix:///PATH or tcp://HOST:PORT; forward a daemon behind SSH to a port, not to a socket"
            }
            Self::NoCertificates(_) => "set DOCKER_CERT_PATH to the directory with ca.pem, cert.pem and key.pem",
            Self::Context { .. } => "`docker context ls` shows those that exist; DOCKER_HOST goes without",
        }
    }
}

impl Endpoint {
    /// The daemon that the command `docker` would ask: `DOCKER_HOST`, else `DOCKER_CONTEXT` or the current context, else
    /// the first of the usual sockets that somebody listens on.
    pub fn find(surroundings: &Surroundings) -> Result<Self, EndpointError> {
        if let Some(host) = surroundings.get("DOCKER_HOST") {
            let certificates = surroundings.get("DOCKER_CERT_PATH").map(PathBuf::from);
            let by_tls = surroundings.get("DOCKER_TLS_VERIFY").is_some();
            let certificates = certificates.or_else(|| surroundings.config()).filter(|_| by_tls);
            return Self::parse(host, by_tls, certificates);
        }
        if let Some(found) = contexts::current(surroundings)? {
            return Ok(found);
        }
        let usual = usual(surroundings);
        let mut tried = Vec::new();
        for path in usual {
            match UnixStream::connect(&path) {
                Ok(_) => return Ok(Self::Unix(path)),
                Err(error) => tried.push(format!("{} ({error})", path.display())),
            }
        }
        Err(EndpointError::Nowhere(tried.join(", ")))
    }

    /// Reads an address as `DOCKER_HOST` has it.
    pub(crate) fn parse(host: &str, by_tls: bool, certificates: Option<PathBuf>) -> Result<Self, EndpointError> {
        if let Some(path) = host.strip_prefix("unix://").filter(|path| path.starts_with('/')) {
            return Ok(Self::Unix(path.into()));
        }
        let address = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("http://"));
        let address = address.or_else(|| host.strip_prefix("https://")).unwrap_or_default();
        let address = address.trim_end_matches('/');
        let plain = !address.is_empty() && !address.contains(['/', '@', '?', '#']);
        if !plain {
            // What somebody may have written before an `@` is not repeated.
            let shown = host.rsplit('@').next().unwrap_or_default();
            return Err(EndpointError::Unknown(shown.to_owned()));
        }
        match (by_tls || host.starts_with("https://"), certificates) {
            (false, _) => Ok(Self::Tcp(address.to_owned())),
            (true, Some(certificates)) => Ok(Self::Tls(address.to_owned(), certificates)),
            (true, None) => Err(EndpointError::NoCertificates(address.to_owned())),
        }
    }

    /// Whether it is on this machine, as far as an address tells.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

/// Sockets of Docker with and without root, and of Podman.
fn usual(surroundings: &Surroundings) -> Vec<PathBuf> {
    let runtime = surroundings.get("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = |name: &str| runtime.as_ref().map(|directory| directory.join(name));
    let of_root = [PathBuf::from("/var/run/docker.sock"), PathBuf::from("/run/podman/podman.sock")];
    let [docker, podman] = of_root;
    [Some(docker), own("docker.sock"), own("podman/podman.sock"), Some(podman)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Surroundings {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Surroundings { variables }
    }

    #[test]
    fn the_variable_comes_first() {
        let found = |variables: &[(&str, &str)]| Endpoint::find(&with(variables));
        assert_eq!(found(&[("DOCKER_HOST", "unix:///a/b")]), Ok(Endpoint::Unix("/a/b".into())));
        assert_eq!(found(&[("DOCKER_HOST", "tcp://h:2375/")]), Ok(Endpoint::Tcp("h:2375".into())));
        let tls = [("DOCKER_HOST", "tcp://h:2376"), ("DOCKER_TLS_VERIFY", "1"), ("DOCKER_CERT_PATH", "/c")];
        assert_eq!(found(&tls), Ok(Endpoint::Tls("h:2376".into(), "/c".into())));
        let home = [("DOCKER_HOST", "tcp://h:2376"), ("DOCKER_TLS_VERIFY", "1"), ("HOME", "/h")];
        assert_eq!(found(&home), Ok(Endpoint::Tls("h:2376".into(), "/h/.docker".into())));
        let none = [("DOCKER_HOST", "tcp://h:2376"), ("DOCKER_TLS_VERIFY", "1")];
        assert_eq!(found(&none), Err(EndpointError::NoCertificates("h:2376".into())));
    }

    #[test]
    fn what_cannot_be_reached_is_refused_without_what_may_be_a_password() {
        for host in ["ssh://user:secret@h", "unix://relative", "tcp://", "npipe:////./pipe/x", "tcp://user:secret@h:1"]
        {
            let error = Endpoint::find(&with(&[("DOCKER_HOST", host)])).unwrap_err();
            assert!(matches!(&error, EndpointError::Unknown(_)), "{host}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn nobody_at_the_usual_places_names_them() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().to_str().unwrap();
        let surroundings = with(&[("XDG_RUNTIME_DIR", text), ("HOME", text)]);
        // A machine may have a daemon of its own.
        if let Err(error) = Endpoint::find(&surroundings) {
            assert!(error.to_string().contains("podman/podman.sock"), "{error}");
        }
        let socket = directory.path().join("docker.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let found = Endpoint::find(&surroundings).unwrap();
        assert!(found == Endpoint::Unix(socket) || found == Endpoint::Unix("/var/run/docker.sock".into()));
    }
}
