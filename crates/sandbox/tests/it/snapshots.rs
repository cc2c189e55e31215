//! Snapshots and forks: what a sandbox became, under others, which cannot change it; and what is kept of it as a layer.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::Read as _;

use crate::common::{MIB, command, engine, exec, is_root, request, sh};
use jail::zygote::Image;
use sandbox::{Containers, Request, Sandbox, Snapshot, StartError, System};

async fn fork(engine: &Containers, snapshot: &Snapshot) -> Sandbox {
    engine.create(Request { begin_with: Some(snapshot.clone()), ..request() }).await.unwrap()
}

/// Every kind of change: made, changed, removed, replaced, in the root and in the host's programs.
const CHANGES: &str = "
    mkdir -p /made/deep && echo one > /made/one && ln /made/one /made/two && ln -s one /made/soft
    echo deep > /made/deep/file && chmod 600 /made/deep/file && mkfifo /made/pipe
    rm /etc/shells && rm -r /etc/ssl && mkdir /etc/ssl && echo mine > /etc/ssl/only
    touch -d @1000000000 /made/one
    # Only root's sandboxes may change the host's programs, as they see them.
    if [ -w /usr/share ]; then echo tool > /usr/share/tool && rm -f /usr/bin/env; fi";
/// What shows all of them, the same wherever it runs.
const SHOW: &str = "
    stat -c '%n %F %a %u %g %s %h' /made /made/deep /made/deep/file /made/one /made/two /made/pipe /etc/ssl/only
    [ -w /usr/share ] && stat -c '%n %F %a %u %g %s' /usr/share/tool && ls /usr/bin/env 2>&1
    stat -c %Y /made/one; readlink /made/soft; cat /made/two /made/deep/file; ls /etc/ssl
    [ -e /etc/shells ] && echo shells is there; true";

#[tokio::test]
async fn a_fork_begins_where_its_snapshot_ended() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    sh(&first, CHANGES).await;
    let before = sh(&first, SHOW).await;
    assert!(before.contains("/made/one regular file 644 0 0 4 2") && !before.contains("is there"), "{before}");
    assert_eq!(before.contains("/usr/share/tool"), is_root(), "{before}");
    let snapshot = first.freeze().await.unwrap();
    let (one, other) = (fork(&engine, &snapshot).await, fork(&engine, &snapshot).await);
    assert_eq!(sh(&one, SHOW).await, before);
    // What one does, the other does not see, nor a later one.
    sh(&one, "echo changed > /made/one; rm -r /made/deep; touch /etc/shells; rm -f /usr/share/tool || true").await;
    assert_eq!(sh(&other, SHOW).await, before);
    assert_eq!(sh(&fork(&engine, &snapshot).await, SHOW).await, before);
}

#[tokio::test]
async fn processes_are_not_carried_over() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    sh(&first, "sleep 1000 >/dev/null 2>&1 & echo > /tmp/was-here").await;
    let snapshot = first.freeze().await.unwrap();
    let second = fork(&engine, &snapshot).await;
    let seen = sh(&second, "ls -d /proc/[0-9]* | wc -l; ls /tmp/was-here").await;
    // The guest, the command's keeper, one that waits, the shell and its two children at most.
    assert!(seen.lines().next().unwrap().parse::<u32>().unwrap() <= 6 && seen.ends_with("was-here"), "{seen}");
}

#[tokio::test]
async fn owners_are_the_same_in_every_fork() {
    if !is_root() {
        return; // One id only.
    }
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    sh(
        &first,
        "touch /srv/agent /srv/high && chown 1000:1000 /srv/agent && chown 65534:42 /srv/high && chmod 4755 /srv/agent",
    )
    .await;
    let ids = |sandbox: Sandbox| async move {
        let seen = sh(&sandbox, "stat -c '%u:%g %a' /srv/agent /srv/high").await;
        (seen, sandbox)
    };
    let (before, first) = ids(first).await;
    assert_eq!(before, "1000:1000 4755\n65534:42 644");
    let snapshot = first.freeze().await.unwrap();
    let (seen, second) = ids(fork(&engine, &snapshot).await).await;
    assert_eq!(seen, before);
    // A fork's fork, with other ids again; and root there may change what it was left.
    let (seen, third) = ids(fork(&engine, &second.freeze().await.unwrap()).await).await;
    assert_eq!(seen, before);
    sh(&third, "chown 0:0 /srv/high && echo x >> /srv/agent").await;
}

