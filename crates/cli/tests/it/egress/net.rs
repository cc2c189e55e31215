//! A testnet for each running test, kept for the next one: what reaches a server is then the running test's.

use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use testnet::{Seen, Testnet};

/// What every test works with.
pub(crate) struct Net {
    pub(crate) testnet: Testnet,
    pub(crate) directory: tempfile::TempDir,
    user: Option<u32>,
    /// The daemon and the image of containers, where sandboxes are Docker's.
    docker: Option<(String, String)>,
    /// A Compose file of three services of that image, where the probes are to run in one of these.
    compose: Option<PathBuf>,
    capture: String,
    /// Whether every probe is tried without any network first.
    also_without: bool,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) records: Vec<Value>,
}

/// Testnets that no test holds.
static IDLE: Mutex<Vec<Net>> = Mutex::new(Vec::new());

/// Held by tests at the same time, or by one test alone.
static TURN: RwLock<()> = RwLock::new(());

/// The tests that may run meanwhile.
enum Turn {
    #[expect(dead_code, reason = "held, not read")]
    Among(RwLockReadGuard<'static, ()>),
    #[expect(dead_code, reason = "held, not read")]
    Alone(RwLockWriteGuard<'static, ()>),
}

/// A testnet that one test holds. Dropping it leaves the testnet to the next test.
pub(crate) struct HeldNet(Option<Net>, #[expect(dead_code, reason = "held, not read")] Turn);

impl Deref for HeldNet {
    type Target = Net;

    fn deref(&self) -> &Net {
        self.0.as_ref().unwrap()
    }
}

impl Drop for HeldNet {
    fn drop(&mut self) {
        // A failed test may have left its testnet unusable.
        if !std::thread::panicking() {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.0.take());
        }
    }
}

/// A testnet that was not used by a test that still runs, and has forgotten what earlier ones did.
pub(crate) fn net() -> HeldNet {
    held(Turn::Among(TURN.read().unwrap_or_else(PoisonError::into_inner)))
}

/// The same for a test that takes all of the machine: no other test of this program runs meanwhile.
pub(crate) fn net_alone() -> HeldNet {
    held(Turn::Alone(TURN.write().unwrap_or_else(PoisonError::into_inner)))
}

fn held(turn: Turn) -> HeldNet {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let net = idle.unwrap_or_else(Net::start);
    net.testnet.forget().unwrap();
    HeldNet(Some(net), turn)
}

/// The program, where another user can run it too.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let copy = || {
        let directory = directory();
        let program = directory.path().join("ringfence");
        std::fs::copy(env!("CARGO_BIN_EXE_ringfence"), &program).unwrap();
        (directory, program)
    };
    &PROGRAM.get_or_init(copy).1
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("ringfence-egress-").tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    directory
}

/// A connection by hand: prints what comes back, within three seconds.
const TCP: &str = r#"
use IO::Socket::IP; use IO::Select;
my ($target, $port, $hex) = @ARGV;
my $s = IO::Socket::IP->new(PeerHost => $target, PeerPort => $port, Timeout => 3) or do { print "no connection: $@$!\n"; exit 0 };
$s->autoflush(1); $SIG{PIPE} = 'IGNORE';
print $s pack('H*', $hex);
my $end = time + 2; my $all = '';
while (time < $end && IO::Select->new($s)->can_read($end - time)) { my $n = sysread $s, my $part, 4096; last unless $n; $all .= $part }
print $all;
"#;
/// A datagram by hand: prints what comes back, within a second.
const UDP: &str = r#"
use IO::Socket::IP; use IO::Select;
my ($target, $port, $hex) = @ARGV;
my $s = IO::Socket::IP->new(PeerHost => $target, PeerPort => $port, Proto => 'udp') or do { print "no socket: $@$!\n"; exit 0 };
send($s, pack('H*', $hex), 0) // print "not sent: $!\n";
if (IO::Select->new($s)->can_read(1)) { recv($s, my $part, 4096, 0); print unpack 'H*', $part }
"#;

