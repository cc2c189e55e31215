//! A Docker daemon (or Podman's compatible socket) that answers, and what it can do for us.

use ::docker::{DockerError, Patience, Survey, survey};
use profile::{Capability, Finding};

use crate::{DEADLINE, Surroundings};

/// What a daemon is asked about, all at once.
pub(crate) const CAPABILITIES: [Capability; 4] =
    [Capability::Docker, Capability::DockerHere, Capability::DockerLimits, Capability::DockerIds];

const FIX: &str = "start a Docker daemon, join the group docker, or set DOCKER_HOST";

/// Every capability of the daemon that the surroundings name.
pub(crate) fn findings(surroundings: &Surroundings) -> [(Capability, Finding); 4] {
    let variables = surroundings.variables.clone();
    let patience = Patience { question: DEADLINE, work: DEADLINE, progress: DEADLINE, build: DEADLINE };
    let asked = survey(&::docker::Surroundings { variables }, patience);
    CAPABILITIES.map(|capability| (capability, finding(capability, &asked)))
}

fn finding(capability: Capability, asked: &Result<Survey, DockerError>) -> Finding {
    let survey = match asked {
        Ok(survey) => survey,
        Err(error @ DockerError::Hangs { .. }) => return Finding::unknown(error.to_string()),
        Err(error) => return Finding::missing(error.to_string(), error.hint().unwrap_or_else(|| FIX.to_owned())),
    };
    let Survey { endpoint, version, api, remaps, unbounded, .. } = survey;
    match capability {
        Capability::DockerHere if !endpoint.is_local() => Finding::missing(
            format!("{endpoint} is another machine's"),
            "nothing is lost but speed and mounts; or use a daemon on this machine",
        ),
        Capability::DockerHere => Finding::works(endpoint.to_string()),
        Capability::DockerLimits if !unbounded.is_empty() => {
            let found = format!("it cannot bound {}", unbounded.join(", "));
            Finding::missing(
                found,
                "run the daemon where it has control groups: as root, or with delegation (cgroups v2)",
            )
        }
        Capability::DockerLimits => Finding::works("it bounds memory, pids and cpu"),
        Capability::DockerIds if !remaps => {
            let found = "root inside has the number of root outside";
            Finding::missing(found, "start the daemon with --userns-remap=default, or without root")
        }
        Capability::DockerIds => Finding::works("root inside is nobody outside"),
        _ => Finding::works(format!("version {version} (API {api}) at {endpoint}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use profile::Status;

    use super::*;

    const VERSION: &str = r#"{"Version":"28.2.2","ApiVersion":"1.50","Os":"linux"}"#;
    const INFO: &str =
        r#"{"MemoryLimit":true,"PidsLimit":false,"SecurityOptions":["name=seccomp,profile=default","name=rootless"]}"#;

    /// A daemon that takes strict questions, each on a connection of its own, and gives these answers.
    fn asked(answers: &'static [(&'static str, &'static str)]) -> Vec<(Capability, Finding)> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for (question, answer) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&head));
                    head.extend(byte);
                }
                let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
                // What speaks which version is asked without one.
                let versioned = line.starts_with("GET /v1.") && line.ends_with(&format!("/{question} HTTP/1.1"));
                assert!(versioned || line == format!("GET /{question} HTTP/1.1"), "{line}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let variables = [("DOCKER_HOST".to_owned(), format!("unix://{}", path.display()))].into();
        let found = findings(&Surroundings { variables });
        server.join().unwrap();
        found.to_vec()
    }

    fn answer(body: &str) -> &'static str {
        let text = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Box::leak(text.into_boxed_str())
    }

    #[test]
    fn a_daemon_that_answers_works_and_says_what_it_can_do() {
        let version = answer(VERSION);
        let answers =
            Box::leak(vec![("version", version), ("version", version), ("info", answer(INFO))].into_boxed_slice());
        let found = asked(answers);
        let status: Vec<Status> = found.iter().map(|(_, finding)| finding.status).collect();
        assert_eq!(status, [Status::Works, Status::Works, Status::Missing, Status::Works]);
        assert!(found[0].1.found.starts_with("version 28.2.2 (API 1.50)"), "{found:?}");
        assert!(found[2].1.found.contains("pids"), "{found:?}");
    }

    #[test]
    fn something_else_on_the_socket_is_not_a_daemon() {
        for said in ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", answer("{}")] {
            let answers = Box::leak(vec![("version", said)].into_boxed_slice());
            for (capability, finding) in asked(answers) {
                assert_eq!(finding.status, Status::Missing, "{said:?} {capability:?} {finding:?}");
            }
        }
    }

    #[test]
    fn a_daemon_that_hangs_is_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docker.sock");
        // Connections are taken by the kernel, and nobody ever answers.
        let _listener = UnixListener::bind(&path).unwrap();
        let variables = [("DOCKER_HOST".to_owned(), format!("unix://{}", path.display()))].into();
        for (_, finding) in findings(&Surroundings { variables }) {
            assert_eq!(finding.status, Status::Unknown);
            assert!(finding.found.contains("hangs: no answer to `version`"), "{finding:?}");
        }
    }

    #[test]
    fn no_socket_and_odd_endpoints_are_missing() {
        for host in ["unix:///nonexistent/docker.sock", "ssh://example.org", "tcp://127.0.0.1:1"] {
            let variables = [("DOCKER_HOST".to_owned(), host.to_owned())].into();
            for (_, finding) in findings(&Surroundings { variables }) {
                assert_eq!(finding.status, Status::Missing, "{host}");
                assert!(finding.found.contains(host), "{finding:?}");
            }
        }
    }
}
