//! The peers, as their users run them: /bin/true in a fresh container, with all namespaces and no network.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A way to run /bin/true.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    program: &'static str,
    arguments: Vec<String>,
    /// Whether the last argument is a name that must be new every time.
    named: bool,
    _bundle: Option<TempDir>,
}

impl Peer {
    /// Runs it once, to its end.
    pub(crate) fn run(&self, round: u32) -> Result<(), Box<dyn Error>> {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if self.named {
            command.arg(format!("ringfence-bench-{}-{round}", std::process::id()));
        }
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}", output.status, said.lines().next().unwrap_or_default()).into())
    }
}

/// Every peer that is installed and works here, and why the others are not measured.
pub(crate) fn present() -> Result<(Vec<Peer>, Vec<String>), Box<dyn Error>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let spawn = Peer { name: "spawn", program: "/bin/true", arguments: Vec::new(), named: false, _bundle: None };
    let bwrap = Peer {
        name: "bwrap --unshare-all",
        program: "bwrap",
        arguments: words("--unshare-all --ro-bind / / --proc /proc --dev /dev /bin/true"),
        named: false,
        _bundle: None,
    };
    let mut candidates = vec![spawn, bwrap];
    for (name, program, options) in [("crun run", "crun", "run"), ("runc run", "runc", "run")] {
        let bundle = bundle()?;
        let mut arguments = words(options);
        arguments.extend(["--bundle".to_owned(), bundle.path().display().to_string()]);
        candidates.push(Peer { name, program, arguments, named: true, _bundle: Some(bundle) });
    }
    let (mut peers, mut absent) = (Vec::new(), Vec::new());
    for peer in candidates {
        match peer.run(u32::MAX) {
            Ok(()) => peers.push(peer),
            Err(error) => absent.push(format!("{}: {error}", peer.name)),
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