/// The probes' own service, one that it may reach, and one that listens to nobody.
const SERVICES: &str = r#"
services:
  agent:
    image: IMAGE
    x-default: true
    init: true
    command: sleep infinity
  web:
    image: IMAGE
    command: ["perl", "-MIO::Socket::INET", "-e", "my $$l = IO::Socket::INET->new(LocalPort => 8080, Listen => 9) or die; while (my $$c = $$l->accept) { print $$c 'hello' }"]
    expose: [8080]
  db:
    image: IMAGE
    command: sleep infinity
"#;

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// A probe over TCP.
pub(crate) fn tcp(target: &str, port: u16, bytes: &[u8]) -> Vec<String> {
    ["perl", "-e", TCP, target, &port.to_string(), &hex(bytes)].map(str::to_owned).into()
}

/// A probe over UDP; prints the answer as hexadecimal digits.
pub(crate) fn udp(target: &str, port: u16, bytes: &[u8]) -> Vec<String> {
    ["perl", "-e", UDP, target, &port.to_string(), &hex(bytes)].map(str::to_owned).into()
}

pub(crate) fn sh(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).into()
}

impl Net {
    fn start() -> Self {
        let directory = directory();
        let www = directory.path().join("www");
        std::fs::create_dir(&www).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_ringfence")).with_file_name("testnet");
        assert!(program.exists(), "build it first: cargo build --profile ci -p testnet");
        let testnet = Testnet::start(&program, &www).unwrap();
        let user = std::env::var("RINGFENCE_AS").ok().map(|uid| uid.parse().unwrap());
        let docker = std::env::var("RINGFENCE_PROVIDER").is_ok_and(|provider| provider == "docker");
        let docker = docker.then(|| ["DOCKER_HOST", "RINGFENCE_IMAGE"].map(|name| std::env::var(name).unwrap()).into());
        let capture = std::env::var("RINGFENCE_CAPTURE").unwrap_or_else(|_| "passed".into());
        let compose = match (&docker, std::env::var_os("RINGFENCE_SERVICES")) {
            (Some((_, image)), Some(_)) => {
                let path = directory.path().join("compose.yaml");
                write(&path, &SERVICES.replace("IMAGE", image));
                Some(path)
            }
            _ => None,
        };
        let also_without = std::env::var_os("RINGFENCE_ALSO_N2").is_some();
        Self { testnet, directory, user, docker, compose, capture, also_without }
    }

