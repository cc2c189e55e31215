//! What every provider must do, one suite for all: the promises that Inspect's own provider checks make, and ours.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::{command, exec, is_docker, is_root, only_program, sh, usual};
use sandbox::{
    Attempt, Exec, FailureKind, FileKind, Outcome, Overflow, Part, Sandbox, SessionError, TreeLimits, Tried, User,
    WindowSize,
};

const READ_LIMIT: u64 = 100 << 20;

/// Who provides the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    Local,
    Container,
    /// The same engine with a network that the guest relays.
    Relayed,
}

async fn create(provider: Provider) -> Sandbox {
    match provider {
        Provider::Local => sandbox::start_local().await.unwrap(),
        Provider::Container => crate::common::create().await,
        Provider::Relayed => {
            let request = sandbox::Request { network: sandbox::Network::Relayed, ..crate::common::request() };
            let (sandbox, capture) = crate::common::engine().create_captured(request).await.unwrap();
            let sandbox::Capture::Relayed(relay) = capture else { unreachable!("another capture") };
            // Somebody waits for what programs send, as long as the test lasts.
            tokio::spawn(async move {
                loop {
                    let (arrived, question) = tokio::join!(relay.accept(), relay.question());
                    if arrived.is_err() || question.is_err() {
                        return;
                    }
                }
            });
            sandbox
        }
    }
}

/// A directory that the tests may write to, on every provider. Not every image has one.
async fn scratch(sandbox: &Sandbox) -> String {
    sh(sandbox, "mkdir -p /tmp && mktemp -d").await
}