#[tokio::test]
async fn very_many_layers_become_one() {
    let engine = engine();
    let mut sandbox = engine.create(request()).await.unwrap();
    sh(&sandbox, CHANGES).await;
    let before = sh(&sandbox, SHOW).await;
    for number in 0..30 {
        let script = format!(
            "mkdir -p /many/{number} && echo {number} > /many/{number}/file && rm -rf /many/{} && echo {number} > /many/last",
            number - 2
        );
        sh(&sandbox, &script).await;
        // A directory that hides what was there, again and again.
        sh(&sandbox, &format!("rm -rf /again && mkdir /again && touch /again/{number}")).await;
        sandbox = fork(&engine, &sandbox.freeze().await.unwrap()).await;
        let lowers =
            sh(&sandbox, "grep -c . /proc/self/mountinfo >/dev/null; ls /many; cat /many/last; ls /again").await;
        let expected = if number == 0 {
            "0\nlast\n0\n0".into()
        } else {
            format!("{}\n{number}\nlast\n{number}\n{number}", number - 1)
        };
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&lowers), sorted(&expected), "after {number}");
    }
    assert_eq!(sh(&sandbox, SHOW).await, before);
}

#[tokio::test]
async fn a_snapshot_outlives_what_it_came_from_and_a_fork_its_snapshot() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    sh(&first, "echo kept > /tmp/file").await;
    let snapshot = first.freeze().await.unwrap();
    let second = fork(&engine, &snapshot).await;
    drop(snapshot);
    assert_eq!(sh(&second, "cat /tmp/file").await, "kept");
    let third = fork(&engine, &second.freeze().await.unwrap()).await;
    assert_eq!(sh(&third, "cat /tmp/file").await, "kept");
}

#[tokio::test]
async fn a_snapshot_of_another_engine_is_refused() {
    let (one, other) = (engine(), engine());
    let snapshot = one.create(request()).await.unwrap().freeze().await.unwrap();
    let refused = other.create(Request { begin_with: Some(snapshot), ..request() }).await;
    assert!(matches!(refused, Err(StartError::OtherEngine)), "{refused:?}");
}

/// Unpacks an archive beside the host's files as a store would, without one: the names and kinds in it.
fn names(mut archive: impl std::io::Read) -> Vec<String> {
    let mut bytes = Vec::new();
    archive.read_to_end(&mut bytes).unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let link = entry.link_name().unwrap().map(|link| format!(" -> {}", link.display())).unwrap_or_default();
        format!("{}{link} {:?}", entry.path().unwrap().display(), entry.header().entry_type())
    });
    entries.collect()
}

#[tokio::test]
async fn changes_are_one_layer() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    sh(&first, "echo a > /tmp/a; mkdir /tmp/d; echo b > /tmp/d/b; rm /etc/shells").await;
    let second = fork(&engine, &first.freeze().await.unwrap()).await;
    sh(&second, "rm -r /tmp/d && mkdir /tmp/d && ln /tmp/a /tmp/b; rm -f /usr/bin/env; ln -s /etc/passwd /tmp/link")
        .await;
    let snapshot = second.freeze().await.unwrap();
    let names = names(snapshot.archive().unwrap());
    for expected in [
        "tmp/a Regular",
        "tmp/b -> tmp/a Link",
        "tmp/d Directory",
        "tmp/d/.wh..wh..opq Regular",
        "etc/.wh.shells Regular",
        "usr Directory",
        "usr/bin/.wh.env Regular",
        "tmp/link -> /etc/passwd Symlink",
    ] {
        let is_there = names.iter().any(|name| name == expected);
        assert!(is_there || expected.starts_with("usr") && !is_root(), "{expected} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("d/b")), "hidden by what came later: {names:?}");
}

#[tokio::test]
async fn a_layer_larger_than_its_limit_is_an_error_not_a_part() {
    let engine = engine();
    let sandbox = engine.create(request()).await.unwrap();
    // No blocks at all, and said to be very large.
    sh(&sandbox, "truncate -s 1T /tmp/sparse").await;
    let snapshot = sandbox.freeze().await.unwrap();
    let mut sink = Vec::new();
    let error = snapshot.archive().unwrap().read_to_end(&mut sink).unwrap_err();
    assert!(error.to_string().contains("larger than its limit"), "{error}");
    assert!(sink.len() <= usize::try_from(512 * MIB).unwrap());
    // The engine goes on.
    sh(&fork(&engine, &snapshot).await, "true").await;
}

#[tokio::test]
async fn names_that_would_remove_another_file_are_refused() {
    let sandbox = engine().create(request()).await.unwrap();
    sh(&sandbox, "touch /tmp/.wh.passwd").await;
    let snapshot = sandbox.freeze().await.unwrap();
    let error = snapshot.archive().unwrap().read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains(".wh."), "{error}");
}

