//! An image with one static program and nothing else: what needs nothing of the image works all the same. Run by
//! `./test.sh docker`, which makes the image.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use docker::{Docker, Endpoint, Engine, Patience, Pull, Request, Surroundings};
use sandbox::{
    Capture, Completed, Exec, FailureKind, Kind as _, Limits, Outcome, Overflow, Sandbox, SessionError, User, Variant,
};

const READ_LIMIT: u64 = 100 << 20;

async fn kind(name: &str) -> Docker {
    let endpoint = Endpoint::find(&Surroundings::of_this_process()).unwrap();
    let engine = Engine::connect(endpoint.clone(), Patience::default()).await.unwrap();
    let image = engine.image(name, Pull::Never, &mut |_| ()).await.unwrap();
    let limits = Some(Limits { memory: 256 << 20, pids: 64, cpu_millis: 2000 });
    Docker {
        endpoint,
        patience: Patience::default(),
        request: Request { limits, ..Request::of(image.id) },
        copies_programs: false,
    }
}

async fn make(kind: &Docker, run: &str) -> (Sandbox, Capture) {
    let run = format!("{run}-{}", std::process::id());
    kind.start(&run).await.unwrap().make(Variant::default()).await.unwrap()
}

fn command(argv: &[&str]) -> Exec {
    Exec {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        user: User::Default,
        pty: None,
        timeout_ms: Some(20_000),
        max_output: None,
    }
}

async fn exec(sandbox: &Sandbox, argv: &[&str]) -> Result<Completed, SessionError> {
    sandbox.exec(command(argv), b"", 1 << 20, Overflow::KeepTail).await
}

