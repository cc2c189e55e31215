//! Files under one root: what an agent puts in the way, and what must never come out or be written elsewhere.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::time::{Duration, Instant};

use crate::common::{command, create, create_with_mount, exec, is_root, sh};
use sandbox::{Access, Confined, FailureKind, FileKind, Sandbox, SessionError, User};

const LIMIT: u64 = 1 << 20;

fn repo(sandbox: &Sandbox) -> Confined<'_> {
    sandbox.confined("/repo", User::Default)
}

fn kind<T: std::fmt::Debug>(result: Result<T, SessionError>) -> FailureKind {
    match result {
        Err(SessionError::Failed { kind, .. }) => kind,
        other => unreachable!("{other:?}"),
    }
}

async fn works_under(sandbox: &Sandbox, root: &str) {
    let place = sandbox.confined(root, User::Default);
    place.ready(Access::Write).await.unwrap();
    assert_eq!(kind(place.read("a/b/file", LIMIT).await), FailureKind::NotFound);
    assert_eq!(place.stat("a/b/file").await.unwrap(), None);
    for text in ["first", "the second, which is longer", "", "3rd"] {
        place.write("a/b/file", text.as_bytes(), 0o640).await.unwrap();
        assert_eq!(place.read("./a//b/file", LIMIT).await.unwrap(), text.as_bytes());
    }
    let stat = place.stat("a/b/file").await.unwrap().unwrap();
    assert_eq!((stat.kind, stat.size, stat.permissions), (FileKind::File, 3, 0o640));
    let entries = place.list("a/b").await.unwrap();
    assert_eq!(entries.len(), 1, "no temporary file is left: {entries:?}");
    assert_eq!(place.list("").await.unwrap()[0].name, b"a");
    assert_eq!(kind(place.read("a/b", LIMIT).await), FailureKind::IsADirectory);
    assert_eq!(kind(place.write("a/b", b"x", 0o644).await), FailureKind::IsADirectory);
    assert_eq!(kind(place.read("", LIMIT).await), FailureKind::IsADirectory);
    assert_eq!(kind(place.write("a/b/file/c", b"x", 0o644).await), FailureKind::NotADirectory);
    assert_eq!(kind(place.list("a/b/file").await), FailureKind::NotADirectory);
    assert_eq!(kind(place.list("none").await), FailureKind::NotFound);
    place.write("big", &vec![7; 300_000], 0o644).await.unwrap();
    assert_eq!(kind(place.read("big", 299_999).await), FailureKind::TooLarge);
    assert_eq!(place.read("big", 300_000).await.unwrap().len(), 300_000);
}

#[tokio::test]
async fn files_under_a_root_are_read_written_and_listed() {
    works_under(&create().await, "/repo").await;
    let local = sandbox::start_local().await.unwrap();
    let root = sh(&local, "mktemp -d").await;
    works_under(&local, &format!("{root}/made")).await;
    sh(&local, &format!("rm -r {root}")).await;
}

#[tokio::test]
async fn traversal_out_of_the_root() {
    let sandbox = create().await;
    sh(&sandbox, "mkdir -p /repo/a && echo out > /outside").await;
    for path in ["..", "../outside", "a/../../outside", "a/..", "./../outside"] {
        assert_eq!(kind(repo(&sandbox).read(path, LIMIT).await), FailureKind::PermissionDenied, "{path}");
        assert_eq!(kind(repo(&sandbox).write(path, b"x", 0o644).await), FailureKind::PermissionDenied, "{path}");
        assert_eq!(kind(repo(&sandbox).list(path).await), FailureKind::PermissionDenied, "{path}");
    }
    for path in ["/outside", "/repo/a", "a\0b"] {
        assert_eq!(kind(repo(&sandbox).read(path, LIMIT).await), FailureKind::Invalid, "{path}");
    }
    assert_eq!(kind(repo(&sandbox).read(&"x/".repeat(3000), LIMIT).await), FailureKind::Invalid);
    assert_eq!(kind(repo(&sandbox).read(&"x".repeat(3 << 20), LIMIT).await), FailureKind::Invalid);
    let relative = sandbox.confined("repo", User::Default);
    assert_eq!(kind(relative.read("a", LIMIT).await), FailureKind::Invalid);
    assert_eq!(sh(&sandbox, "cat /outside").await, "out");
}