#[tokio::test]
async fn a_tree_without_end_is_refused_and_stacked_all_the_same() {
    let engine = engine();
    let sandbox = engine.create(request()).await.unwrap();
    let deep = "chdir '/tmp'; for (1..2000) { mkdir 'd' or die $!; chdir 'd' or die $! }";
    let completed = exec(&sandbox, command(&["perl", "-e", deep])).await.unwrap();
    assert_eq!(completed.outcome, sandbox::Outcome::Exited(0));
    let snapshot = sandbox.freeze().await.unwrap();
    let error = snapshot.archive().unwrap().read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("too deep"), "{error}");
    sh(&fork(&engine, &snapshot).await, "cd /tmp/d/d/d").await;
}

#[tokio::test]
async fn links_of_a_sandbox_lead_nowhere_when_it_is_saved() {
    let sandbox = engine().create(request()).await.unwrap();
    // In the place of a directory that the writer would enter, and of a file that it would read.
    sh(
        &sandbox,
        "ln -s /proc/self/root/etc /tmp/dir; ln -s /etc/hostname /tmp/file; ln -s /proc/1/environ /tmp/environ",
    )
    .await;
    let snapshot = sandbox.freeze().await.unwrap();
    let names = names(snapshot.archive().unwrap());
    assert!(names.iter().any(|name| name == "tmp/dir -> /proc/self/root/etc Symlink"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("tmp/dir/")), "{names:?}");
}

#[tokio::test]
async fn a_saved_layer_is_used_again_over_its_image() {
    let engine = engine();
    let sandbox = engine.create(request()).await.unwrap();
    sh(&sandbox, "echo kept > /opt/file; [ ! -w /usr/share ] || echo kept > /usr/share/kept").await;
    let show = "cat /opt/file; [ ! -w /usr/share ] || cat /usr/share/kept";
    let before = sh(&sandbox, show).await;
    // As a store would have it: the directory of one layer. Plain files only, so that tar(1) can make it.
    let place = tempfile::tempdir().unwrap();
    let mut archive = tar::Archive::new(sandbox.freeze().await.unwrap().archive().unwrap());
    archive.unpack(place.path()).unwrap();
    let image = Image::Over(Box::new(Image::Host), vec![place.path().to_str().unwrap().into()]);
    let sandbox = engine.create(Request { image, ..request() }).await.unwrap();
    assert_eq!(sh(&sandbox, show).await, before);
    sh(&sandbox, "ls /usr/bin/perl").await;
}

#[tokio::test]
async fn while_it_is_paused_nothing_moves() {
    let sandbox = engine().create(request()).await.unwrap();
    sh(&sandbox, "(while :; do echo x >> /tmp/ticks; done) >/dev/null 2>&1 &").await;
    let size = |sandbox: Sandbox| async move {
        let size = sandbox.stat("/tmp/ticks").await.unwrap().map_or(0, |stat| stat.size);
        (size, sandbox)
    };
    sandbox.session().pause().await.unwrap();
    let (before, sandbox) = size(sandbox).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let (after, sandbox) = size(sandbox).await;
    assert_eq!(before, after);
    sandbox.session().resume().await.unwrap();
    let mut sandbox = sandbox;
    for _ in 0..500 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let (now, same) = size(sandbox).await;
        sandbox = same;
        if now > after {
            return;
        }
    }
    panic!("it does not go on");
}

