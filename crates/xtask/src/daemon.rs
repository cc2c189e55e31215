//! A daemon of a run's own for Docker's clients: started when a step first needs it, shared by all lanes, ended with the run.
//!
//! Everything of it lies in one directory in /var/tmp (images are large, and /tmp may be memory). A daemon that the machine
//! already has is neither used nor touched. `Drop` ends it, so an error, a signal or a panic leaves nothing behind.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;

use crate::daemon_tls;
use crate::lanes::{Engine, Image};
use crate::process;
use crate::setup::SetupError;
use crate::signals;

/// How long a daemon may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(200);
/// Runs Podman's containers without limits that not every machine permits.
const RUNC: &str = include_str!("../data/runc.pl");

#[derive(Debug)]
pub(crate) struct Daemon {
    place: PathBuf,
    pub(crate) engine: Engine,
    port: u16,
    /// The process that we started; a test may have replaced it by another.
    child: Child,
    /// What has been imported.
    pub(crate) images: BTreeSet<Image>,
}

impl Daemon {
    /// Starts one and waits until it answers. `runsc` is gVisor's program.
    pub(crate) fn start(engine: Engine, runsc: Option<&Path>) -> Result<Self, SetupError> {
        let directory = tempfile::Builder::new().prefix("ringfence-docker.").tempdir_in("/var/tmp")?.keep();
        // Also a failure to start leaves no directory behind.
        let started = Self::start_in(&directory, engine, runsc);
        if started.is_err() {
            remove(&directory);
        }
        started
    }

    fn start_in(place: &Path, engine: Engine, runsc: Option<&Path>) -> Result<Self, SetupError> {
        std::fs::create_dir(place.join("tmp"))?;
        std::fs::create_dir_all(place.join("tls/client"))?;
        let port = if engine == Engine::Podman { 0 } else { daemon_tls::write(&place.join("tls"))? };
        let drivers: &[&str] = if engine == Engine::Podman { &["podman"] } else { &["overlay2", "vfs"] };
        let mut reason = String::new();
        for driver in drivers {
            let command = match engine {
                Engine::Podman => podman(place)?,
                Engine::Docker | Engine::Gvisor => dockerd(place, driver, port, runsc),
            };
            std::fs::write(place.join("command.json"), serde_json::to_string(&command).unwrap_or_default())?;
            let mut child = launch(place, &command)?;
            match answers(place, &mut || matches!(child.try_wait(), Ok(None))) {
                Ok(()) => {
                    let place = place.to_owned();
                    return Ok(Self { place, engine, port, child, images: BTreeSet::new() });
                }
                Err(error) => {
                    end(place, &mut child);
                    if matches!(error, SetupError::Interrupted) {
                        return Err(error);
                    }
                    reason = error.to_string();
                }
            }
        }
        Err(SetupError::Missing(reason))
    }

