//! Certificates for a daemon and its clients, made by openssl for two days, and a free port for the daemon.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::setup::SetupError;

const LIMIT: Duration = Duration::from_mins(2);
const EXTENSIONS: &str = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";

/// Writes `ca.pem`, `server.pem`, `server-key.pem` and the directory `client`; returns a port that is free now.
pub(crate) fn write(tls: &Path) -> Result<u16, SetupError> {
    let log = tls.join("log");
    let openssl = |arguments: &[&str]| -> Result<(), SetupError> {
        let mut command = Command::new("openssl");
        command.current_dir(tls).args(arguments);
        let ok = process::run(&mut command, &log, LIMIT, &|_| ())?.success();
        if ok { Ok(()) } else { Err(SetupError::command("openssl", &log)) }
    };
    std::fs::write(tls.join("extensions"), EXTENSIONS)?;
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=ringfence-test",
        "-keyout",
        "ca-key.pem",
        "-out",
        "ca.pem",
    ])?;
    for name in ["server", "client"] {
        let (key, request, certificate) = (format!("{name}-key.pem"), format!("{name}.csr"), format!("{name}.pem"));
        let subject = format!("/CN={name}");
        openssl(&["req", "-newkey", "rsa:2048", "-nodes", "-subj", &subject, "-keyout", &key, "-out", &request])?;
        openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca-key.pem",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            &certificate,
        ])?;
    }
    for (from, to) in [("ca.pem", "ca.pem"), ("client.pem", "cert.pem"), ("client-key.pem", "key.pem")] {
        std::fs::copy(tls.join(from), tls.join("client").join(to))?;
    }
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