/// What an agent could do to whoever judges its work.
const TAMPER: &str = "
    echo work > /srv/answer
    rm -rf /etc && ln -s /srv /etc
    rm -f /bin && mkdir /bin && printf '#!/usr/bin/perl\nprint qq(fooled\\n)' > /bin/sh && chmod 755 /bin/sh
    mkdir -p /lib32 && echo evil > /lib32/x
    if [ -w /usr/share ]; then printf '#!/usr/bin/perl\nprint qq(fooled\\n)' > /usr/bin/cat; fi; true";

#[tokio::test]
async fn whoever_judges_has_the_programs_of_before() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    sh(&first, "[ ! -w /usr/share ] || printf '#!/bin/sh\\necho helper' > /usr/bin/helper; echo before > /etc/setting; chmod 755 /usr/bin/helper || true").await;
    let prepared = first.freeze().await.unwrap();
    let second = fork(&engine, &prepared).await;
    let done =
        exec(&second, command(&["/usr/bin/perl", "-e", "exec '/bin/sh', '-c', $ARGV[0]", TAMPER])).await.unwrap();
    assert_eq!(done.outcome, sandbox::Outcome::Exited(0), "{}", String::from_utf8_lossy(&done.stderr));
    let left = second.freeze().await.unwrap();
    let scene = |system: System| {
        let request = Request { begin_with: Some(left.clone()), system, ..request() };
        let engine = engine.clone();
        async move { engine.create(request).await.unwrap() }
    };
    // As it was left, even a shell is the agent's.
    let fooled = exec(&scene(System::AsLeft).await, command(&["/bin/sh", "-c", "cat /srv/answer"])).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&fooled.stdout), "fooled\n");
    let judge = scene(System::Before { snapshot: Some(prepared.clone()), declared: Vec::new() }).await;
    let seen = sh(&judge, "cat /srv/answer /etc/setting; ls /lib32 2>/dev/null; ls -d /etc/passwd; [ ! -w /usr/share ] || ls /usr/bin/helper").await;
    assert!(seen.starts_with("work\nbefore\n/etc/passwd") && !seen.contains("evil"), "{seen}");
    assert_eq!(seen.contains("helper"), is_root());
    // The image's own: nothing of what was prepared either.
    let seen = sh(
        &scene(System::Before { snapshot: None, declared: Vec::new() }).await,
        "cat /srv/answer; ls /etc/setting /usr/bin/helper 2>&1; true",
    )
    .await;
    assert!(seen.starts_with("work\n") && seen.matches("No such file").count() == 2, "{seen}");
}

#[tokio::test]
async fn marks_that_an_agent_writes_mean_nothing() {
    let engine = engine();
    let first = engine.create(request()).await.unwrap();
    // As root's overlay spells it, nobody may write it; the other spelling is an attribute like any other.
    let mark = "setxattr('/etc', 'user.overlay.opaque', 'y')";
    let program = format!(
        "require 'syscall.ph' if 0; sub setxattr {{ my ($p, $n, $v) = @_; syscall(188, $p, $n, $v, length $v, 0) }} {mark}; print 'done'"
    );
    let _ = exec(&first, command(&["perl", "-e", &program])).await.unwrap();
    sh(&first, "touch /etc/new").await;
    let names = names(first.freeze().await.unwrap().archive().unwrap());
    assert!(!names.iter().any(|name| name.contains("etc/.wh..wh..opq")), "{names:?}");
}

#[tokio::test]
async fn holes_stay_holes_when_layers_become_one() {
    let engine = engine();
    let mut sandbox = engine.create(request()).await.unwrap();
    // Far larger than the machine's memory, with a little at each end.
    sh(&sandbox, "echo begin > /tmp/sparse; truncate -s 4T /tmp/sparse; echo end >> /tmp/sparse").await;
    for _ in 0..27 {
        sandbox = fork(&engine, &sandbox.freeze().await.unwrap()).await;
    }
    let seen =
        sh(&sandbox, "head -n 1 /tmp/sparse; tail -c 4 /tmp/sparse; stat -c %s /tmp/sparse; du -k /tmp/sparse").await;
    assert!(seen.starts_with("begin\nend\n4398046511108\n"), "{seen}");
}

/// Takes the first bytes, and waits before it takes the rest.
struct Slow(Vec<u8>);