#[tokio::test]
async fn links_are_not_followed_wherever_they_stand() {
    let sandbox = create().await;
    let script = "mkdir -p /repo/real /srv/root && cd /repo && ln -s /etc etc && ln -s real inside && ln -s /etc/passwd file && \
        echo x > real/file && ln -s ../repo/real/file here && ln -s nowhere dangling && ln -s /srv /link && ln -s /srv/root /root-link";
    sh(&sandbox, script).await;
    for path in ["etc/passwd", "file", "inside/file", "here", "dangling", "etc"] {
        assert_eq!(kind(repo(&sandbox).read(path, LIMIT).await), FailureKind::Link, "{path}");
        assert_eq!(kind(repo(&sandbox).write(path, b"x", 0o644).await), FailureKind::Link, "{path}");
    }
    for path in ["etc", "inside"] {
        assert_eq!(kind(repo(&sandbox).list(path).await), FailureKind::Link, "{path}");
    }
    assert_eq!(repo(&sandbox).stat("file").await.unwrap().unwrap().kind, FileKind::Link);
    // The root itself, and what leads to it.
    for root in ["/root-link", "/link/root"] {
        let place = sandbox.confined(root, User::Default);
        assert_eq!(kind(place.ready(Access::Read).await), FailureKind::Link, "{root}");
        assert_eq!(kind(place.write("x", b"x", 0o644).await), FailureKind::Link, "{root}");
    }
    assert_eq!(sh(&sandbox, "ls /srv/root; test -e /repo/nowhere || echo none").await, "none");
}

