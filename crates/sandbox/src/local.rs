//! H0: a process on this machine, without isolation. The guest runs as an ordinary program in a directory of its own.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::programs::GUEST;
use crate::sandbox::{Backing, Sandbox, StartError};
use crate::session::Session;

struct Process {
    child: Child,
    /// Its directory, by a path without links.
    path: PathBuf,
    /// Removed when the sandbox ends.
    _directory: TempDir,
}

impl Backing for Process {
    fn stop(&mut self) -> Result<(), StartError> {
        // The guest was told to end, and ends every tree first; a guest that does not is ended after a while.
        for _ in 0..200 {
            if self.child.try_wait().map_err(StartError::Helper)?.is_some() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.child.kill().map_err(StartError::Helper)?;
        self.child.wait().map(|_| ()).map_err(StartError::Helper)
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// Starts a local sandbox: commands run as the caller, in a fresh directory, with nothing of the caller's environment.
pub async fn start_local() -> Result<Sandbox, StartError> {
    fn straight(program: &Path) -> Command {
        Command::new(program)
    }
    start_local_by(straight).await
}

/// The same by a command that ends as the program whose path it is given, having gone elsewhere first.
pub async fn start_local_by(command: impl FnOnce(&Path) -> Command) -> Result<Sandbox, StartError> {
    let (child, directory, ours) = launch(command).map_err(StartError::Helper)?;
    let program = directory.path().join(PROGRAM);
    let path = directory.path().canonicalize().unwrap_or_else(|_| directory.path().to_owned());
    let mut process = Process { child, path, _directory: directory };
    match Session::open(ours).await {
        Ok(session) => {
            // It runs; nobody needs to find it.
            std::fs::remove_file(program).map_err(StartError::Helper)?;
            Ok(Sandbox::new(session, Box::new(process)))
        }
        Err(error) => {
            let _ = process.child.kill();
            let _ = process.child.wait();
            Err(error.into())
        }
    }
}

/// The guest's file, as long as it is there.
const PROGRAM: &str = ".guest";

fn launch(by: impl FnOnce(&Path) -> Command) -> io::Result<(Child, TempDir, UnixStream)> {
    let directory = tempfile::Builder::new().prefix("ringfence-").tempdir()?;
    let program = directory.path().join(PROGRAM);
    let mut file = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o700);
    file.write(true).create_new(true).open(&program)?.write_all(GUEST)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let child = jail::zygote::spawn_at_3(bare(by(&program), &directory), &theirs)?;
    drop(theirs);
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok((child, directory, UnixStream::from_std(ours)?))
}

fn bare(mut command: Command, directory: &TempDir) -> Command {
    command.env_clear().current_dir(directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
