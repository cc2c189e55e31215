//! A daemon that is reached by TCP and TLS, as one on another machine is: no file and no descriptor of this one gets there,
//! so programs are copied in, and guests relay the network.

use std::path::Path;

use serde_json::Value;

use crate::common;
use crate::docker::daemon::{DEBIAN, STATIC, among};

/// The daemon's address by TCP, and the directory with a client's certificates.
fn reached_by() -> (String, String) {
    let named = |name: &str| std::env::var(name).unwrap_or_else(|_| unreachable!("{name}: run `./test.sh docker`"));
    (format!("tcp://{}", named("RINGFENCE_DOCKER_TCP")), named("RINGFENCE_DOCKER_TLS"))
}

/// The command with certificates from a directory; without one it speaks in the clear.
fn ringfence(place: &Path, certificates: Option<&str>, arguments: &[&str]) -> (i32, String, String) {
    let mut command = common::command(place);
    command.env("DOCKER_HOST", reached_by().0).args(arguments);
    if let Some(directory) = certificates {
        command.env("DOCKER_TLS_VERIFY", "1").env("DOCKER_CERT_PATH", directory);
    }
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const RUN: [&str; 7] = ["run", "--provider", "docker", "--pull", "never", "--image", DEBIAN];

#[test]
fn a_command_runs_and_its_network_is_relayed() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("network.jsonl");
    let script = "id -u; curl -s -m 5 http://192.0.2.7/ || echo refused; ls -a / | grep -c ringfence";
    let more = [
        "--profile",
        "T0.H1.N1",
        "--allow",
        "example.org",
        "--network-log",
        log.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ];
    let (code, out, err) = ringfence(place.path(), Some(&reached_by().1), &[&RUN[..], &more].concat());
    assert_eq!((code, out.as_str()), (1, "0\nrefused\n0\n"), "nothing of ours is found inside: {err}");
    let records = std::fs::read_to_string(log).unwrap();
    assert!(records.contains("192.0.2.7") && records.contains("raw_address"), "{records}");
}

#[test]
fn what_it_enforces_is_proven() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    for profile in ["T0.H1.N1", "T0.H1.N2"] {
        let arguments = ["--json", "verify", "--provider", "docker", "--image", STATIC, profile];
        let (code, out, err) = ringfence(place.path(), Some(&reached_by().1), &arguments);
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| unreachable!("{err}"));
        let probes = report["probes"].as_array().unwrap();
        let bad: Vec<&Value> =
            probes.iter().filter(|one| one["verdict"] == "fail" || one["verdict"] == "unknown").collect();
        assert!(bad.is_empty(), "{bad:#?}");
        assert_eq!((code, &report["conclusion"]), (0, &Value::from("as_planned")), "{err}");
    }
}

#[test]
fn what_cannot_be_had_from_there_is_said() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mount = format!("{}:/data", directory.path().display());
    let options = ["--mount", &mount, "--", "true"];
    let (code, _, err) = ringfence(place.path(), Some(&reached_by().1), &[&RUN[..], &options].concat());
    assert!(matches!(code, 3 | 4) && err.contains(directory.path().to_str().unwrap()), "{code} {err}");
    let command = ["--", "true"];
    let (code, _, err) = ringfence(place.path(), None, &[&RUN[..], &command].concat());
    assert!(matches!(code, 3 | 4) && err.contains(&reached_by().0), "in the clear: {code} {err}");
    let nothing = tempfile::tempdir().unwrap();
    let (code, _, err) = ringfence(place.path(), nothing.path().to_str(), &[&RUN[..], &command].concat());
    assert!(matches!(code, 3 | 4) && err.contains("pem"), "no certificates: {code} {err}");
}

#[test]
fn a_daemon_that_is_somebody_elses_is_not_spoken_with() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let (_, certificates) = reached_by();
    let other = tempfile::tempdir().unwrap();
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(Path::new(&certificates).join(name), other.path().join(name)).unwrap();
    }
    // An authority that has not signed the daemon's certificate.
    let script =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout other-key.pem -out ca.pem 2>&1";
    common::sh(other.path(), script);
    let (code, _, err) = ringfence(place.path(), other.path().to_str(), &[&RUN[..], &["--", "true"]].concat());
    assert!(matches!(code, 3 | 4) && err.contains(&reached_by().0), "{code} {err}");
}