macro_rules! conformance {
    ($($check:ident),+ $(,)?) => {
        mod local {
            $(#[tokio::test] async fn $check() { super::$check(super::Provider::Local).await })+
        }
        mod container {
            $(#[tokio::test] async fn $check() { super::$check(super::Provider::Container).await })+
        }
        mod relayed {
            $(#[tokio::test] async fn $check() { super::$check(super::Provider::Relayed).await })+
        }
    };
}

conformance!(
    text_files,
    binary_files,
    empty_files,
    large_files,
    parents_are_made,
    missing_file,
    directory_as_file,
    file_in_the_way,
    read_limit,
    replaces_longer_files,
    stat_and_list,
    trees,
    output_and_error_are_apart,
    output_is_binary,
    exit_codes,
    signals,
    missing_program,
    not_a_program,
    working_directory,
    missing_working_directory,
    environment,
    long_arguments,
    large_input,
    timeout_kills_children,
    kill_by_dropping,
    background_processes_live_on,
    background_process_with_our_output,
    many_at_once,
    terminal,
    nul_is_refused,
    unknown_user,
    data_is_carried,
    system_changes_are_carried,
    dead_sandbox_is_an_error,
);

async fn text_files(provider: Provider) {
    let sandbox = create(provider).await;
    let directory = scratch(&sandbox).await;
    let path = format!("{directory}/text");
    for text in ["plain", "ünïcödé 例え 🦀", "line\r\nline\r\n", "no newline", "\n"] {
        sandbox.write_file(&path, text.as_bytes(), 0o644).await.unwrap();
        assert_eq!(sandbox.read_file(&path, READ_LIMIT).await.unwrap(), text.as_bytes());
    }
    sandbox.stop().await.unwrap();
}

async fn binary_files(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/binary", scratch(&sandbox).await);
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    sandbox.write_file(&path, &bytes, 0o644).await.unwrap();
    assert_eq!(sandbox.read_file(&path, READ_LIMIT).await.unwrap(), bytes);
}

async fn empty_files(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/empty", scratch(&sandbox).await);
    sandbox.write_file(&path, b"", 0o644).await.unwrap();
    assert_eq!(sandbox.read_file(&path, READ_LIMIT).await.unwrap(), b"");
}

async fn large_files(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/large", scratch(&sandbox).await);
    let bytes = vec![7; 50 << 20];
    sandbox.write_file(&path, &bytes, 0o644).await.unwrap();
    assert!(sandbox.read_file(&path, READ_LIMIT).await.unwrap() == bytes);
    sh(&sandbox, &format!("rm {path}")).await;
}

async fn parents_are_made(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/a/b/c", scratch(&sandbox).await);
    sandbox.write_file(&path, b"x", 0o600).await.unwrap();
    assert_eq!(sh(&sandbox, &format!("stat -c %a {path}")).await, "600");
}

fn kind<T: std::fmt::Debug>(result: Result<T, SessionError>) -> FailureKind {
    match result {
        Err(SessionError::Failed { kind, .. }) => kind,
        other => unreachable!("{other:?}"),
    }
}

async fn missing_file(provider: Provider) {
    let sandbox = create(provider).await;
    let read = sandbox.read_file("/nonexistent/file", READ_LIMIT).await;
    assert!(
        matches!(&read, Err(SessionError::Failed { message, .. }) if message.contains("/nonexistent/file")),
        "{read:?}"
    );
    assert_eq!(kind(read), FailureKind::NotFound);
}

async fn directory_as_file(provider: Provider) {
    let sandbox = create(provider).await;
    let directory = scratch(&sandbox).await;
    assert_eq!(kind(sandbox.read_file(&directory, READ_LIMIT).await), FailureKind::IsADirectory);
    assert_eq!(kind(sandbox.write_file(&directory, b"x", 0o644).await), FailureKind::IsADirectory);
}

async fn file_in_the_way(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/file", scratch(&sandbox).await);
    sandbox.write_file(&path, b"x", 0o644).await.unwrap();
    assert_eq!(kind(sandbox.write_file(&format!("{path}/below"), b"x", 0o644).await), FailureKind::NotADirectory);
}

async fn read_limit(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/file", scratch(&sandbox).await);
    sandbox.write_file(&path, &[0; 1001], 0o644).await.unwrap();
    assert_eq!(kind(sandbox.read_file(&path, 1000).await), FailureKind::TooLarge);
    assert_eq!(sandbox.read_file(&path, 1001).await.unwrap().len(), 1001);
}

async fn replaces_longer_files(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/file", scratch(&sandbox).await);
    sandbox.write_file(&path, b"a long text", 0o644).await.unwrap();
    sandbox.write_file(&path, b"short", 0o644).await.unwrap();
    assert_eq!(sandbox.read_file(&path, READ_LIMIT).await.unwrap(), b"short");
}

async fn stat_and_list(provider: Provider) {
    let sandbox = create(provider).await;
    let directory = scratch(&sandbox).await;
    sh(&sandbox, &format!("cd {directory} && echo x > file && mkdir sub && ln -s file link && mkfifo pipe")).await;
    let mut entries: Vec<(String, FileKind)> = sandbox
        .list(&directory)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| (String::from_utf8(entry.name).unwrap(), entry.stat.kind))
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let expected =
        [("file", FileKind::File), ("link", FileKind::Link), ("pipe", FileKind::Other), ("sub", FileKind::Directory)];
    assert_eq!(entries, expected.map(|(name, kind)| (name.to_owned(), kind)));
    assert_eq!(sandbox.stat(&format!("{directory}/file")).await.unwrap().unwrap().size, 2);
    assert_eq!(sandbox.stat("/nonexistent").await.unwrap(), None);
    assert_eq!(kind(sandbox.list(&format!("{directory}/file")).await), FailureKind::NotADirectory);
}

async fn trees(provider: Provider) {
    let sandbox = create(provider).await;
    let directory = scratch(&sandbox).await;
    let host = tempfile::tempdir().unwrap();
    let source = host.path().join("source");
    std::fs::create_dir_all(source.join("a/b")).unwrap();
    std::fs::write(source.join("a/b/file"), "text").unwrap();
    std::fs::write(source.join("run.sh"), "#!/bin/sh\necho ran\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", source.join("link")).unwrap();
    let up = sandbox.upload(&source, &format!("{directory}/in"), TreeLimits::default()).await.unwrap();
    assert_eq!((up.files, up.left_out.len()), (2, 1));
    // What the workload leaves must not get out as a link, a pipe or over anything of the host's.
    let script = format!("cd {directory}/in && ln -s /etc/passwd evil && mkfifo pipe && chmod 4755 run.sh");
    // As whoever the files that come in belong to.
    let owner = Exec { user: User::Default, ..usual(&["sh", "-c", &script]) };
    assert_eq!(exec(&sandbox, owner).await.unwrap().outcome, Outcome::Exited(0));
    let target = host.path().join("target");
    let down = sandbox.download(&format!("{directory}/in"), &target, TreeLimits::default()).await.unwrap();
    assert_eq!((down.files, down.left_out.len()), (2, 2));
    assert_eq!(std::fs::read_to_string(target.join("a/b/file")).unwrap(), "text");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(target.join("run.sh")).unwrap().permissions());
    assert_eq!(mode & 0o7000, 0, "no setuid bit comes out");
    assert!(sandbox.download(&format!("{directory}/in"), &target, TreeLimits::default()).await.is_err(), "it exists");
    let few = TreeLimits { bytes: 3, ..TreeLimits::default() };
    assert!(sandbox.download(&format!("{directory}/in"), &host.path().join("other"), few).await.is_err());
}

async fn output_and_error_are_apart(provider: Provider) {
    let sandbox = create(provider).await;
    let completed = exec(&sandbox, usual(&["sh", "-c", "echo out; echo err >&2"])).await.unwrap();
    assert_eq!((completed.stdout.as_slice(), completed.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert!(!completed.truncated);
}

async fn output_is_binary(provider: Provider) {
    let sandbox = create(provider).await;
    let completed = exec(&sandbox, usual(&["printf", "\\377\\000\\200é"])).await.unwrap();
    assert_eq!(completed.stdout, b"\xff\x00\x80\xc3\xa9");
}

async fn exit_codes(provider: Provider) {
    let sandbox = create(provider).await;
    // 124 and 137 are just exit codes.
    for code in [0, 1, 70, 124, 126, 127, 137, 255] {
        let completed = exec(&sandbox, usual(&["sh", "-c", &format!("exit {code}")])).await.unwrap();
        assert_eq!(completed.outcome, Outcome::Exited(code));
    }
}

async fn signals(provider: Provider) {
    let sandbox = create(provider).await;
    for signal in [9, 11, 15] {
        let completed = exec(&sandbox, usual(&["sh", "-c", &format!("kill -{signal} $$")])).await.unwrap();
        assert_eq!(completed.outcome, Outcome::Signalled(signal));
    }
}

async fn missing_program(provider: Provider) {
    let sandbox = create(provider).await;
    assert_eq!(kind(exec(&sandbox, command(&["no-such-program"])).await), FailureKind::NotFound);
    assert_eq!(kind(exec(&sandbox, command(&["/no/such/program"])).await), FailureKind::NotFound);
    if only_program().is_some() {
        for shell in ["sh", "/bin/sh"] {
            assert_eq!(kind(exec(&sandbox, command(&[shell, "-c", "true"])).await), FailureKind::NotFound);
        }
    }
}

async fn not_a_program(provider: Provider) {
    let sandbox = create(provider).await;
    let path = format!("{}/file", scratch(&sandbox).await);
    sandbox.write_file(&path, b"x", 0o644).await.unwrap();
    assert_eq!(kind(exec(&sandbox, command(&[&path])).await), FailureKind::PermissionDenied);
}

async fn working_directory(provider: Provider) {
    let sandbox = create(provider).await;
    let directory = scratch(&sandbox).await;
    let completed = exec(&sandbox, Exec { cwd: Some(directory.clone()), ..usual(&["pwd"]) }).await.unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap().trim(), directory);
}

async fn missing_working_directory(provider: Provider) {
    let sandbox = create(provider).await;
    let exec = Exec { cwd: Some("/no/such/place".into()), ..usual(&["true"]) };
    assert_eq!(kind(crate::common::exec(&sandbox, exec).await), FailureKind::NotFound);
}

async fn environment(provider: Provider) {
    let sandbox = create(provider).await;
    let env = vec![("A".into(), "one two".into()), ("B".into(), "=x\n".into())];
    let completed = exec(&sandbox, Exec { env, ..usual(&["sh", "-c", "printf %s \"$A$B\""]) }).await.unwrap();
    assert_eq!(completed.stdout, b"one two=x\n");
    assert_eq!(sh(&sandbox, "env | grep -c ^CARGO || true").await, "0", "nothing of ours is inherited");
}

async fn long_arguments(provider: Provider) {
    let sandbox = create(provider).await;
    let argument = "x".repeat(100_000);
    let arguments: Vec<&str> =
        ["sh", "-c", "printf %s \"$*\" | wc -c", "sh"].into_iter().chain([argument.as_str(); 10]).collect();
    let completed = exec(&sandbox, usual(&arguments)).await.unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap().trim(), "1000009");
    let too_long = "x".repeat(3 << 20);
    assert_eq!(kind(exec(&sandbox, usual(&["echo", &too_long])).await), FailureKind::TooLarge);
}

async fn large_input(provider: Provider) {
    let sandbox = create(provider).await;
    let input = vec![b'y'; 50 << 20];
    let completed = sandbox.exec(usual(&["wc", "-c"]), &input, 1000, Overflow::KeepTail).await.unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap().trim(), "52428800");
}

