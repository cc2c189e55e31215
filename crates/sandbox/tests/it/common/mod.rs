//! What the tests of sandboxes share.
//!
//! By default sandboxes are the embedded engine's. With `RINGFENCE_PROVIDER=docker` they are containers of the daemon that
//! `DOCKER_HOST` names, of the image `RINGFENCE_IMAGE`; `RINGFENCE_USER` is whom its commands run as, `RINGFENCE_RUNTIME` what runs them. An image that has
//! one program and nothing else (`RINGFENCE_ONLY_PROGRAM` is its path) is asked for everything by that program's name.

#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part; a test may stop at its own set-up")]

use std::sync::atomic::{AtomicU32, Ordering};

use jail::cgroups::Limits;
use jail::zygote::{Image, Mount, Network};
use sandbox::{
    Completed, Containers, Exec, Kind as _, Outcome, Overflow, Request, Sandbox, SessionError, StartError, User,
};

pub(crate) const MIB: u64 = 1 << 20;

/// Whether the tests run as the host's root: only then are there control groups and more than one id inside.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn request() -> Request {
    let limits = is_root().then_some(Limits { memory: 256 * MIB, pids: 128, cpu_millis: 2000 });
    Request {
        image: Image::Host,
        begin_with: None,
        system: sandbox::System::AsLeft,
        limits,
        disk: 64 * MIB,
        mounts: Vec::new(),
        allow_setuid: false,
        network: Network::Loopback,
    }
}

/// The name of a run of its own.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn engine() -> Containers {
    Containers::start(unique()).unwrap()
}

/// Whether sandboxes are containers of a Docker daemon.
pub(crate) fn is_docker() -> bool {
    std::env::var("RINGFENCE_PROVIDER").is_ok_and(|provider| provider == "docker")
}

pub(crate) async fn create() -> Sandbox {
    create_as(request()).await.unwrap()
}

/// A sandbox of whichever engine is tested. Docker has the image that the lane made, and no bound of what is written.
pub(crate) async fn create_as(request: Request) -> Result<Sandbox, StartError> {
    if !is_docker() {
        return engine().create(request).await;
    }
    let endpoint = docker::Endpoint::find(&docker::Surroundings::of_this_process()).unwrap();
    let engine = docker::Engine::connect(endpoint.clone(), docker::Patience::default()).await.unwrap();
    let name = std::env::var("RINGFENCE_IMAGE").unwrap();
    let image = engine.image(&name, docker::Pull::Never, &mut |_| ()).await.unwrap();
    let Request { limits, mounts, network, .. } = request;
    let runtime = std::env::var("RINGFENCE_RUNTIME").ok();
    let request = docker::Request { limits, mounts, network, runtime, ..docker::Request::of(image.id) };
    let patience = docker::Patience::default();
    let kind = docker::Docker { endpoint, patience, request, copies_programs: false };
    Ok(kind.start(&unique()).await?.make(sandbox::Variant::default()).await?.0)
}

pub(crate) async fn create_with_mount(source: &std::path::Path, target: &str, writable: bool) -> Sandbox {
    let mount = Mount { source: source.to_str().unwrap().into(), target: target.into(), writable };
    create_as(Request { mounts: vec![mount], ..request() }).await.unwrap()
}

pub(crate) fn command(argv: &[&str]) -> Exec {
    Exec {
        argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        user: std::env::var("RINGFENCE_USER").map_or(User::Default, User::Named),
        pty: None,
        timeout_ms: Some(20_000),
        max_output: None,
    }
}

/// The one program of an image that has no other.
pub(crate) fn only_program() -> Option<String> {
    std::env::var("RINGFENCE_ONLY_PROGRAM").ok()
}

/// A command of the image's own, by its usual name: what tests use as the workload, not what they test.
pub(crate) fn usual(argv: &[&str]) -> Exec {
    let mut exec = command(argv);
    exec.argv.splice(..0, only_program());
    exec
}

pub(crate) async fn exec(sandbox: &Sandbox, exec: Exec) -> Result<Completed, SessionError> {
    sandbox.exec(exec, b"", 10 << 20, Overflow::KeepTail).await
}

/// Runs a shell script and returns its output, trimmed; the script must succeed.
pub(crate) async fn sh(sandbox: &Sandbox, script: &str) -> String {
    let completed = exec(sandbox, usual(&["sh", "-c", script])).await.unwrap();
    let text = String::from_utf8_lossy(&completed.stdout).trim().to_owned();
    assert_eq!(
        completed.outcome,
        Outcome::Exited(0),
        "{script}: {text} {}",
        String::from_utf8_lossy(&completed.stderr)
    );
    text
}

/// Who attacks: root inside, and a plain user where there is one.
pub(crate) fn attackers() -> Vec<User> {
    let plain = is_root().then(|| User::Named("agent".into()));
    [User::Default].into_iter().chain(plain).collect()
}

/// Runs a Perl program (every Debian has it) as each attacker; returns what it printed, all the same.
pub(crate) async fn perl(sandbox: &Sandbox, program: &str) -> String {
    let mut printed: Option<String> = None;
    for user in attackers() {
        let completed = exec(sandbox, Exec { user: user.clone(), ..command(&["perl", "-e", program]) }).await.unwrap();
        let text = String::from_utf8_lossy(&completed.stdout).trim().to_owned();
        assert_eq!(completed.outcome, Outcome::Exited(0), "{program}: {}", String::from_utf8_lossy(&completed.stderr));
        assert_eq!(printed.get_or_insert_with(|| text.clone()), &text, "as {user:?}");
    }
    printed.unwrap()
}

/// The error number of a system call with these arguments (as Perl), or 0 if it succeeded.
pub(crate) async fn errno(sandbox: &Sandbox, number: i64, arguments: &str) -> i32 {
    // Perl lets the kernel write into what it passes, so literals must be copied first.
    let program = format!("my @a = ({arguments}); my $r = syscall({number}, @a); print(($r == -1) ? $!+0 : 0)");
    perl(sandbox, &program).await.parse().unwrap()
}