#[tokio::test]
async fn magic_links_and_the_kernels_own_files() {
    let sandbox = create().await;
    let all = sandbox.confined("/", User::Default);
    for path in ["proc/self/status", "proc/1/root/etc/passwd", "proc/1/cwd/x", "proc/1/exe", "proc/1/fd/3", "dev/stdin"]
    {
        let refused = kind(all.read(path, LIMIT).await);
        assert!(matches!(refused, FailureKind::Link | FailureKind::PermissionDenied), "{path}: {refused:?}");
    }
    for path in ["proc/1/status", "proc/uptime"] {
        assert_eq!(kind(all.read(path, LIMIT).await), FailureKind::NotRegular, "{path}");
    }
    assert!(all.write("proc/sys/kernel/core_pattern", b"x", 0o644).await.is_err());
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_refused_without_waiting() {
    let sandbox = create().await;
    let script = "mkdir -p /repo && cd /repo && mkfifo pipe && \
        perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"/repo/socket\")) or die'";
    sh(&sandbox, script).await;
    let start = Instant::now();
    for path in ["pipe", "socket"] {
        assert_eq!(kind(repo(&sandbox).read(path, LIMIT).await), FailureKind::NotRegular, "{path}");
        assert_eq!(kind(repo(&sandbox).write(path, b"x", 0o644).await), FailureKind::NotRegular, "{path}");
    }
    let devices = sandbox.confined("/dev", User::Default);
    for path in ["zero", "null", "tty"] {
        let refused = kind(devices.read(path, LIMIT).await);
        assert!(matches!(refused, FailureKind::NotRegular | FailureKind::NotFound), "{path}: {refused:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(sh(&sandbox, "test -p /repo/pipe && test -S /repo/socket && echo still").await, "still");
}

#[tokio::test]
async fn huge_and_sparse_files_are_refused_before_they_are_read() {
    let sandbox = create().await;
    sh(&sandbox, "mkdir -p /repo && truncate -s 1T /repo/sparse || truncate -s 50G /repo/sparse").await;
    let start = Instant::now();
    assert_eq!(kind(repo(&sandbox).read("sparse", LIMIT).await), FailureKind::TooLarge);
    // Reading 50 GB takes longer than this on any machine.
    assert!(start.elapsed() < Duration::from_secs(5));
    // It is replaced, not filled.
    repo(&sandbox).write("sparse", b"small", 0o644).await.unwrap();
    assert_eq!(repo(&sandbox).read("sparse", LIMIT).await.unwrap(), b"small");
}

#[tokio::test]
async fn a_file_that_grows_is_read_to_its_limit() {
    let sandbox = create().await;
    sh(&sandbox, "mkdir -p /repo && echo > /repo/log").await;
    let grow = "while :; do head -c 100000 /dev/zero >> /repo/log; [ $(stat -c %s /repo/log) -gt 8000000 ] && : > /repo/log; done";
    let growing = sandbox.start(command(&["sh", "-c", grow])).unwrap();
    let end = Instant::now() + Duration::from_secs(1);
    let mut refused = 0;
    while Instant::now() < end {
        match repo(&sandbox).read("log", 500_000).await {
            Ok(bytes) => assert!(bytes.len() <= 500_000),
            other => {
                assert_eq!(kind(other), FailureKind::TooLarge);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    drop(growing);
}

#[tokio::test]
async fn hard_links_are_neither_read_nor_written() {
    let sandbox = create().await;
    sh(&sandbox, "mkdir -p /repo && echo secret > /srv/secret && ln /srv/secret /repo/notes").await;
    assert_eq!(kind(repo(&sandbox).read("notes", LIMIT).await), FailureKind::HardLink);
    assert_eq!(kind(repo(&sandbox).write("notes", b"x", 0o644).await), FailureKind::HardLink);
    assert_eq!(sh(&sandbox, "cat /srv/secret").await, "secret");
}

#[tokio::test]
async fn a_write_is_whole_and_reaches_no_other_name() {
    let sandbox = create().await;
    let (a, b) = (vec![b'a'; 200_000], vec![b'b'; 200_000]);
    repo(&sandbox).write("file", &a, 0o644).await.unwrap();
    // Whoever has it open keeps what it was; whoever opens it sees one of both, whole.
    let script = "exec 3< /repo/file; for i in $(seq 300); do \
        n=$(fold -w1 /repo/file | sort | uniq -c | tr -d ' \\n'); case $n in 200000a|200000b) ;; *) echo $n;; esac; \
        test -e /repo/done && break; done; head -c1 <&3";
    let reading = sandbox.start(command(&["sh", "-c", script])).unwrap();
    for round in 0..100 {
        repo(&sandbox).write("file", if round % 2 == 0 { &b } else { &a }, 0o644).await.unwrap();
    }
    repo(&sandbox).write("file", &b, 0o644).await.unwrap();
    repo(&sandbox).write("done", b"", 0o644).await.unwrap();
    let mut reading = reading;
    let mut printed = Vec::new();
    loop {
        match reading.next().await {
            sandbox::Event::Output(_, bytes) => printed.extend(bytes),
            sandbox::Event::Ended(_) => break,
            other => unreachable!("{other:?}"),
        }
    }
    assert!(matches!(printed.as_slice(), b"a" | b"b"), "{}", String::from_utf8_lossy(&printed));
}

#[tokio::test]
async fn a_write_that_is_given_up_leaves_nothing() {
    let sandbox = create().await;
    repo(&sandbox).write("file", b"old", 0o644).await.unwrap();
    let huge = vec![0; 40 << 20];
    let given_up = tokio::time::timeout(Duration::from_millis(5), repo(&sandbox).write("file", &huge, 0o644)).await;
    assert!(given_up.is_err(), "it was too fast to be given up");
    let deadline = Instant::now() + Duration::from_secs(5);
    while repo(&sandbox).list("").await.unwrap().len() != 1 {
        assert!(Instant::now() < deadline, "{:?}", repo(&sandbox).list("").await);
    }
    assert_eq!(repo(&sandbox).read("file", LIMIT).await.unwrap(), b"old");
}

#[tokio::test]
async fn a_disk_that_is_full_keeps_the_old_file() {
    let sandbox = create().await;
    repo(&sandbox).write("file", b"old", 0o644).await.unwrap();
    let huge = vec![1; 80 << 20];
    assert!(matches!(
        kind(repo(&sandbox).write("file", &huge, 0o644).await),
        FailureKind::Exhausted | FailureKind::TooLarge
    ));
    assert_eq!(repo(&sandbox).read("file", LIMIT).await.unwrap(), b"old");
    assert_eq!(repo(&sandbox).list("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn deep_paths_and_odd_names() {
    let sandbox = create().await;
    let deep = format!("{}file", "d/".repeat(500));
    repo(&sandbox).write(&deep, b"deep", 0o644).await.unwrap();
    assert_eq!(repo(&sandbox).read(&deep, LIMIT).await.unwrap(), b"deep");
    assert_eq!(kind(repo(&sandbox).write(&"n".repeat(300), b"x", 0o644).await), FailureKind::Invalid);
    for name in ["new\nline", "esc\x1b[31mred", "tab\there", "back\\slash", "-rf", "ünïcode", "*", " "] {
        repo(&sandbox).write(&format!("odd/{name}"), name.as_bytes(), 0o644).await.unwrap();
        assert_eq!(repo(&sandbox).read(&format!("odd/{name}"), LIMIT).await.unwrap(), name.as_bytes());
    }
    sh(&sandbox, "cd /repo/odd && touch \"$(printf 'bad\\377utf')\"").await;
    let names: Vec<Vec<u8>> = repo(&sandbox).list("odd").await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), 9);
    assert!(names.contains(&b"bad\xffutf".to_vec()));
}

/// What a mount shows lies below the root, as whoever wrote the document wanted. With one that is writable the filter
/// refuses `openat2`: confinement must not need it.
#[tokio::test]
async fn mounts_below_the_root() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("file"), "host").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", host.path().join("link")).unwrap();
    std::fs::hard_link(host.path().join("file"), host.path().join("second")).unwrap();
    std::fs::write(host.path().join("alone"), "alone").unwrap();
    for writable in [false, true] {
        let sandbox = create_with_mount(host.path(), "/repo/data", writable).await;
        assert_eq!(repo(&sandbox).read("data/alone", LIMIT).await.unwrap(), b"alone");
        assert_eq!(kind(repo(&sandbox).read("data/link", LIMIT).await), FailureKind::Link);
        assert_eq!(kind(repo(&sandbox).read("data/file", LIMIT).await), FailureKind::HardLink);
        let written = repo(&sandbox).write("data/new", b"new", 0o644).await;
        if writable {
            written.unwrap();
            assert_eq!(std::fs::read(host.path().join("new")).unwrap(), b"new");
        } else {
            assert_eq!(kind(written), FailureKind::PermissionDenied);
        }
    }
}

/// A process inside swaps a part of the path between a directory and a link to /etc, as fast as it can.
#[tokio::test]
async fn symlink_swap_race_under_a_root() {
    let sandbox = create().await;
    let script = "mkdir -p /repo/real && cd /repo && printf inside > real/passwd && ln -s /etc link && \
        ls -A /etc | sort > /srv/before && sha256sum /etc/passwd > /srv/sum";
    sh(&sandbox, script).await;
    // What our own writes made in the place of the directory is removed again, so that the swapping goes on.
    let directories = "chdir '/repo'; while (1) { \
        if (!-l 'place' && -d 'place') { unlink 'place/w'; rmdir 'place' } \
        rename 'real', 'place'; rename 'place', 'real'; rename 'link', 'place'; rename 'place', 'link'; }";
    // A file and a link in one step each: the shortest moment between looking and opening is hit.
    let files = "chdir '/repo'; while (1) { \
        open(T, '>', 't'); print T 'inside'; close T; rename 't', 'f'; symlink '/etc/passwd', 't'; rename 't', 'f'; }";
    let swapping = [directories, files].map(|program| sandbox.start(command(&["perl", "-e", program])).unwrap());
    let (end, mut right, mut refused) = (Instant::now() + Duration::from_secs(2), 0_u32, 0_u32);
    while Instant::now() < end {
        for (path, inside) in [("place/passwd", &b"inside"[..]), ("f", b"inside")] {
            match repo(&sandbox).read(path, LIMIT).await {
                Ok(bytes) => {
                    assert_eq!(bytes, inside, "bytes from outside");
                    right += 1;
                }
                Err(SessionError::Failed { .. }) => refused += 1,
                Err(other) => unreachable!("{other}"),
            }
        }
        if let Ok(entries) = repo(&sandbox).list("place").await {
            let own = |name: &[u8]| name == b"passwd" || name == b"w" || name.starts_with(b".ringfence-");
            assert!(entries.iter().all(|entry| own(&entry.name)), "{entries:?}");
        }
        let _ = repo(&sandbox).write("place/w", b"written", 0o644).await;
    }
    drop(swapping);
    assert!(right > 20 && refused > 20, "{right} right, {refused} refused: nothing was tried");
    assert_eq!(
        sh(&sandbox, "ls -A /etc | sort | cmp - /srv/before && sha256sum -c --quiet /srv/sum && echo same").await,
        "same"
    );
}

/// Where the agent is not root, its rights count, not the guest's.
#[tokio::test]
async fn the_users_rights_count() {
    if !is_root() {
        return; // There is one user inside.
    }
    let sandbox = create().await;
    let script = "mkdir -p /repo/open /repo/closed /repo/sticky && cd /repo && echo s > secret && chmod 600 secret && \
        echo s > closed/file && chmod 700 closed && chown agent open && chmod 1777 sticky && echo s > sticky/roots && \
        chmod 666 sticky/roots && echo r > public";
    sh(&sandbox, script).await;
    let place = sandbox.confined("/repo", User::Named("agent".into()));
    for path in ["secret", "closed/file"] {
        assert_eq!(kind(place.read(path, LIMIT).await), FailureKind::PermissionDenied, "{path}");
    }
    assert_eq!(place.read("public", LIMIT).await.unwrap(), b"r\n");
    assert_eq!(kind(place.list("closed").await), FailureKind::PermissionDenied);
    for path in ["new", "closed/new", "public", "sticky/roots", "made/new"] {
        assert_eq!(kind(place.write(path, b"x", 0o644).await), FailureKind::PermissionDenied, "{path}");
    }
    for path in ["open/new", "open/deep/er/new", "sticky/mine"] {
        place.write(path, b"x", 0o644).await.unwrap();
        assert_eq!(sh(&sandbox, &format!("stat -c %U /repo/{path}")).await, "agent");
    }
    // And the agent can go on with it by itself.
    let agent = sandbox::Exec {
        user: User::Named("agent".into()),
        ..command(&["sh", "-c", "echo y > /repo/open/deep/er/new && rm -r /repo/open/deep"])
    };
    assert_eq!(exec(&sandbox, agent).await.unwrap().outcome, sandbox::Outcome::Exited(0));
    assert_eq!(kind(place.ready(Access::Write).await), FailureKind::PermissionDenied);
    place.ready(Access::Read).await.unwrap();
    let nobody = sandbox.confined("/repo", User::Named("no-such-user".into()));
    assert_eq!(kind(nobody.read("public", LIMIT).await), FailureKind::UnknownUser);
    // As root, a file keeps its owner and its permissions.
    sh(&sandbox, "cd /repo && echo a > agents && chown agent agents && chmod 751 agents").await;
    repo(&sandbox).write("agents", b"b", 0o644).await.unwrap();
    assert_eq!(sh(&sandbox, "stat -c '%U %a' /repo/agents").await, "agent 751");
}

#[tokio::test]
async fn a_root_is_looked_at_before_it_is_used() {
    let sandbox = create().await;
    let at = |root: &str| sandbox.confined(root.to_owned(), User::Default);
    assert_eq!(kind(at("/none").ready(Access::Read).await), FailureKind::NotFound);
    at("/none/at/all").ready(Access::Write).await.unwrap();
    at("/none/at/all").ready(Access::Read).await.unwrap();
    assert_eq!(sh(&sandbox, "ls -A /none/at/all | wc -l").await, "0");
    sh(&sandbox, "echo > /file").await;
    assert_eq!(kind(at("/file").ready(Access::Read).await), FailureKind::NotADirectory);
    assert!(at("/proc").ready(Access::Write).await.is_err());
}