    /// What its clients need to know.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let place = self.place.display();
        [
            ("TMPDIR", format!("{place}/tmp")),
            ("DOCKER_HOST", socket(&self.place)),
            ("DOCKER_CONFIG", format!("{place}/config")),
            ("RINGFENCE_DOCKER_TCP", format!("127.0.0.1:{}", self.port)),
            ("RINGFENCE_DOCKER_TLS", format!("{place}/tls/client")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// A shell command that ends it and starts it again.
    pub(crate) fn restart_command(&self, xtask: &Path) -> String {
        let words = [xtask.to_string_lossy(), "docker-restart".into(), self.place.to_string_lossy()];
        words.map(|word| process::quoted(&word)).join(" ")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&self.place, &mut self.child);
        remove(&self.place);
    }
}

/// Ends the daemon in a directory and starts it again with the same command: for tests, by `xtask docker-restart`.
pub(crate) fn restart(place: &Path) -> Result<(), SetupError> {
    let pid = pid_of(place).ok_or_else(|| SetupError::Failed(format!("no daemon in {}", place.display())))?;
    let command: Vec<String> = std::fs::read(place.join("command.json"))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .ok_or_else(|| SetupError::Failed("it was not started by xtask".into()))?;
    process::end_pid(pid, PATIENCE);
    let mut child = launch(place, &command)?;
    answers(place, &mut || matches!(child.try_wait(), Ok(None)))
}

fn socket(place: &Path) -> String {
    format!("unix://{}/socket", place.display())
}

/// Starts it in a process group of its own, and without our environment's words about other daemons.
fn launch(place: &Path, command: &[String]) -> Result<Child, SetupError> {
    let [program, arguments @ ..] = command else { return Err(SetupError::Failed("no command".into())) };
    let log = process::append(&place.join("log"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place).process_group(0);
    command.env_remove("DOCKER_HOST").env_remove("TMPDIR").env("CONTAINERS_CONF", place.join("containers.conf"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().map_err(|error| SetupError::Missing(format!("{program} does not start: {error}")))
}

/// On a socket, and as daemons elsewhere are, by TLS. It makes no network and no rules.
fn dockerd(place: &Path, driver: &str, port: u16, runsc: Option<&Path>) -> Vec<String> {
    let at = |name: &str| place.join(name).to_string_lossy().into_owned();
    let mut words = vec!["dockerd".into(), "--data-root".into(), at("data"), "--exec-root".into(), at("exec")];
    words.extend(["--pidfile".into(), at("pid"), "-H".into(), socket(place), "--storage-driver".into(), driver.into()]);
    words.extend(["--bridge=none", "--iptables=false", "--ip6tables=false", "--tlsverify"].map(str::to_owned));
    words.extend(["-H".into(), format!("tcp://127.0.0.1:{port}"), "--tlscacert".into(), at("tls/ca.pem")]);
    words.extend(["--tlscert".into(), at("tls/server.pem"), "--tlskey".into(), at("tls/server-key.pem")]);
    if let Some(runsc) = runsc {
        words.extend(["--add-runtime".into(), format!("runsc={}", runsc.display())]);
    }
    words
}

/// Podman's service in a directory of its own, without systemd.
fn podman(place: &Path) -> Result<Vec<String>, SetupError> {
    let at = |name: &str| place.join(name).to_string_lossy().into_owned();
    std::fs::write(place.join("runc"), RUNC)?;
    std::fs::set_permissions(place.join("runc"), Permissions::from_mode(0o755))?;
    let configuration = format!(
        "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"own\"\n[engine.runtimes]\nown = [\"{}\"]\n",
        at("runc")
    );
    std::fs::write(place.join("containers.conf"), configuration)?;
    let mut words = vec!["podman".into(), "--root".into(), at("data"), "--runroot".into(), at("exec")];
    words.extend(["--tmpdir".into(), at("libpod")]);
    words.extend(["system", "service", "--time=0"].map(str::to_owned));
    words.push(socket(place));
    Ok(words)
}

/// Waits until it answers.
fn answers(place: &Path, is_running: &mut dyn FnMut() -> bool) -> Result<(), SetupError> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && is_running() {
        if signals::received().is_some() {
            return Err(SetupError::Interrupted);
        }
        let mut version = Command::new("docker");
        version
            .args(["-H", &socket(place), "version"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if version.status().is_ok_and(|status| status.success()) {
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
    let log = std::fs::read_to_string(place.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(5)..].join("\n");
    Err(SetupError::Failed(format!("the daemon does not answer:\n{end}")))
}

fn pid_of(place: &Path) -> Option<u32> {
    std::fs::read_to_string(place.join("pid")).ok()?.trim().parse().ok()
}

/// Ends the daemon of a directory, which need not be the child that we started. Asked first, it ends what it started itself.
fn end(place: &Path, child: &mut Child) {
    if let Some(pid) = pid_of(place).filter(|pid| *pid != child.id()) {
        process::end_pid(pid, PATIENCE);
    }
    if matches!(child.try_wait(), Ok(None)) {
        process::end_pid(child.id(), PATIENCE);
    }
    // It has ended, or was killed: this only collects it.
    let _ = child.wait();
}

/// Removes its directory; what a runtime left mounted there is unmounted first.
fn remove(place: &Path) {
    let inside = format!("{}/", place.display());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut points: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    points.retain(|point| point.starts_with(&inside));
    points.sort_unstable();
    for point in points.iter().rev() {
        let _ = rustix::mount::unmount(*point, UnmountFlags::empty());
    }
    // Never across a mount that could not be undone.
    let _ = Command::new("rm").args(["-rf", "--one-file-system"]).arg(place).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_of_a_daemon_is_in_its_directory() {
        let words = dockerd(Path::new("/p"), "vfs", 42, Some(Path::new("/runsc")));
        for pair in [
            ["--data-root", "/p/data"],
            ["--exec-root", "/p/exec"],
            ["--pidfile", "/p/pid"],
            ["-H", "unix:///p/socket"],
        ] {
            assert!(words.windows(2).any(|two| two == pair), "{pair:?}");
        }
        assert_eq!(words.last().unwrap(), "runsc=/runsc");
        assert!(words.contains(&"--bridge=none".to_owned()) && words.contains(&"--iptables=false".to_owned()));
    }

    #[test]
    fn a_directory_without_a_daemon_is_not_restarted() {
        let place = tempfile::tempdir().unwrap();
        assert!(matches!(restart(place.path()), Err(SetupError::Failed(_))));
    }
}