impl std::io::Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigcont_by_a_timer_in_a_sandbox_that_is_saved() {
    // A SIGSTOP discards a SIGCONT that is pending, and the kernel does not rearm that timer: such a try attacks nothing.
    for _ in 0..5 {
        if saved_beside_a_timer().await.is_err() {
            assert!(!is_root(), "a control group holds it");
            return;
        } else if is_root() {
            return;
        }
    }
    panic!("the timer did nothing in five tries");
}

/// Saves a sandbox in which a timer undoes each stop. What is saved is of one moment, else the snapshot is refused.
async fn saved_beside_a_timer() -> Result<(), String> {
    // Two counters, archived with far more than fits into buffers between them; a timer sends SIGCONT every 20 ms.
    const COUNTING: &str = "
        $SIG{CONT} = sub {}; # A signal that is ignored rearms no timer.
        my ($event, $id) = (pack('q i i x48', 0, 18, 0), pack('i', 0));
        syscall(222, 1, $event, $id) == 0 or die \"timer_create: $!\";
        my $every = pack('q4', 0, 20_000_000, 0, 20_000_000);
        syscall(223, unpack('i', $id), 0, $every, 0) == 0 or die \"timer_settime: $!\";
        sub put { open my $f, '+<', \"/srv/$_[0]\" or die; syswrite $f, sprintf('%012d', $_[1]); close $f }
        for my $n (1 .. 999_999_999_999) { put('a', $n); put('z', $n); if ($n == 1) { $| = 1; print 'ready' } }";
    let sandbox = engine().create(request()).await.unwrap();
    sh(&sandbox, "cd /srv && printf %012d 0 > a && head -c 24000000 /dev/urandom > m && cp a z").await;
    let mut counting = sandbox.start(command(&["perl", "-e", COUNTING])).unwrap();
    assert!(matches!(counting.next().await, sandbox::Event::Output(..)));
    let place = tempfile::tempdir().unwrap();
    let listener = tokio::net::UnixListener::bind(place.path().join("socket")).unwrap();
    let serving = tokio::spawn(sandbox::share(sandbox.session().clone(), sandbox.changes(), listener));
    let client = Sandbox::join(&place.path().join("socket")).await.unwrap();
    let mut taken = Slow(Vec::new());
    let saved = client.save(&mut taken).await.map_err(|error| error.to_string());
    match &saved {
        Ok(_) => {
            let counters = ["a", "z"].map(|name| {
                let mut archive = tar::Archive::new(taken.0.as_slice());
                let mut entries = archive.entries().unwrap().map(Result::unwrap);
                let mut entry = entries.find(|entry| entry.path().unwrap().ends_with(name)).unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                text.parse::<u64>().unwrap()
            });
            let [first, last] = counters;
            assert!(first == last || first == last + 1, "both are of one moment: {counters:?}");
        }
        Err(message) => {
            let says = message.contains("ran while the sandbox was paused") || message.contains("stand still");
            assert!(says, "{message}");
        }
    }
    // It goes on.
    let before = sandbox.read_file("/srv/z", 100).await.unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while sandbox.read_file("/srv/z", 100).await.unwrap() == before {
        assert!(std::time::Instant::now() < deadline, "it does not go on");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    serving.abort();
    saved.map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_sandbox_can_be_ended() {
    let engine = engine();
    let sandbox = engine.create(request()).await.unwrap();
    let mut running = sandbox.start(command(&["sh", "-c", "echo ready; while :; do :; done"])).unwrap();
    assert!(matches!(running.next().await, sandbox::Event::Output(..)));
    sh(&sandbox, "head -c 24000000 /dev/urandom > /srv/m").await;
    let place = tempfile::tempdir().unwrap();
    let listener = tokio::net::UnixListener::bind(place.path().join("socket")).unwrap();
    let serving = tokio::spawn(sandbox::share(sandbox.session().clone(), sandbox.changes(), listener));
    let client = Sandbox::join(&place.path().join("socket")).await.unwrap();
    let saving = tokio::spawn(async move { client.save(&mut Slow(Vec::new())).await });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(10), sandbox.stop()).await;
    stopped.expect("a frozen sandbox is ended all the same").unwrap();
    saving.abort();
    serving.abort();
}
