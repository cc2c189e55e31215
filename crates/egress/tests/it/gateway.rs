//! One gateway process and many sandboxes: live changes, questions, limits, losses. Each test runs itself again in the
//! runner's namespace of a testnet, which root makes; there as root, or as the plain user whose id is in `RINGFENCE_AS`.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::{Asked, Attachment, Decider, GatewayProcess, Limits, Notice, Protocol, Reason, Record, Settings};
use jail::zygote::{Image, Network};
use profile::{Egress, NetworkRules};
use sandbox::{Containers, Event, Exec, Overflow, Request, Sandbox, Stream, User};
use testnet::Testnet;
use tokio::sync::mpsc::UnboundedReceiver;

const INSIDE: &str = "EGRESS_TEST_INSIDE";

/// The gateway's program, where the user who runs this test may execute it.
const GATEWAY: &str = "RINGFENCE_GATEWAY";

/// Copies this program and the gateway's to a directory that every user may read.
fn readable_copies() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("egress-gateway-").tempdir().unwrap();
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open()).unwrap();
    let test = std::env::current_exe().unwrap();
    for (name, program) in [("test", test.as_path()), ("gateway", Path::new(env!("CARGO_BIN_EXE_gateway")))] {
        std::fs::copy(program, directory.path().join(name)).unwrap();
        std::fs::set_permissions(directory.path().join(name), open()).unwrap();
    }
    directory
}

