//! A Docker daemon (or Podman's compatible socket) that answers.

use std::io;
use std::os::unix::net::UnixStream;

use profile::Finding;
use serde::Deserialize;

use crate::{DEADLINE, Surroundings, reach};

const FIX: &str = "start a Docker daemon, join the group docker, or set DOCKER_HOST";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Version {
    version: String,
    api_version: String,
}

/// Where the daemon listens: `DOCKER_HOST`, or the usual sockets.
fn endpoints(surroundings: &Surroundings) -> Vec<String> {
    if let Some(host) = surroundings.get("DOCKER_HOST") {
        return vec![host.to_owned()];
    }
    let rootless = surroundings.get("XDG_RUNTIME_DIR").map(|directory| format!("unix://{directory}/docker.sock"));
    ["unix:///var/run/docker.sock".to_owned()].into_iter().chain(rootless).collect()
}

fn ask(endpoint: &str, surroundings: &Surroundings) -> io::Result<Version> {
    let body = if let Some(path) = endpoint.strip_prefix("unix://") {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        reach::get(stream, "/version")?
    } else if let Some(authority) = endpoint.strip_prefix("tcp://") {
        if surroundings.get("DOCKER_TLS_VERIFY").is_some() {
            return Err(io::Error::other("TLS endpoints are not probed yet"));
        }
        let stream = reach::connect(authority)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        reach::get(stream, "/version")?
    } else {
        return Err(io::Error::other("only unix:// and tcp:// endpoints are known"));
    };
    serde_json::from_str(&body).map_err(io::Error::from)
}

pub(crate) fn daemon(surroundings: &Surroundings) -> Finding {
    let mut tried = Vec::new();
    for endpoint in endpoints(surroundings) {
        let shown = reach::without_userinfo(&endpoint);
        match ask(&endpoint, surroundings) {
            Ok(version) => {
                return Finding::works(format!("version {} (API {}) at {shown}", version.version, version.api_version));
            }
            Err(error) => tried.push(format!("{shown}: {error}")),
        }
    }
    Finding::missing(tried.join("; "), FIX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use profile::Status;

    use super::*;

    /// A daemon that takes one strict question and gives one answer.
    fn asked(answer: &'static str) -> Finding {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 256];
            let count = stream.read(&mut question).unwrap();
            assert_eq!(&question[..count], b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let variables = [("DOCKER_HOST".to_owned(), format!("unix://{}", path.display()))].into();
        let finding = daemon(&Surroundings { variables });
        server.join().unwrap();
        finding
    }

    #[test]
    fn a_daemon_that_answers_works() {
        let finding = asked(
            "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"Version\":\"28.2.2\",\"ApiVersion\":\"1.50\",\"Os\":\"linux\"}",
        );
        assert_eq!(finding.status, Status::Works);
        assert!(finding.found.starts_with("version 28.2.2 (API 1.50)"), "{finding:?}");
    }

    #[test]
    fn something_else_on_the_socket_is_not_a_daemon() {
        for answer in ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.0 403 Forbidden\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n{}"] {
            assert_eq!(asked(answer).status, Status::Missing, "{answer:?}");
        }
    }

    #[test]
    fn no_socket_and_odd_endpoints_are_missing() {
        for host in ["unix:///nonexistent/docker.sock", "ssh://example.org", "tcp://127.0.0.1:1"] {
            let finding = daemon(&Surroundings { variables: [("DOCKER_HOST".to_owned(), host.to_owned())].into() });
            assert_eq!(finding.status, Status::Missing, "{host}");
            assert!(finding.found.contains(host), "{finding:?}");
        }
    }
}
