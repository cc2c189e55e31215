//! The processes that hold the two namespaces, and the link between them.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::addresses::{INTERNET, INTERNET_V6, METADATA, RUNNER, RUNNER_V6};
use crate::control::READY;

/// Why there is no testnet.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Namespaces of the network are made by root only.
    #[error("a testnet needs root: it creates network namespaces and addresses in them")]
    NotRoot,
    /// No place for the socket and the certificate.
    #[error("cannot create the directory of the testnet")]
    Directory(#[source] io::Error),
    /// A program is missing or cannot be run.
    #[error("cannot run `{program}` (hint: a testnet needs unshare and nsenter of util-linux, and ip of iproute2)")]
    Run {
        /// Which.
        program: String,
        #[source]
        /// What the system said.
        source: io::Error,
    },
    /// A namespace's process ended or stayed silent.
    #[error("the process of the {namespace} ended, or was not ready within {deadline:?}; it said: {said}")]
    NotReady {
        /// Which of the two.
        namespace: &'static str,
        /// How long it had.
        deadline: Duration,
        /// What it wrote to its standard error.
        said: String,
    },
    /// `ip` refused.
    #[error("cannot set up the link in the {namespace}; ip said: {said}")]
    Link {
        /// Which of the two.
        namespace: &'static str,
        /// What it wrote to its standard error.
        said: String,
    },
}

/// A process in a network namespace of its own. It ends when dropped, or with us: its standard input ends then.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: &'static str,
    child: Child,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing is left to do for one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Namespace {
    /// Runs a program in a new namespace and waits for its word that it is ready. `log` gets its standard error.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        arguments: &[&Path],
        log: &Path,
        deadline: Duration,
    ) -> Result<Self, StartError> {
        let error_log = std::fs::File::create(log).map_err(StartError::Directory)?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(error_log);
        let child = command.spawn().map_err(|source| StartError::Run { program: "unshare".into(), source })?;
        // From here on a failure ends the process.
        let mut namespace = Self { name, child };
        if namespace.is_ready(deadline) {
            Ok(namespace)
        } else {
            drop(namespace);
            let said = std::fs::read_to_string(log).unwrap_or_default();
            Err(StartError::NotReady { namespace: name, deadline, said: said.trim().to_owned() })
        }
    }

    fn is_ready(&mut self, deadline: Duration) -> bool {
        let (Some(input), Some(output)) = (self.child.stdin.as_mut(), self.child.stdout.take()) else { return false };
        // For the runner, which only repeats what it reads: its echo shows that the namespace has been entered.
        if writeln!(input, "{READY}").is_err() {
            return false;
        }
        let (sender, receiver) = mpsc::channel();
        // Ends with the first line, or with the process.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(output).take(1024).read_line(&mut line);
            let _ = sender.send(read.is_ok() && line.trim_end() == READY);
        });
        receiver.recv_timeout(deadline).unwrap_or(false)
    }

    /// `nsenter` into this namespace; the program and its arguments are still to be added.
    pub(crate) fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.child.id())).arg("--");
        command
    }

    /// Runs lines of `ip` here.
    fn configure(&self, lines: &str) -> Result<(), StartError> {
        let run = |source| StartError::Run { program: "ip".into(), source };
        let mut command = self.enter();
        command.args(["ip", "-batch", "-"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(run)?;
        // The lines are shorter than a pipe, so this cannot wait for ever; a failed write shows in the exit status.
        if let Some(mut input) = child.stdin.take() {
            let _ = input.write_all(lines.as_bytes());
        }
        let output = child.wait_with_output().map_err(run)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(StartError::Link { namespace: self.name, said })
    }
}

/// Joins the two. The pair is created where it is used: names of interfaces cannot clash with another testnet's.
pub(crate) fn join(internet: &Namespace, runner: &Namespace) -> Result<(), StartError> {
    let create = format!("link add rf0 type veth peer name rf1 netns {}\n", runner.child.id());
    internet.configure(&(create + &end("rf0", [(INTERNET.into(), 30), (INTERNET_V6.into(), 64)])))?;
    let ends = end("rf1", [(RUNNER.into(), 30), (RUNNER_V6.into(), 64)]);
    let defaults = format!("route add default via {INTERNET}\nroute add ::/0 via {INTERNET_V6}\n");
    // Its own route, which stays when a test takes the default away.
    let metadata = format!("route add {METADATA}/32 via {INTERNET}\n");
    runner.configure(&["link set lo up\n", &ends, &defaults, &metadata].concat())
}

fn end(interface: &str, addresses: [(IpAddr, u8); 2]) -> String {
    let [v4, v6] = addresses.map(|(address, prefix)| format!("addr add {address}/{prefix} dev {interface}"));
    // Without duplicate address detection the address is usable at once.
    format!("{v4}\n{v6} nodad\nlink set {interface} up\n")
}