/// Runs `body` in a testnet: this test, again, in the runner's namespace; as the user id `RINGFENCE_AS`, if it is set.
fn in_testnet<F: Future<Output = ()>>(name: &str, body: impl FnOnce() -> F) {
    if std::env::var_os(INSIDE).is_some() {
        tokio::runtime::Runtime::new().unwrap().block_on(body());
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_gateway")).with_file_name("testnet");
    assert!(program.exists(), "build it first: cargo build --profile ci -p testnet");
    let testnet = Testnet::start(&program, Path::new("")).unwrap();
    let copies = readable_copies();
    let test = copies.path().join("test");
    let mut again = match std::env::var("RINGFENCE_AS") {
        Ok(uid) => testnet.command_as(uid.parse().unwrap(), &test),
        Err(_) => testnet.command(&test),
    };
    again.env(GATEWAY, copies.path().join("gateway")).env("HOME", "/").current_dir("/");
    let output = again.args(["--exact", &format!("gateway::{name}"), "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn listed(rules: &[&str]) -> Egress {
    let allow = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Egress::Listed { rules: NetworkRules { allow, ..NetworkRules::default() } }
}

/// How everything is captured: by listeners that are passed, or relayed by the guest.
fn network() -> Network {
    match std::env::var("RINGFENCE_CAPTURE").as_deref() {
        Ok("relayed") => Network::Relayed,
        _ => Network::Captured,
    }
}

struct World {
    engine: Containers,
    gateway: GatewayProcess,
    notices: UnboundedReceiver<Notice>,
}

impl World {
    async fn new(limits: Limits, decider: Option<Arc<dyn Decider>>) -> Self {
        let settings = Settings { upstream: Some("93.184.215.53:53".parse().unwrap()), limits };
        let program = std::env::var_os(GATEWAY).unwrap();
        let (gateway, notices) = GatewayProcess::start_program(Path::new(&program), settings, decider).await.unwrap();
        let engine = Containers::start(format!("egress-{}", std::process::id())).unwrap();
        Self { engine, gateway, notices }
    }

    async fn sandbox(&self, name: &str, egress: &Egress) -> (Sandbox, Attachment) {
        let request = Request {
            image: Image::Host,
            begin_with: None,
            system: sandbox::System::AsLeft,
            limits: None,
            disk: 64 << 20,
            mounts: Vec::new(),
            allow_setuid: false,
            network: network(),
        };
        let (sandbox, capture) = self.engine.create_captured(request).await.unwrap();
        (sandbox, self.gateway.attach(name, egress, capture).await.unwrap())
    }

    /// The next record that fits, within ten seconds.
    async fn record(&mut self, fits: impl Fn(&Record) -> bool) -> Record {
        let search = async {
            loop {
                match self.notices.recv().await.unwrap() {
                    Notice::Record(record) if fits(&record) => return record,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), search).await.unwrap()
    }
}

fn command(script: &str) -> Exec {
    Exec {
        argv: ["sh", "-c", script].map(str::to_owned).into(),
        env: Vec::new(),
        cwd: None,
        user: User::Default,
        pty: None,
        timeout_ms: Some(30_000),
        max_output: None,
    }
}

async fn output(sandbox: &Sandbox, script: &str) -> String {
    let completed = sandbox.exec(command(script), b"", 1 << 20, Overflow::KeepTail).await.unwrap();
    String::from_utf8_lossy(&completed.stdout).into_owned()
}

const FETCH: &str = "curl -sS -m 10 http://www.example.org/canary 2>&1";
const CANARY: &str = "canary www.example.org\n";

#[test]
fn rule_narrowed_live_cuts_connection() {
    in_testnet("rule_narrowed_live_cuts_connection", || async {
        let mut world = World::new(Limits::default(), None).await;
        let (sandbox, attachment) = world.sandbox("a", &listed(&["www.example.org", "api.example.org"])).await;
        // Answers a byte in a second, for thirty.
        let mut slow = sandbox.start(command("curl -sS -N http://www.example.org/slow; echo ended $?")).unwrap();
        let mut said = Vec::new();
        while said.is_empty() {
            if let Event::Output(Stream::Out, bytes) = slow.next().await {
                said.extend(bytes);
            }
        }
        let start = Instant::now();
        world.gateway.replace(attachment, &listed(&["api.example.org"])).await.unwrap();
        let ended = loop {
            match slow.next().await {
                Event::Output(_, bytes) => said.extend(bytes),
                Event::Ended(_) => break start.elapsed(),
                _ => {}
            }
        };
        assert!(ended < Duration::from_secs(3), "cut at once, not when it is done: {ended:?}");
        assert!(!String::from_utf8_lossy(&said).contains("ended 0"), "{said:?}");
        let record = world.record(|record| record.reason == Some(Reason::RulesChanged)).await;
        assert_eq!(record.name.as_deref(), Some("www.example.org"));
        assert!(output(&sandbox, FETCH).await.contains("Could not resolve"), "new ones are refused");
        // And widened again, without a new sandbox.
        world.gateway.replace(attachment, &listed(&["www.example.org"])).await.unwrap();
        assert_eq!(output(&sandbox, FETCH).await, CANARY);
        sandbox.stop().await.unwrap();
    });
}

#[test]
fn an_address_that_is_denied_live_is_cut() {
    in_testnet("an_address_that_is_denied_live_is_cut", || async {
        let mut world = World::new(Limits::default(), None).await;
        let (sandbox, attachment) = world.sandbox("a", &listed(&["www.example.org"])).await;
        let mut slow = sandbox.start(command("curl -sS -N http://www.example.org/slow")).unwrap();
        while !matches!(slow.next().await, Event::Output(Stream::Out, _)) {}
        let allow = ["www.example.org".parse().unwrap()].into();
        // Both families: whichever was connected to.
        let deny_cidr = ["93.184.215.0/24".parse().unwrap(), "2606:2800::/32".parse().unwrap()].into();
        let narrowed = Egress::Listed { rules: NetworkRules { allow, deny_cidr, ..NetworkRules::default() } };
        world.gateway.replace(attachment, &narrowed).await.unwrap();
        let ended = async { while !matches!(slow.next().await, Event::Ended(_)) {} };
        tokio::time::timeout(Duration::from_secs(3), ended).await.unwrap();
        world.record(|record| record.reason == Some(Reason::RulesChanged)).await;
        assert!(!output(&sandbox, FETCH).await.contains("canary"));
        world.record(|record| record.reason == Some(Reason::AddressDenied)).await;
        sandbox.stop().await.unwrap();
    });
}

/// Answers as it is told, after a while.
struct Says(bool, Duration);

static ASKED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

impl Decider for Says {
    fn decide(&self, asked: Asked) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        assert_eq!(asked.sandbox, "a");
        ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Self(answer, after) = *self;
        Box::pin(async move {
            tokio::time::sleep(after).await;
            answer
        })
    }
}

#[test]
fn decider_timeout() {
    in_testnet("decider_timeout", || async {
        let limits = Limits { decide: Duration::from_secs(1), ..Limits::default() };
        let mut world = World::new(limits, Some(Arc::new(Says(true, Duration::from_mins(1))))).await;
        let (sandbox, _) = world.sandbox("a", &listed(&["api.example.org"])).await;
        let start = Instant::now();
        assert!(output(&sandbox, FETCH).await.contains("Could not resolve"));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        let record = world.record(|record| record.reason == Some(Reason::DeciderTimeout)).await;
        assert_eq!(record.name.as_deref(), Some("www.example.org"));
        sandbox.stop().await.unwrap();
    });
}

#[test]
fn a_decision_is_recorded_and_holds() {
    in_testnet("a_decision_is_recorded_and_holds", || async {
        let mut world = World::new(Limits::default(), Some(Arc::new(Says(true, Duration::ZERO)))).await;
        let (sandbox, first) = world.sandbox("a", &listed(&["api.example.org"])).await;
        assert_eq!(output(&sandbox, FETCH).await, CANARY);
        let record = world.record(|record| record.rule.as_deref() == Some("www.example.org (decided)")).await;
        assert_eq!(record.verdict, egress::Outcome::Allowed);
        assert_eq!(output(&sandbox, FETCH).await, CANARY);
        // Other rules do not undo it.
        world.gateway.replace(first, &listed(&["git.example.org"])).await.unwrap();
        assert_eq!(output(&sandbox, FETCH).await, CANARY);
        // Nobody is asked about what is denied, and at N2 about nothing.
        let allow = ["api.example.org".parse().unwrap()].into();
        let deny = ["www.example.org".parse().unwrap()].into();
        let denied = Egress::Listed { rules: NetworkRules { allow, deny, ..NetworkRules::default() } };
        for egress in [denied, Egress::Nothing] {
            let (sandbox, _) = world.sandbox("a", &egress).await;
            assert!(output(&sandbox, FETCH).await.contains("Could not resolve"));
            sandbox.stop().await.unwrap();
        }
        sandbox.stop().await.unwrap();
    });
}

/// Says yes, and never again.
struct Once(std::sync::atomic::AtomicBool);

impl Decider for Once {
    fn decide(&self, _: Asked) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let first = !self.0.swap(true, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move { first })
    }
}

#[test]
fn what_was_decided_in_a_phase_ends_with_it() {
    in_testnet("what_was_decided_in_a_phase_ends_with_it", || async {
        let mut world = World::new(Limits::default(), Some(Arc::new(Once(false.into())))).await;
        let (sandbox, attachment) = world.sandbox("a", &listed(&["api.example.org"])).await;
        assert_eq!(output(&sandbox, FETCH).await, CANARY);
        world.gateway.advance(attachment, &listed(&["api.example.org"])).await.unwrap();
        assert!(output(&sandbox, FETCH).await.contains("Could not resolve"));
        let record = world.record(|record| record.reason == Some(Reason::DecidedNo)).await;
        assert_eq!(record.verdict, egress::Outcome::Refused);
        sandbox.stop().await.unwrap();
    });
}

#[test]
fn a_refused_decision_is_recorded() {
    in_testnet("a_refused_decision_is_recorded", || async {
        let mut world = World::new(Limits::default(), Some(Arc::new(Says(false, Duration::ZERO)))).await;
        let (sandbox, _) = world.sandbox("a", &listed(&["api.example.org"])).await;
        assert!(output(&sandbox, FETCH).await.contains("Could not resolve"));
        world.record(|record| record.reason == Some(Reason::DecidedNo)).await;
        for _ in 0..5 {
            output(&sandbox, FETCH).await;
        }
        assert_eq!(ASKED.load(std::sync::atomic::Ordering::Relaxed), 1, "nobody is asked until they say yes");
        sandbox.stop().await.unwrap();
    });
}

#[test]
fn one_gateway_serves_many_and_keeps_them_apart() {
    in_testnet("one_gateway_serves_many_and_keeps_them_apart", || async {
        let mut world = World::new(Limits::default(), None).await;
        let (a, first) = world.sandbox("a", &listed(&["www.example.org"])).await;
        let (b, second) = world.sandbox("b", &listed(&["api.example.org"])).await;
        let (c, _) = world.sandbox("c", &Egress::Nothing).await;
        let (in_a, in_b, in_c) = tokio::join!(output(&a, FETCH), output(&b, FETCH), output(&c, FETCH));
        assert_eq!(in_a, CANARY);
        assert!(in_b.contains("Could not resolve") && in_c.contains("Could not resolve"), "{in_b} {in_c}");
        let record = world.record(|record| record.sandbox == "b" && record.reason.is_some()).await;
        assert_eq!(record.reason, Some(Reason::NameNotListed));
        // An address that means a name in one means nothing, or another, in the other.
        let raw = "perl -MSocket -e 'print inet_ntoa(inet_aton(\"www.example.org\"))'";
        let address = output(&a, raw).await;
        let said = output(&b, &format!("curl -sS -m 5 -H 'Host: www.example.org' http://{address}/canary 2>&1")).await;
        assert!(!said.contains("canary"), "{said}");
        // One that is detached has no network; the others go on.
        assert!(world.gateway.detach(first).await.unwrap().connections >= 1);
        assert!(!output(&a, FETCH).await.contains("canary"));
        let fetch = "curl -sS -m 10 http://api.example.org/canary 2>&1";
        assert_eq!(output(&b, fetch).await, "canary api.example.org\n");
        let counters = world.gateway.detach(second).await.unwrap();
        assert!(counters.connections == 1 && counters.refused >= 2 && counters.lost == 0, "{counters:?}");
        for sandbox in [a, b, c] {
            sandbox.stop().await.unwrap();
        }
    });
}

/// The program has its answer, and has not closed the connection, when the sandbox's network ends.
#[test]
fn a_refusal_stays_one_when_the_network_ends() {
    in_testnet("a_refusal_stays_one_when_the_network_ends", || async {
        let mut world = World::new(Limits::default(), None).await;
        let (sandbox, attachment) = world.sandbox("a", &listed(&["www.example.org"])).await;
        let script = r#"exec perl -MIO::Socket::IP -e '
            $| = 1; my $s = IO::Socket::IP->new(PeerHost => "www.example.org", PeerPort => 80) or die;
            syswrite $s, "GET / HTTP/1.1\r\nHost: www.example.net\r\n\r\n";
            sysread $s, my $answer, 12; print $answer; sleep 20'"#;
        let mut refused = sandbox.start(command(script)).unwrap();
        let mut said = Vec::new();
        while said.len() < 12 {
            match refused.next().await {
                Event::Output(Stream::Out, bytes) => said.extend(bytes),
                Event::Ended(outcome) => panic!("{outcome:?}"),
                _ => {}
            }
        }
        assert_eq!(said, b"HTTP/1.1 403");
        world.gateway.detach(attachment).await.unwrap();
        let record = world.record(|record| record.protocol == Protocol::Http).await;
        assert_eq!(record.reason, Some(Reason::HostMismatch), "{record:?}");
        sandbox.stop().await.unwrap();
    });
}

#[test]
fn bytes_and_bandwidth_are_bounded() {
    in_testnet("bytes_and_bandwidth_are_bounded", || async {
        let limits = Limits { bytes: Some(6 << 20), bytes_per_second: Some(2 << 20), ..Limits::default() };
        let mut world = World::new(limits, None).await;
        let (sandbox, _) = world.sandbox("a", &listed(&["www.example.org"])).await;
        let big = "curl -sS -m 20 -o /dev/null -w '%{size_download}' 'http://www.example.org/big?bytes=4000000' 2>&1";
        let start = Instant::now();
        assert_eq!(output(&sandbox, big).await, "4000000");
        let took = start.elapsed();
        assert!(took > Duration::from_millis(1500), "2 MiB in a second: {took:?}");
        assert_ne!(output(&sandbox, big).await, "4000000", "6 MiB in all");
        world.record(|record| record.reason == Some(Reason::ByteLimit)).await;
        sandbox.stop().await.unwrap();
    });
}

/// Destroys the listeners of the only sandbox's guest, from its network namespace.
fn destroy_listener(engine: &Containers) {
    let children = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        text.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    for guest in engine.helpers().into_iter().flat_map(children) {
        let mut ss = std::process::Command::new("nsenter");
        ss.args([
            "--target",
            &guest.to_string(),
            "--net",
            "ss",
            "--kill",
            "--listening",
            "--tcp",
            "sport",
            "=",
            ":61953",
        ]);
        assert!(ss.output().unwrap().status.success());
    }
}

#[test]
fn a_listener_that_dies_is_reported() {
    in_testnet("a_listener_that_dies_is_reported", || async {
        let mut world = World::new(Limits::default(), None).await;
        let request = Request {
            image: Image::Host,
            begin_with: None,
            system: sandbox::System::AsLeft,
            limits: None,
            disk: 64 << 20,
            mounts: Vec::new(),
            allow_setuid: false,
            network: network(),
        };
        let (sandbox, capture) = world.engine.create_captured(request).await.unwrap();
        // Whoever holds another copy of a listener can shut it down; whoever may, can destroy the guest's.
        let copy = match &capture {
            sandbox::Capture::Passed(listeners) => Some(listeners[0].try_clone().unwrap()),
            sandbox::Capture::Relayed(_) => None,
        };
        let attachment = world.gateway.attach("a", &listed(&["www.example.org"]), capture).await.unwrap();
        assert_eq!(output(&sandbox, FETCH).await, CANARY);
        match copy {
            Some(copy) => rustix::net::shutdown(&copy, rustix::net::Shutdown::Both).unwrap(),
            None => destroy_listener(&world.engine),
        }
        let lost = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                if let Notice::Lost(lost) = world.notices.recv().await.unwrap() {
                    return lost;
                }
            }
        });
        assert_eq!(lost.await.unwrap().id, attachment.id());
        assert_eq!(sandbox.session().is_alive(), network() == Network::Captured, "a guest without network ends");
        sandbox.stop().await.unwrap();
    });
}