    /// Who runs the command.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    pub(crate) fn www(&self) -> PathBuf {
        self.directory.path().join("www")
    }

    /// Runs a probe in the runner's own namespace, as root: without any control.
    pub(crate) fn direct(&self, probe: &[String]) -> String {
        let output = self.testnet.command(&probe[0]).args(&probe[1..]).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `ringfence run` in the runner's namespace; the log is a new file for the user who runs it.
    pub(crate) fn ringfence(&self, log: &Path, arguments: &[&str], command: &[String]) -> Command {
        let mut ringfence = match self.user {
            None => self.testnet.command(program()),
            Some(uid) => self.testnet.command_as(uid, program()),
        };
        let upstream = self.testnet.dns();
        ringfence.current_dir("/").env_clear().env("PATH", std::env::var("PATH").unwrap());
        ringfence.args(["run", "--timeout", "60", "--capture", &self.capture, "--dns-upstream", upstream]);
        ringfence.arg("--network-log").arg(log);
        if let Some((daemon, image)) = &self.docker {
            ringfence.env("DOCKER_HOST", daemon).args(["--provider", "docker", "--pull", "never"]);
            match &self.compose {
                Some(path) => ringfence.arg("--compose").arg(path),
                None => ringfence.args(["--image", image]),
            };
        }
        ringfence.args(arguments).arg("--").args(command).stdin(Stdio::null());
        ringfence
    }

    /// `ringfence eval` in the runner's namespace.
    pub(crate) fn eval(&self, task: &Path, logs: &Path) -> Command {
        let mut ringfence = match self.user {
            None => self.testnet.command(program()),
            Some(uid) => self.testnet.command_as(uid, program()),
        };
        ringfence.current_dir("/").env_clear().env("PATH", std::env::var("PATH").unwrap());
        ringfence.args(["--json", "eval", "--dns-upstream", self.testnet.dns()]).arg(task).arg("--log-dir").arg(logs);
        ringfence.stdin(Stdio::null());
        ringfence
    }

    /// A directory that whoever runs the command may write to.
    pub(crate) fn scratch(&self) -> tempfile::TempDir {
        let scratch = tempfile::Builder::new().tempdir_in(self.directory.path()).unwrap();
        if let Some(uid) = self.user {
            std::os::unix::fs::chown(scratch.path(), Some(uid), Some(uid)).unwrap();
        }
        scratch
    }

    /// Runs a probe in a sandbox.
    pub(crate) fn run(&self, arguments: &[&str], probe: &[String]) -> Ended {
        let scratch = self.scratch();
        let log = scratch.path().join("network.jsonl");
        let output = self.ringfence(&log, arguments, probe).output().unwrap();
        Ended {
            code: output.status.code().unwrap(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            records: records(&log),
        }
    }

    /// The same at N1 with these rules; the run itself must work. If asked for, at N2 first: nothing at all arrives then,
    /// whatever the probe is.
    pub(crate) fn inside(&self, allow: &[&str], probe: &[String]) -> Ended {
        if self.also_without {
            let before = self.seen();
            let ended = self.run(&["--profile", "T0.H1.N2"], probe);
            assert!(!matches!(ended.code, 2..=5), "{ended:?}");
            assert_eq!(self.seen(), before, "something arrived at N2: {ended:#?}");
        }
        let mut arguments = vec!["--profile", "T0.H1.N1"];
        for rule in allow {
            arguments.extend(["--allow", rule]);
        }
        let ended = self.run(&arguments, probe);
        assert!(!matches!(ended.code, 2..=5), "{ended:?}");
        ended
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.testnet.seen().unwrap()
    }

    /// What reached any server but by the gateway's own questions for names.
    pub(crate) fn arrived(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.server != "dns").collect()
    }

    /// Shows that a probe reaches this address and port without the control.
    pub(crate) fn reaches(&self, probe: &[String], address: &str, port: u16) {
        let said = self.direct(probe);
        let seen = self.seen();
        let reached = seen.iter().any(|seen| seen.address.to_string() == address && seen.port == port);
        assert!(reached, "the probe does not work without the control: {said} {seen:?}");
        self.testnet.forget().unwrap();
    }

    /// Starts a command inside and goes on.
    pub(crate) fn background(&self, log: &Path, arguments: &[&str], probe: &[String]) -> Running {
        let mut command = self.ringfence(log, arguments, probe);
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

/// A command that a failing test does not leave behind.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Waits for a line of output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        let mut byte = [0];
        while std::io::Read::read(out, &mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(char::from(byte[0]));
        }
        line
    }

    /// Waits for its end; what it wrote to its standard error.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut text = String::new();
        std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut text).unwrap();
        (self.0.wait().unwrap().code().unwrap(), text)
    }

    /// The number of a child of that name.
    pub(crate) fn child(&self, name: &str) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            // nsenter and setpriv become the command, so its number is this one's.
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().flatten();
            let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
            let children: Vec<String> =
                children.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
            let named = children.iter().find(|pid| {
                std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(name.as_bytes()))
            });
            if let Some(pid) = named {
                return pid.parse().unwrap();
            }
            assert!(Instant::now() < deadline, "no {name} among {children:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn records(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Ended {
    /// Asserts that a record says so.
    pub(crate) fn recorded(&self, reason: &str) -> &Value {
        let found = self.records.iter().find(|record| record["reason"] == reason);
        found.unwrap_or_else(|| panic!("no record of {reason}: {self:#?}"))
    }

    pub(crate) fn count(&self, reason: &str) -> u64 {
        self.records
            .iter()
            .filter(|record| record["reason"] == reason)
            .map(|record| record["count"].as_u64().unwrap())
            .sum()
    }
}

/// A probe over TCP that is refused for this reason. Without the control it reaches `direct`; inside it asks for `target`.
pub(crate) fn refused(allow: &[&str], (target, direct): (&str, &str), port: u16, bytes: &[u8], reason: &str) -> Ended {
    let net = net();
    net.reaches(&tcp(direct, port, bytes), direct, port);
    let ended = net.inside(allow, &tcp(target, port, bytes));
    assert_eq!(net.seen(), [], "something arrived: {ended:#?}");
    ended.recorded(reason);
    ended
}

/// Flushed at once, for scripts that are followed.
pub(crate) fn write(path: &Path, text: &str) {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, open).unwrap();
}
