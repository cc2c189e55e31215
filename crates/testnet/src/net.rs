//! A testnet as its tests see it.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::addresses::DNS_UPSTREAM;
use crate::control::{CA, Reply, Request, SOCKET, Seen};
use crate::processes::{Namespace, StartError, join};

const START_DEADLINE: Duration = Duration::from_secs(20);
const CONTROL_DEADLINE: Duration = Duration::from_secs(10);

/// A running fake internet and the namespace next to it. Dropping it ends both.
///
/// Any number may run at the same time. A program that was started with [`Testnet::command`] is the caller's: one that
/// is left running keeps the runner's namespace, without a network.
#[derive(Debug)]
pub struct Testnet {
    runner: Namespace,
    /// Held for its end.
    _internet: Namespace,
    directory: TempDir,
}

impl Testnet {
    /// Starts a testnet and waits until every server listens.
    ///
    /// `program` is the binary `testnet` of this crate. `www` is the directory that every web server serves, whatever
    /// the host; an empty path means that there is none.
    pub fn start(program: &Path, www: &Path) -> Result<Self, StartError> {
        if !rustix::process::geteuid().is_root() {
            return Err(StartError::NotRoot);
        }
        let directory = tempfile::Builder::new().prefix("testnet-").tempdir().map_err(StartError::Directory)?;
        let path = directory.path();
        // The program under test may run as another user, who must be able to read the certificate.
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).map_err(StartError::Directory)?;
        let mut arguments = vec![Path::new("serve"), Path::new("--directory"), path];
        if !www.as_os_str().is_empty() {
            arguments.extend([Path::new("--root"), www]);
        }
        let internet = Namespace::start("internet", program, &arguments, &path.join("internet.log"), START_DEADLINE)?;
        // It holds the namespace and repeats what it reads; unlike `sleep` it ends when a killed test leaves it behind.
        let runner = Namespace::start("runner", Path::new("cat"), &[], &path.join("runner.log"), START_DEADLINE)?;
        join(&internet, &runner)?;
        Ok(Self { runner, _internet: internet, directory })
    }

    /// A command that runs a program in the runner's namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.runner.enter();
        command.arg(program);
        command
    }

    /// The same as another user, who is in no group but their own.
    pub fn command_as(&self, uid: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.runner.enter();
        let uid = uid.to_string();
        command.args(["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]).arg(program);
        command
    }

    /// The DNS server that knows the [names](crate::names), as an upstream is written.
    pub fn dns(&self) -> &'static str {
        DNS_UPSTREAM
    }

    /// The certificate of the authority that signs for every HTTPS server here, and for no other testnet.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join(CA)
    }

    /// Everything that reached any server since the start, or since the last [`Testnet::forget`].
    ///
    /// What the servers' sockets hold when this is called is included. Fails when there was more than they keep
    /// (100,000 events): a test must not conclude from a part that something did not happen.
    pub fn seen(&self) -> io::Result<Vec<Seen>> {
        let reply = self.ask(Request::Seen)?;
        if reply.unkept > 0 {
            let text = format!("{} more events than are kept (hint: forget between the parts of a test)", reply.unkept);
            return Err(io::Error::other(text));
        }
        Ok(reply.events)
    }

    /// Forgets what was seen so far. The turns of [`REBIND`](crate::names::REBIND) go on as they were.
    pub fn forget(&self) -> io::Result<()> {
        self.ask(Request::Forget).map(|_| ())
    }

    fn ask(&self, request: Request) -> io::Result<Reply> {
        let mut stream = UnixStream::connect(self.directory.path().join(SOCKET))?;
        stream.set_read_timeout(Some(CONTROL_DEADLINE))?;
        stream.set_write_timeout(Some(CONTROL_DEADLINE))?;
        writeln!(stream, "{}", serde_json::to_string(&request)?)?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}
