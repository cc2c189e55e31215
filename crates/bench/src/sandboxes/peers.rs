//! The peers, as their users run them: /bin/true in a fresh container, with all namespaces and no network.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::docker;

/// Names of rows.
pub(crate) const SPAWN: &str = "spawn";
pub(crate) const BWRAP: &str = "bwrap --unshare-all";
pub(crate) const CRUN: &str = "crun run";
pub(crate) const RUNC: &str = "runc run";
pub(crate) const DOCKER: &str = "docker run";

/// How long a peer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Fast,
    /// Too long for every round.
    Slow,
}

/// A way to run /bin/true.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) pace: Pace,
    program: &'static str,
    arguments: Vec<String>,
    /// Numbers for names, where the last argument must be a new one every time.
    names: Option<AtomicU32>,
    _bundle: Option<TempDir>,
}

impl Peer {
    fn new(name: &'static str, program: &'static str, arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self { name, pace: Pace::Fast, program, arguments, names: None, _bundle: None }
    }

    /// Runs it once, to its end.
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(names) = &self.names {
            let number = names.fetch_add(1, Ordering::Relaxed);
            // Not like a sandbox of ours: both name control groups by it, and would clean up each other's.
            command.arg(format!("peer-{}-{}-{number}", self.program, std::process::id()));
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}: {}", self.name, output.status, said.lines().next().unwrap_or_default()))
    }
}

/// Every peer that is installed and works here, and why the others are not measured.
pub(crate) fn present() -> Result<(Vec<Peer>, Vec<String>), Box<dyn Error>> {
    let bwrap = "--unshare-all --ro-bind / / --proc /proc --dev /dev /bin/true";
    let mut candidates = vec![Peer::new(SPAWN, "/bin/true", ""), Peer::new(BWRAP, "bwrap", bwrap)];
    for (name, program) in [(CRUN, "crun"), (RUNC, "runc")] {
        let bundle = bundle()?;
        let mut peer = Peer::new(name, program, "run --bundle");
        peer.arguments.push(bundle.path().display().to_string());
        candidates.push(Peer { names: Some(AtomicU32::new(0)), _bundle: Some(bundle), ..peer });
    }
    let (mut peers, mut absent) = (Vec::new(), Vec::new());
    match docker::arguments() {
        Ok(arguments) => candidates.push(Peer { pace: Pace::Slow, ..Peer::new(DOCKER, "docker", arguments) }),
        Err(error) => absent.push(format!("{DOCKER}: {error}")),
    }
    for peer in candidates {
        match peer.run() {
            Ok(()) => peers.push(peer),
            Err(error) => absent.push(error),
        }
    }
    Ok((peers, absent))
}

/// An OCI bundle with the host's programs, bound read-only.
fn bundle() -> Result<TempDir, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let root = directory.path().join("rootfs");
    for name in ["usr", "proc", "dev"] {
        fs::create_dir_all(root.join(name))?;
    }
    let mut mounts = String::from(
        r#"{"destination":"/proc","type":"proc","source":"proc"},{"destination":"/dev","type":"tmpfs","source":"tmpfs"},
           {"destination":"/usr","type":"bind","source":"/usr","options":["bind","ro"]}"#,
    );
    for name in ["bin", "lib", "lib64"] {
        let host = Path::new("/").join(name);
        if let Ok(target) = fs::read_link(&host) {
            std::os::unix::fs::symlink(target, root.join(name))?;
        } else if host.is_dir() {
            fs::create_dir(root.join(name))?;
            mounts += &bind(name);
        }
    }
    // The same promises as ours: a user namespace with an id range of its own, and limits.
    let namespaces = r#"[{"type":"pid"},{"type":"network"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"cgroup"},{"type":"user"}]"#;
    let ids = r#"[{"containerID":0,"hostID":1879048192,"size":65536}]"#;
    let resources = r#"{"memory":{"limit":536870912},"pids":{"limit":256},"cpu":{"quota":200000,"period":100000}}"#;
    let config = format!(
        r#"{{"ociVersion":"1.0.2","root":{{"path":"rootfs"}},"hostname":"bench","mounts":[{mounts}],
            "process":{{"cwd":"/","args":["/bin/true"],"env":["PATH=/bin"],"noNewPrivileges":true,"user":{{"uid":0,"gid":0}}}},
            "linux":{{"namespaces":{namespaces},"uidMappings":{ids},"gidMappings":{ids},"resources":{resources}}}}}"#
    );
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    fs::write(directory.path().join("config.json"), config)?;
    Ok(directory)
}

fn bind(name: &str) -> String {
    format!(r#",{{"destination":"/{name}","type":"bind","source":"/{name}","options":["bind","ro"]}}"#)
}