/// How long a process of one test sleeps, by which it is found: no other test's, and longer than any test.
fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (1_000_000 + 100 * std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed)).to_string()
}

/// Whether a command line says to sleep so long, be it of the sleeper or of a shell that is to start it.
fn says_to_sleep(command_line: &[u8], marker: &str) -> bool {
    String::from_utf8_lossy(command_line).replace('\0', " ").contains(&format!("sleep {marker}"))
}

/// How many processes of the sandbox sleep so long, seen from inside and with nothing of the image.
async fn asleep(sandbox: &Sandbox, marker: &str) -> usize {
    let mut found = 0;
    for entry in sandbox.list("/proc").await.unwrap() {
        let name = String::from_utf8(entry.name).unwrap();
        if name.parse::<u32>().is_ok() {
            let read = sandbox.read_file(&format!("/proc/{name}/cmdline"), READ_LIMIT).await;
            match read {
                Ok(line) => found += usize::from(says_to_sleep(&line, marker)),
                // It ended meanwhile.
                Err(error) => assert!(matches!(kind(Err::<(), _>(error)), FailureKind::NotFound | FailureKind::Other)),
            }
        }
    }
    found
}

fn asleep_on_the_host(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    processes.filter_map(|path| std::fs::read(path).ok()).filter(|line| says_to_sleep(line, marker)).count()
}