#[tokio::test]
async fn files_and_commands_need_nothing_of_the_image() {
    let (sandbox, capture) = make(&kind("ringfence/static").await, "bare").await;
    assert!(matches!(capture, Capture::Passed(listeners) if matches!(listeners.len(), 2 | 4)));
    let bytes: Vec<u8> = (0..=255).cycle().take(50 << 20).collect();
    sandbox.write_file("/new/deep/file", &bytes, 0o600).await.unwrap();
    assert!(sandbox.read_file("/new/deep/file", READ_LIMIT).await.unwrap() == bytes);
    assert_eq!(sandbox.stat("/new/deep/file").await.unwrap().unwrap().permissions & 0o777, 0o600);
    assert_eq!(sandbox.list("/new").await.unwrap().len(), 1);
    let echoed = exec(&sandbox, &["/busybox", "echo", "hello"]).await.unwrap();
    assert_eq!((echoed.outcome, echoed.stdout.as_slice()), (Outcome::Exited(0), &b"hello\n"[..]));
    let numbered = Exec { user: User::Named("1000:1000".into()), ..command(&["/busybox", "id", "-u"]) };
    let numbered = sandbox.exec(numbered, b"", 100, Overflow::KeepTail).await.unwrap();
    assert_eq!(numbered.stdout, b"1000\n");
    let missing = exec(&sandbox, &["/bin/sh"]).await;
    assert!(matches!(missing, Err(SessionError::Failed { kind: FailureKind::NotFound, .. })), "{missing:?}");
    let slow = Exec { timeout_ms: Some(300), ..command(&["/busybox", "sleep", "60"]) };
    let slow = sandbox.exec(slow, b"", 100, Overflow::KeepTail).await.unwrap();
    assert_eq!(slow.outcome, Outcome::TimedOut);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn every_process_is_ended_between_phases_and_files_stay() {
    let (sandbox, _capture) = make(&kind("ringfence/debian").await, "phases").await;
    let script = "echo kept >/tmp/file; for n in 1 2 3; do (setsid sh -c 'trap \"\" TERM; while :; do sleep 1 & wait; done' >/dev/null 2>&1 &); done";
    assert_eq!(exec(&sandbox, &["sh", "-c", script]).await.unwrap().outcome, Outcome::Exited(0));
    let mut running = sandbox.start(command(&["sleep", "1000"])).unwrap();
    sandbox.session().end_all().await.unwrap();
    let ended = running.next().await;
    assert!(matches!(ended, sandbox::Event::Ended(Outcome::Killed)), "{ended:?}");
    let left =
        exec(&sandbox, &["sh", "-c", "ls -d /proc/[0-9]*/ | wc -l; pgrep -c sleep; cat /tmp/file"]).await.unwrap();
    let text = String::from_utf8_lossy(&left.stdout).into_owned();
    assert!(text.ends_with("0\nkept\n"), "{text}");
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_container_that_is_removed_by_others_is_a_dead_sandbox() {
    let kind = kind("ringfence/static").await;
    let run = format!("removed-{}", std::process::id());
    let (sandbox, _capture) = kind.start(&run).await.unwrap().make(Variant::default()).await.unwrap();
    let engine = Engine::connect(kind.endpoint.clone(), Patience::default()).await.unwrap();
    let all = engine.leftovers().await.unwrap();
    let own = all.iter().find(|one| one.run == run).unwrap();
    engine.remove(own).await.unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(10), sandbox.session().gone()).await.unwrap();
    assert!(matches!(exec(&sandbox, &["/busybox", "true"]).await, Err(SessionError::Died(_))));
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn programs_that_are_copied_in_leave_nothing_behind() {
    // As at a daemon on another machine: without a captured network, and nothing shown from this one.
    let mut kind = kind("ringfence/static").await;
    kind.request.network = sandbox::Network::Loopback;
    kind.copies_programs = true;
    let (sandbox, capture) = make(&kind, "copied").await;
    assert!(matches!(capture, Capture::Passed(listeners) if listeners.is_empty()));
    let listed = exec(&sandbox, &["/busybox", "ls", "-a", "/"]).await.unwrap();
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("ringfence"), "{listed:?}");
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn the_network_of_a_container_elsewhere_is_relayed() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    // As at a daemon on another machine: no descriptor and no file of this one.
    let mut kind = kind("ringfence/static").await;
    kind.request.network = sandbox::Network::Relayed;
    kind.copies_programs = true;
    let (sandbox, capture) = make(&kind, "relayed").await;
    let Capture::Relayed(relay) = capture else { unreachable!("another capture") };
    let accepted = async {
        let mut arrived = relay.accept().await.unwrap();
        arrived.connection.write_all(b"from outside").await.unwrap();
        arrived.connection.shutdown().await.unwrap();
        arrived.connection.read_to_end(&mut Vec::new()).await.unwrap();
        arrived.to
    };
    let connect = exec(&sandbox, &["/busybox", "nc", "-w", "5", "93.184.215.10", "80"]);
    let (to, said) = tokio::join!(accepted, connect);
    assert_eq!(to, Some("93.184.215.10:80".parse().unwrap()));
    assert!(said.unwrap().stdout.starts_with(b"from outside"));
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_pool_gives_each_container_once_and_removes_the_rest() {
    let mut kind = kind("ringfence/debian").await;
    kind.request.network = sandbox::Network::Loopback;
    let run = format!("pooled-{}", std::process::id());
    let engine = Engine::connect(kind.endpoint.clone(), Patience::default()).await.unwrap();
    let pool = sandbox::Pool::new(kind.start(&run).await.unwrap(), 2);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    for round in 0..4 {
        while pool.ready() < 2 {
            assert!(tokio::time::Instant::now() < deadline, "the pool does not fill");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let (sandbox, _capture) = pool.claim().await.unwrap();
        let script = "cat /tmp/mark /srv/mark 2>/dev/null; pgrep -c sleep; echo used | tee /tmp/mark >/srv/mark; (setsid sleep 100 >/dev/null 2>&1 &)";
        let seen = exec(&sandbox, &["sh", "-c", script]).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&seen.stdout), "0\n", "round {round}: nobody had it before");
        sandbox.stop().await.unwrap();
    }
    pool.close().await.unwrap();
    // One may be under way when the pool closes: it is removed with its maker's last hold.
    for _ in 0..200 {
        if !engine.leftovers().await.unwrap().iter().any(|one| one.run == run) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!engine.leftovers().await.unwrap().iter().any(|one| one.run == run), "a container is left");
}