#[test]
fn the_gateway_has_no_rights_and_none_of_our_environment() {
    in_testnet("the_gateway_has_no_rights_and_none_of_our_environment", || async {
        let world = World::new(Limits::default(), None).await;
        let pid = world.gateway.pid();
        let is_root = rustix::process::geteuid().is_root();
        let uid = if is_root { 65534 } else { rustix::process::geteuid().as_raw() };
        let file = |name: &str| format!("/proc/{pid}/{name}");
        // The process is not dumpable: only root may look at these.
        match std::fs::read_to_string(file("environ")) {
            Ok(environment) => assert_eq!((is_root, environment.as_str()), (true, "")),
            Err(error) => assert_eq!((is_root, error.kind()), (false, std::io::ErrorKind::PermissionDenied)),
        }
        let tasks: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().collect();
        assert!(tasks.len() > 1, "{tasks:?}");
        for task in tasks {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            for expected in [
                format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n").as_str(),
                "Groups:\t\n",
                "CapInh:\t0000000000000000",
                "CapPrm:\t0000000000000000",
                "CapEff:\t0000000000000000",
                "CapAmb:\t0000000000000000",
                "NoNewPrivs:\t1",
                "Seccomp:\t2",
            ] {
                assert!(
                    status.contains(expected) || status.replace(" \n", "\n").contains(expected),
                    "{expected}: {status}"
                );
            }
        }
        // Sockets, events, and nothing that has a path.
        let descriptors = std::fs::read_dir(file("fd"));
        assert_eq!(descriptors.is_ok(), is_root);
        for descriptor in descriptors.into_iter().flatten() {
            let target = std::fs::read_link(descriptor.unwrap().path()).unwrap().display().to_string();
            assert!(target == "/dev/null" || !target.starts_with('/'), "{target}");
        }
        assert_eq!(world.gateway.landlock(), jail::probe::landlock_version());
    });
}