async fn timeout_kills_children(provider: Provider) {
    let sandbox = create(provider).await;
    let marker = marker();
    let script = format!("setsid sh -c 'sleep {marker} & sleep {marker}' & sleep {marker}");
    let start = Instant::now();
    let completed = exec(&sandbox, Exec { timeout_ms: Some(300), ..usual(&["sh", "-c", &script]) }).await.unwrap();
    assert_eq!(completed.outcome, Outcome::TimedOut);
    assert!(start.elapsed() < Duration::from_millis(1800), "{:?}", start.elapsed());
    assert_eq!(asleep(&sandbox, &marker).await, 0);
}

async fn kill_by_dropping(provider: Provider) {
    let sandbox = create(provider).await;
    let marker = marker();
    drop(sandbox.start(usual(&["sleep", &marker])).unwrap());
    let deadline = Instant::now() + Duration::from_secs(5);
    while asleep(&sandbox, &marker).await != 0 {
        assert!(Instant::now() < deadline);
    }
}

async fn background_processes_live_on(provider: Provider) {
    let sandbox = create(provider).await;
    let marker = marker();
    sh(&sandbox, &format!("(setsid sleep {marker} >/dev/null 2>&1 &); true")).await;
    // Forked, but perhaps not what it will be yet.
    let deadline = Instant::now() + Duration::from_secs(10);
    while asleep(&sandbox, &marker).await != 1 {
        assert!(Instant::now() < deadline);
    }
    for _ in 0..3 {
        sh(&sandbox, "true").await;
        assert_eq!(asleep(&sandbox, &marker).await, 1);
    }
    // A kernel of its own shows nobody outside what runs inside.
    let seen = usize::from(std::env::var_os("RINGFENCE_RUNTIME").is_none());
    assert_eq!(asleep_on_the_host(&marker), seen);
    sandbox.stop().await.unwrap();
    // Killed by then. Without a sandbox (H0), the kernel may take a moment to let it end.
    let deadline = Instant::now() + Duration::from_secs(5);
    while asleep_on_the_host(&marker) != 0 {
        assert!(Instant::now() < deadline, "until the sandbox ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn background_process_with_our_output(provider: Provider) {
    let sandbox = create(provider).await;
    let start = Instant::now();
    assert_eq!(sh(&sandbox, "sleep 30 & echo done").await, "done");
    assert!(start.elapsed() < Duration::from_secs(10), "a background process that holds our pipe keeps nobody waiting");
}

async fn many_at_once(provider: Provider) {
    let sandbox = create(provider).await;
    let runs = (0..20).map(|number| {
        let sandbox = &sandbox;
        async move {
            let completed = exec(sandbox, usual(&["sh", "-c", &format!("sleep 0.1; echo {number}")])).await.unwrap();
            assert_eq!(String::from_utf8(completed.stdout).unwrap().trim(), number.to_string());
        }
    });
    let start = Instant::now();
    let mut set = Vec::new();
    for run in runs {
        set.push(Box::pin(run));
    }
    // All at once on one task: they interleave over the one stream.
    let mut pending = set;
    std::future::poll_fn(|context| {
        pending.retain_mut(|run| Future::poll(run.as_mut(), context).is_pending());
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(10));
}

async fn terminal(provider: Provider) {
    let sandbox = create(provider).await;
    let pty = Some(WindowSize { rows: 33, columns: 77 });
    let completed =
        exec(&sandbox, Exec { pty, ..usual(&["sh", "-c", "test -t 0 && test -t 1 && stty size"]) }).await.unwrap();
    assert_eq!(String::from_utf8(completed.stdout).unwrap().trim(), "33 77");
    let echo = Exec { pty, ..usual(&["sh", "-c", "read line; echo got:$line"]) };
    let completed = sandbox.exec(echo, b"hello\n", 1000, Overflow::KeepTail).await.unwrap();
    assert!(String::from_utf8(completed.stdout).unwrap().contains("got:hello"));
}

async fn nul_is_refused(provider: Provider) {
    let sandbox = create(provider).await;
    assert_eq!(kind(exec(&sandbox, command(&["echo", "a\0b"])).await), FailureKind::Invalid);
    assert_eq!(kind(exec(&sandbox, command(&[""])).await), FailureKind::Invalid);
    assert_eq!(kind(sandbox.read_file("a\0b", 10).await), FailureKind::Invalid);
    assert_eq!(kind(exec(&sandbox, Exec { argv: Vec::new(), ..command(&[]) }).await), FailureKind::Invalid);
}

async fn unknown_user(provider: Provider) {
    let sandbox = create(provider).await;
    let as_user = |user: &str| Exec { user: User::Named(user.into()), ..usual(&["id", "-u"]) };
    assert_eq!(kind(exec(&sandbox, as_user("no-such-user")).await), FailureKind::UnknownUser);
    if is_root() && provider != Provider::Local {
        if only_program().is_none() {
            assert_eq!(exec(&sandbox, as_user("agent")).await.unwrap().stdout, b"1000\n");
        }
        assert_eq!(exec(&sandbox, as_user("4321:4321")).await.unwrap().stdout, b"4321\n");
        // A daemon may map every id.
        if !is_docker() {
            assert_eq!(kind(exec(&sandbox, as_user("70000")).await), FailureKind::UnmappedUser);
        }
    }
}

async fn dead_sandbox_is_an_error(provider: Provider) {
    let sandbox = create(provider).await;
    sandbox.session().shutdown();
    tokio::time::timeout(Duration::from_secs(5), sandbox.session().gone()).await.unwrap();
    let after = exec(&sandbox, usual(&["true"])).await;
    assert!(matches!(after, Err(SessionError::Died(_))), "{after:?}");
    sandbox.stop().await.unwrap();
}

/// Runs a script as root inside: only root may change what the image has.
async fn as_root(sandbox: &Sandbox, script: &str) -> String {
    let exec_as_root = Exec { user: User::Default, ..usual(&["sh", "-c", script]) };
    let completed = exec(sandbox, exec_as_root).await.unwrap();
    let said = String::from_utf8_lossy(&completed.stderr).into_owned();
    assert_eq!(completed.outcome, Outcome::Exited(0), "{script}: {said}");
    String::from_utf8_lossy(&completed.stdout).trim().to_owned()
}

/// What a sandbox without the agent gets from one that the agent was root in: its data as it is, none of its programs, settings
/// and names in `/`.
async fn data_is_carried(provider: Provider) {
    if provider == Provider::Local {
        return refuses_trees(&create(provider).await).await;
    }
    let (from, to) = (create(provider).await, create(provider).await);
    let prepare = "mkdir -p /srv/dir /srv/swapped /srv/removed /tmp /undeclared /gone; echo a > /srv/changed; echo b > /srv/dir/kept; \
                   echo c > /srv/removed/x; mkdir -p /gone/deep; echo d > /gone/deep/x; echo before > /etc/setting";
    for sandbox in [&from, &to] {
        as_root(sandbox, &prepare.replace("/undeclared ", "")).await;
    }
    as_root(&to, "echo mine > /tmp/mine; echo mine > /srv/dir/mine; mkdir /srv/linked; echo mine > /srv/linked/x")
        .await;
    as_root(
        &from,
        "cd /srv; echo changed > changed; chmod 640 changed; rm -r removed swapped /gone; ln -s /etc swapped; ln -s changed link; ln -s /etc linked; \
         mkfifo pipe; ln changed another; mkdir -p deep/er; echo new > 'deep/er/ -ü\n'; chmod 1777 deep/er; \
         dd if=/dev/zero of=sparse bs=1 count=1 seek=300000000 2>/dev/null; echo end >> sparse; \
         mkdir /undeclared /declared; echo x > /undeclared/x; echo y > /declared/y; ln /srv/changed /declared/changed; \
         echo evil > /json.py; echo evil > /etc/setting; mkdir -p /usr/local/bin; echo evil > /usr/local/bin/evil; touch -d '2001-02-03 04:05:06' deep",
    )
    .await;
    let declared = ["declared".to_owned()];
    to.take_data(&from, &declared, &[], 1 << 30).await.unwrap();
    for (looks, expected) in [
        ("cat /srv/changed /srv/another /srv/dir/kept; stat -c '%a %h' /srv/changed", "changed\nchanged\nb\n640 2"),
        ("for link in swapped link linked; do readlink /srv/$link; done", "/etc\nchanged\n/etc"),
        ("test -p /srv/pipe && cat /srv/deep/er/*; stat -c '%a %Y' /srv/deep/er | cut -d' ' -f1", "new\n1777"),
        ("TZ=UTC date -r /srv/deep +%Y-%m-%dT%H:%M:%S", "2001-02-03T04:05:06"),
        ("stat -c %s /srv/sparse; tail -n 1 /srv/sparse | tr -d '\\0'", "300000005\nend"),
        (
            "cat /declared/y /declared/changed; test ! -e /undeclared && test ! -e /json.py && echo absent",
            "y\nchanged\nabsent",
        ),
        (
            "test ! -e /srv/removed && test ! -e /gone && test ! -e /tmp/mine && test ! -e /srv/dir/mine && echo absent",
            "absent",
        ),
        ("cat /etc/setting; test ! -e /usr/local/bin/evil && echo absent", "before\nabsent"),
    ] {
        assert_eq!(as_root(&to, looks).await, expected, "{looks}");
    }
    let blocks: u64 = as_root(&to, "stat -c %b /srv/sparse").await.parse().unwrap();
    assert!(blocks < 1000, "a hole stays one: {blocks} blocks");
    // Too much, and too deep: refused, and both sandboxes live on.
    for (mess, limit, word) in [
        ("dd if=/dev/urandom of=/srv/large bs=1024 count=3000 2>/dev/null", 1 << 20, "larger than the limit"),
        ("rm /srv/large; cd /srv; n=0; while test $n -lt 600; do mkdir d; cd d; n=$((n+1)); done", 1 << 30, "deeper"),
    ] {
        as_root(&from, mess).await;
        let error = to.take_data(&from, &declared, &[], limit).await.unwrap_err();
        assert!(matches!(error, sandbox::CarryError::Contents(_)) && error.to_string().contains(word), "{error}");
        assert_eq!(as_root(&from, "echo lives").await + &as_root(&to, "echo lives").await, "liveslives");
    }
}

/// Without isolation the root directory is the host's: nothing makes or removes files there.
async fn refuses_trees(local: &Sandbox) {
    let attempt = Attempt::TakeTree { part: Part::Data, declared: Vec::new(), shared: Vec::new() };
    let tried = local.attempt(attempt, User::Default, Duration::from_secs(5)).await;
    assert!(!matches!(tried, Ok(Tried::Answered(_) | Tried::Ended(Outcome::Exited(0)))), "{tried:?}");
}

/// What setup made of programs, settings and files in `/`, for a sandbox that begins as the image again.
async fn system_changes_are_carried(provider: Provider) {
    if provider == Provider::Local {
        return;
    }
    let (from, to) = (create(provider).await, create(provider).await);
    as_root(
        &from,
        "mkdir -p /usr/local/lib /etc /made/empty; echo check > /usr/local/lib/check; chmod 4755 /usr/local/lib/check || true; echo set > /etc/set; \
         ln -s set /etc/link; echo key > /key; mkdir -p /srv; echo data > /srv/data; echo y > /made/empty/y",
    )
    .await;
    let mut changes = from.keep_system(&[], 1 << 30).await.unwrap();
    as_root(&from, "echo evil > /usr/local/lib/check; echo evil > /key; echo evil > /etc/other").await;
    for _ in 0..2 {
        to.take_system(&mut changes).await.unwrap();
        let looks = "cat /usr/local/lib/check /etc/link /key; test -x /usr/local/lib/check && test -d /made && test ! -e /made/empty && \
                     test ! -e /srv/data && test ! -e /etc/other && echo absent";
        assert_eq!(as_root(&to, looks).await, "check\nset\nkey\nabsent");
    }
    let error = from.keep_system(&[], 10).await.unwrap_err();
    assert!(error.to_string().contains("larger than the limit"), "{error}");
}
