//! The agent inside the box: root in its namespaces, hostile, patient. Every test is named by its attack.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod common;

use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

use common::{MIB, command, create, create_as, create_with_mount, engine, errno, exec, is_root, perl, request, sh};
use jail::cgroups::Limits;
use sandbox::{Exec, FailureKind, Outcome, Overflow, Request, SessionError, User, WindowSize};

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
const EAFNOSUPPORT: i32 = 97;

/// Attacks that are one system call, refused by the filter with a certain error.
macro_rules! refused_calls {
    ($($attack:ident: $($number:literal($arguments:literal) = $errno:expr),+;)+) => {
        $(#[tokio::test]
        async fn $attack() {
            let sandbox = create().await;
            $(assert_eq!(errno(&sandbox, $number, $arguments).await, $errno, "call {}", $number);)+
            sandbox.stop().await.unwrap();
        })+
    };
}

refused_calls! {
    nested_userns: 272("0x10000000") = EPERM, 56("0x10000011, 0, 0, 0, 0") = EPERM, 435("0, 0") = ENOSYS, 308("3, 0") = EPERM;
    keyctl: 250("0, -3, 0, 0, 0") = EPERM;
    add_key: 248("'user', 'x', 'y', 1, -3") = EPERM, 249("'user', 'x', 0, -3") = EPERM;
    io_uring: 425("8, 0") = ENOSYS, 426("3, 0, 0, 0, 0, 0") = ENOSYS, 427("3, 0, 0, 0") = ENOSYS;
    bpf: 321("0, 0, 0") = EPERM;
    perf_event: 298("0, 0, -1, -1, 0") = EPERM;
    userfaultfd: 323("0") = EPERM;
    kexec: 246("0, 0, 0, 0") = EPERM, 320("0, 0, 0, 0, 0") = EPERM;
    module_load: 175("0, 0, ''") = EPERM, 313("0, '', 0") = EPERM, 176("'x', 0") = EPERM;
    af_vsock: 41("40, 1, 0") = EAFNOSUPPORT;
    af_packet: 41("17, 3, 0") = EAFNOSUPPORT;
    af_alg: 41("38, 5, 0") = EAFNOSUPPORT;
    af_key: 41("15, 3, 2") = EAFNOSUPPORT;
    af_xdp: 41("44, 3, 0") = EAFNOSUPPORT;
    netlink_other_than_route: 41("16, 3, 12") = EAFNOSUPPORT, 41("16, 3, 9") = EAFNOSUPPORT, 41("16, 3, 0") = 0;
    raw_icmp: 41("2, 3, 1") = EAFNOSUPPORT, 41("10, 3, 58") = EAFNOSUPPORT;
    clock_set: 164("0, 0") = EPERM, 227("0, 0") = EPERM, 159("0") = EPERM;
    open_by_handle: 304("3, 0, 0") = EPERM;
    new_mount_calls: 430("'tmpfs', 0") = EPERM, 428("-100, '/', 1") = EPERM, 429("3, '', -100, '/', 4") = EPERM, 442("-100, '/', 0, 0, 0") = EPERM;
}

#[tokio::test]
async fn hostname_set() {
    let before = rustix::system::uname().nodename().to_owned();
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 170, "'owned', 5").await, EPERM);
    assert_eq!(sh(&sandbox, "cat /proc/sys/kernel/hostname").await, "sandbox");
    assert_eq!(rustix::system::uname().nodename(), before.as_c_str());
}

#[tokio::test]
async fn nested_mount() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 165, "'none', '/tmp', 'tmpfs', 0, 0").await, EPERM);
    assert_eq!(errno(&sandbox, 166, "'/proc/sys', 2").await, EPERM, "unmounting a cover");
    assert_eq!(errno(&sandbox, 155, "'/tmp', '/tmp'").await, EPERM, "pivot_root");
}

#[tokio::test]
async fn proc_sys_write() {
    let sandbox = create().await;
    let script =
        "for f in $(find /proc/sys -type f 2>/dev/null); do (printf 1 >> $f) 2>/dev/null && echo $f; done; true";
    assert_eq!(sh(&sandbox, script).await, "", "writable files");
}

#[tokio::test]
async fn core_pattern() {
    let before = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let sandbox = create().await;
    let script = "echo '|/tmp/evil' > /proc/sys/kernel/core_pattern 2>/dev/null && echo written; ulimit -c";
    let completed = exec(&sandbox, command(&["sh", "-c", script])).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "0");
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
}

#[tokio::test]
async fn sysrq() {
    let sandbox = create().await;
    let kind = sh(&sandbox, "stat -c %F:%t:%T /proc/sysrq-trigger 2>/dev/null || echo absent").await;
    assert!(kind == "absent" || kind == "character special file:1:3", "{kind}");
    assert_eq!(sh(&sandbox, "test -w /proc/sys/kernel/sysrq && echo writable || echo no").await, "no");
}

#[tokio::test]
async fn release_agent() {
    let sandbox = create().await;
    assert_eq!(
        sh(
            &sandbox,
            "find / -xdev -name release_agent 2>/dev/null; find /sys /proc -name release_agent 2>/dev/null | head -3"
        )
        .await,
        ""
    );
    assert_eq!(errno(&sandbox, 165, "'none', '/mnt', 'cgroup', 0, 'rdma'").await, EPERM);
}

#[tokio::test]
async fn cgroup_escape() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "grep -c cgroup /proc/self/mountinfo || true").await, "0");
    if is_root() {
        // Its own group is the root of what it sees, in the hierarchies that it was put into.
        let groups = sh(&sandbox, "grep -E ':(memory|pids|cpu):|^0::' /proc/self/cgroup | cut -d: -f3 | sort -u").await;
        assert!(groups.lines().all(|group| group == "/"), "{groups}");
    }
}

#[tokio::test]
async fn ptrace_guest() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 101, "16, 1, 0, 0").await, EPERM, "attach");
    assert_eq!(errno(&sandbox, 101, "0x4206, 1, 0, 0").await, EPERM, "seize");
    for file in ["mem", "environ", "maps", "auxv", "syscall"] {
        let text = sh(&sandbox, &format!("head -c 1 /proc/1/{file} 2>/dev/null | wc -c")).await;
        assert_eq!(text, "0", "/proc/1/{file}");
    }
    assert_eq!(sh(&sandbox, "for f in /proc/1/fd/*; do readlink $f; done 2>/dev/null | wc -l").await, "0");
    // The keepers of commands are copies of the guest: the same holds for them.
    assert_eq!(sh(&sandbox, "head -c 1 /proc/$PPID/mem 2>/dev/null | wc -c").await, "0");
}

#[tokio::test]
async fn signal_guest() {
    let sandbox = create().await;
    sh(&sandbox, "for s in 1 2 3 6 9 11 13 15 19 20; do kill -$s 1 2>/dev/null; done; true").await;
    assert_eq!(sh(&sandbox, "echo alive").await, "alive");
}

#[tokio::test]
async fn kill_zygote() {
    let engine = engine();
    let (first, second) = (engine.create(request()).await.unwrap(), engine.create(request()).await.unwrap());
    // Everything that it can see, and every number there is.
    let script = "kill -9 -1; for p in $(seq 2 4000); do kill -9 $p 2>/dev/null; done; true";
    let _ = exec(&first, command(&["sh", "-c", script])).await.unwrap();
    assert_eq!(sh(&second, "echo alive").await, "alive");
    assert!(std::path::Path::new(&format!("/proc/{}", engine.helper())).exists());
    assert_eq!(sh(&first, "echo alive").await, "alive");
}

#[tokio::test]
async fn kill_keeper_kills_its_own_tree_only() {
    let sandbox = create().await;
    let other = sandbox.start(command(&["sleep", "1000"])).unwrap();
    let completed =
        exec(&sandbox, command(&["sh", "-c", "setsid sleep 777 & kill -9 $PPID; sleep 5; echo still"])).await.unwrap();
    assert_eq!(completed.outcome, Outcome::Signalled(9));
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "", "what hung under the keeper is ended, not orphaned");
    let deadline = Instant::now() + Duration::from_secs(5);
    while sh(&sandbox, "pgrep -fc '^sleep 777' || true").await != "0" {
        assert!(Instant::now() < deadline, "an orphan lives");
    }
    assert_eq!(sh(&sandbox, "pgrep -fc '^sleep 1000'").await, "1");
    drop(other);
}

/// The keeper of a command to come waits where the workload can reach it.
#[tokio::test]
async fn a_waiting_keeper_that_is_killed_or_stopped_costs_at_most_one_command() {
    // Children of the guest but for the keeper of who looks, once the guest has had nothing to do.
    let signal = |signal: &str| {
        format!(
            "sleep 0.2; for stat in /proc/[0-9]*/stat; do read pid name state parent rest < $stat; \
             if [ $parent = 1 ] && [ $pid != $PPID ]; then kill -{signal} $pid && echo $pid; fi; done"
        )
    };
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, &signal("KILL")).await.lines().count(), 1, "one waits");
    assert_eq!(sh(&sandbox, "echo fine").await, "fine");
    assert_eq!(sh(&sandbox, &signal("STOP")).await.lines().count(), 1, "and one again");
    let start = Instant::now();
    let stuck = exec(&sandbox, Exec { timeout_ms: Some(300), ..command(&["true"]) }).await.unwrap();
    assert_eq!(stuck.outcome, Outcome::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(sh(&sandbox, "echo fine").await, "fine");
    // The guest, the keeper of who looks, its three processes; and one that waits, if it was made already.
    let left = sh(&sandbox, "sleep 0.2; ls -d /proc/[0-9]* | wc -l").await.parse::<u32>().unwrap();
    assert!(matches!(left, 5 | 6), "none is left: {left}");
}

#[tokio::test]
async fn leaked_fds() {
    let sandbox = create().await;
    assert_eq!(
        sh(&sandbox, "for f in /proc/self/fd/*; do readlink $f; done | grep -v -E '^pipe:|^/proc/' || true").await,
        ""
    );
    let program = "for my $fd (3..1023) { open(my $h, '<&=', $fd) and print \"$fd \" }";
    assert_eq!(perl(&sandbox, program).await, "");
}

#[tokio::test]
async fn leaked_cwd() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "pwd; readlink /proc/self/cwd").await, "/root\n/root");
    assert_eq!(sh(&sandbox, "cat ../../../../../../etc/hostname").await, "sandbox");
    let exec = Exec { cwd: Some("/proc/self/fd/3/../..".into()), ..command(&["pwd"]) };
    assert!(matches!(common::exec(&sandbox, exec).await, Err(SessionError::Failed { .. })));
}

#[tokio::test]
async fn proc_self_exe_overwrite() {
    let sandbox = create().await;
    for path in ["/proc/1/exe", "/proc/$PPID/exe"] {
        assert_eq!(
            sh(&sandbox, &format!("(echo x > {path}) 2>/dev/null && echo written || echo refused")).await,
            "refused"
        );
    }
    // CVE-2019-5736: a command that is a link to its own starter.
    sh(&sandbox, "ln -s /proc/self/exe /tmp/self").await;
    let result = exec(&sandbox, command(&["/tmp/self"])).await;
    assert!(!matches!(&result, Ok(completed) if completed.outcome == Outcome::Exited(0)), "{result:?}");
    assert_eq!(sh(&sandbox, "echo alive").await, "alive");
}

#[tokio::test]
async fn proc_root_walk() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "ls /proc/1/root/ 2>/dev/null | wc -l; ls /proc/1/cwd/ 2>/dev/null | wc -l").await, "0\n0");
    assert_eq!(sh(&sandbox, "cat /proc/self/root/../../etc/hostname").await, "sandbox");
}

#[tokio::test]
async fn host_pids_visible() {
    let own = std::process::id();
    let sandbox = create().await;
    let pids = sh(&sandbox, "ls /proc | grep -E '^[0-9]+$' | wc -l").await;
    assert!(pids.parse::<u32>().unwrap() < 10, "{pids}");
    assert_eq!(errno(&sandbox, 62, &format!("{own}, 0")).await, 3, "no such process");
}

#[tokio::test]
async fn mountinfo_leaks_paths() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = create_with_mount(directory.path(), "/data", false).await;
    for file in ["mountinfo", "mounts", "mountstats", "cgroup", "maps", "status"] {
        let text = sh(&sandbox, &format!("cat /proc/self/{file}")).await;
        for leak in [env!("CARGO_MANIFEST_DIR"), "/home/", "/dev/vd", "/dev/sd", "/dev/nvme"] {
            assert!(!text.contains(leak), "{file} has {leak}: {text}");
        }
    }
}

#[tokio::test]
async fn mknod() {
    let sandbox = create().await;
    for (mode, device) in [("0020666", 0x0101), ("0060666", 0x0800), ("0020666", 0x0105)] {
        assert_eq!(errno(&sandbox, 133, &format!("'/tmp/node', {mode}, {device}")).await, EPERM);
    }
}

#[tokio::test]
async fn raw_disk() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "find /dev -type b; ls /dev | grep -E '^(sd|vd|nvme|loop|dm)' || true").await, "");
    assert_eq!(sh(&sandbox, "ls /sys | wc -l").await, "0");
}

#[tokio::test]
async fn dev_mem() {
    let sandbox = create().await;
    let nodes = sh(&sandbox, "for f in $(find /dev); do test -c $f && printf '%s ' $f; done; true").await;
    let mut nodes: Vec<&str> = nodes.split_whitespace().collect();
    nodes.sort_unstable();
    let expected = ["/dev/full", "/dev/null", "/dev/ptmx", "/dev/pts/ptmx", "/dev/random", "/dev/urandom", "/dev/zero"];
    assert_eq!(nodes.into_iter().filter(|node| *node != "/dev/tty").collect::<Vec<_>>(), expected);
    assert_eq!(
        sh(
            &sandbox,
            "ls /proc/kcore 2>/dev/null | wc -l; head -c1 /proc/kallsyms | wc -c; head -c1 /proc/keys | wc -c"
        )
        .await,
        "0\n0\n0"
    );
}

#[tokio::test]
async fn setuid_gain() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "grep NoNewPrivs /proc/self/status | cut -f2").await, "1");
    if is_root() {
        sh(&sandbox, "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id").await;
        let exec = Exec { user: User::Named("agent".into()), ..command(&["/tmp/id", "-u"]) };
        assert_eq!(common::exec(&sandbox, exec).await.unwrap().stdout, b"1000\n");
    }
}

#[tokio::test]
async fn setuid_works_where_it_is_allowed_and_stays_inside() {
    if !is_root() {
        return;
    }
    let sandbox = engine().create(Request { allow_setuid: true, ..request() }).await.unwrap();
    sh(&sandbox, "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id").await;
    let exec = Exec { user: User::Named("agent".into()), ..command(&["/tmp/id", "-u"]) };
    assert_eq!(common::exec(&sandbox, exec).await.unwrap().stdout, b"0\n", "root inside");
    // Filter and capabilities are the same: it is root of nothing but its own.
    assert_eq!(errno(&sandbox, 272, "0x10000000").await, EPERM);
    assert_eq!(errno(&sandbox, 165, "'none', '/tmp', 'tmpfs', 0, 0").await, EPERM);
    let status = sh(&sandbox, "grep -E 'Seccomp:|NoNewPrivs|CapBnd' /proc/self/status | tr -d '\\t\\n'").await;
    assert!(
        status.contains("Seccomp:2") && status.contains("NoNewPrivs:0") && status.contains("CapBnd:00000000200005fb"),
        "{status}"
    );
}

#[tokio::test]
async fn file_caps_gain() {
    let sandbox = create().await;
    if is_root() {
        // All capabilities, permitted and effective, in the on-disk form of version 2.
        let program = "my @a = ('/tmp/grep', 'security.capability', pack('V5', 0x02000001, 0xffffffff, 0, 0xff, 0), 20, 0); print syscall(188, @a)";
        sh(&sandbox, &format!("cp /usr/bin/grep /tmp/grep; perl -e \"{}\"", program.replace('$', "\\$"))).await;
        let exec = Exec { user: User::Named("agent".into()), ..command(&["/tmp/grep", "CapEff", "/proc/self/status"]) };
        // The kernel refuses to run it, or runs it without what it promises.
        match common::exec(&sandbox, exec).await {
            Ok(completed) => assert_eq!(completed.stdout, b"CapEff:\t0000000000000000\n"),
            Err(error) => {
                assert!(matches!(error, SessionError::Failed { kind: FailureKind::PermissionDenied, .. }), "{error}");
            }
        }
    }
    let bounding = sh(&sandbox, "grep CapBnd /proc/self/status | cut -f2").await;
    // SYS_ADMIN, SYS_PTRACE, SYS_MODULE, NET_ADMIN, NET_RAW, MKNOD, SYS_RAWIO, SYS_CHROOT, BPF: none of them.
    let forbidden =
        (1 << 21) | (1 << 19) | (1 << 16) | (1 << 12) | (1 << 13) | (1 << 27) | (1 << 17) | (1 << 18) | (1 << 39);
    assert_eq!(u64::from_str_radix(&bounding, 16).unwrap() & forbidden, 0, "{bounding}");
}

#[tokio::test]
async fn ambient_caps() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "grep CapAmb /proc/self/status | cut -f2").await, "0000000000000000");
    assert_eq!(errno(&sandbox, 157, "47, 2, 21, 0, 0").await, EPERM, "raising SYS_ADMIN");
}

#[tokio::test]
async fn ptrace_sibling_sandbox() {
    let (first, second) = (create().await, create().await);
    let running = first.start(command(&["sleep", "4321"])).unwrap();
    assert_eq!(sh(&second, "pgrep -fc '^sleep 4321' || true").await, "0");
    drop(running);
}

#[tokio::test]
async fn abstract_socket_to_host() {
    let name = format!("ringfence-canary-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    // Shown to work without the control.
    std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
    let sandbox = create().await;
    let program = format!(
        "use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0); print(connect($s, pack('S a*', 1, \"\\0{name}\")) ? 'reached' : 'refused')"
    );
    assert_eq!(perl(&sandbox, &program).await, "refused");
    drop(listener);
}

#[tokio::test]
async fn host_loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let sandbox = create().await;
    let program = format!(
        "use Socket; socket(my $s, AF_INET, SOCK_STREAM, 0); print(connect($s, sockaddr_in({port}, inet_aton('127.0.0.1'))) ? 'reached' : 'refused')"
    );
    assert_eq!(perl(&sandbox, &program).await, "refused");
    assert_eq!(sh(&sandbox, "cat /proc/net/dev | grep -c :").await, "1", "only loopback");
    assert_eq!(sh(&sandbox, "wc -l < /proc/net/route").await, "1", "only the header");
}

#[tokio::test]
async fn own_loopback_works() {
    let sandbox = create().await;
    let program = "use Socket; socket(my $s, AF_INET, SOCK_STREAM, 0); bind($s, sockaddr_in(0, INADDR_LOOPBACK)); listen($s, 1); socket(my $c, AF_INET, SOCK_STREAM, 0); print connect($c, getsockname($s)) ? 'reached' : $!";
    assert_eq!(perl(&sandbox, program).await, "reached");
}

#[tokio::test]
async fn tiocsti() {
    let sandbox = create().await;
    let program = "my $c = 'x'; my $r = ioctl(STDIN, 0x5412, $c); print defined($r) ? 'typed' : $!+0";
    let exec = Exec { pty: Some(WindowSize { rows: 24, columns: 80 }), ..command(&["perl", "-e", program]) };
    let completed = common::exec(&sandbox, exec).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "1");
}

/// A file on the host that no attack may read or change.
fn canary() -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::Builder::new().prefix("ringfence-canary-").tempfile_in("/tmp").unwrap();
    file.write_all(b"host secret").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

#[tokio::test]
async fn symlink_read_escape() {
    let (_file, path) = canary();
    let sandbox = create().await;
    sh(
        &sandbox,
        &format!("ln -s {path} /root/a; ln -s ../../../../../../..{path} /root/b; ln -s /proc/1/root{path} /root/c"),
    )
    .await;
    for link in ["/root/a", "/root/b", "/root/c", &path] {
        let read = sandbox.read_file(link, 1000).await;
        assert!(matches!(&read, Err(SessionError::Failed { .. })), "{link}: {read:?}");
    }
}

#[tokio::test]
async fn symlink_write_escape() {
    let (file, path) = canary();
    let sandbox = create().await;
    sh(&sandbox, &format!("ln -s {path} /root/a; ln -s /tmp /root/b")).await;
    sandbox.write_file("/root/a", b"owned", 0o644).await.unwrap();
    sandbox.write_file(&format!("/root/b/{}", path.rsplit('/').next().unwrap()), b"owned", 0o644).await.unwrap();
    assert_eq!(sh(&sandbox, &format!("cat {path}")).await, "owned", "it was written inside");
    assert_eq!(std::fs::read(file.path()).unwrap(), b"host secret");
}

#[tokio::test]
async fn symlink_swap_race() {
    let (file, path) = canary();
    let sandbox = create().await;
    let script = format!(
        "mkdir /root/d; echo inside > /root/d/f; while :; do ln -sfn {path} /root/x; ln -sfn /root/d/f /root/x; done"
    );
    let racing = sandbox.start(command(&["sh", "-c", &script])).unwrap();
    for _ in 0..300 {
        if let Ok(bytes) = sandbox.read_file("/root/x", 1000).await {
            assert_ne!(bytes, b"host secret");
        }
        let _ = sandbox.write_file("/root/x", b"inside", 0o644).await;
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), b"host secret");
    drop(racing);
}

#[tokio::test]
async fn hardlink_escape() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("f"), "host").unwrap();
    let sandbox = create_with_mount(directory.path(), "/data", false).await;
    assert_eq!(sh(&sandbox, "cat /data/f").await, "host");
    for target in ["/data/g", "/root/g"] {
        assert_eq!(
            sh(&sandbox, &format!("ln /data/f {target} 2>/dev/null && echo linked || echo refused")).await,
            "refused"
        );
    }
    assert_eq!(sh(&sandbox, "(echo x > /data/f) 2>/dev/null && echo written || echo refused").await, "refused");
}

#[tokio::test]
async fn fifo_block_on_read() {
    let sandbox = create().await;
    sh(&sandbox, "mkfifo /root/fifo").await;
    let start = Instant::now();
    let read = sandbox.read_file("/root/fifo", 1000).await;
    assert!(matches!(read, Err(SessionError::Failed { kind: FailureKind::NotRegular, .. })), "{read:?}");
    let written = sandbox.write_file("/root/fifo", b"x", 0o644).await;
    assert!(matches!(written, Err(SessionError::Failed { kind: FailureKind::NotRegular, .. })), "{written:?}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn fifo_as_passwd() {
    let sandbox = create().await;
    sh(&sandbox, "rm -f /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group").await;
    // A guest that opened it would wait for ever.
    assert_eq!(sh(&sandbox, "echo alive").await, "alive");
    let exec = Exec { user: User::Named("agent".into()), ..command(&["true"]) };
    assert!(matches!(
        common::exec(&sandbox, exec).await,
        Err(SessionError::Failed { kind: FailureKind::UnknownUser, .. })
    ));
}

#[tokio::test]
async fn device_file_read() {
    let sandbox = create().await;
    for path in ["/dev/zero", "/dev/random", "/dev/tty"] {
        let read = sandbox.read_file(path, 1000).await;
        assert!(matches!(read, Err(SessionError::Failed { .. })), "{path}: {read:?}");
    }
}

#[tokio::test]
async fn tar_path_escape() {
    let name = format!("ringfence-escape-{}", std::process::id());
    let sandbox = create().await;
    sandbox.write_file(&format!("/root/../../../../../../tmp/{name}"), b"x", 0o644).await.unwrap();
    let script = format!(
        "cd /root && tar -cPf a.tar --transform 's,^,../../../../../../../tmp/,' /tmp/{name} && tar -xPf a.tar; true"
    );
    sh(&sandbox, &script).await;
    assert!(!std::path::Path::new("/tmp").join(&name).exists());
    assert_eq!(sh(&sandbox, &format!("cat /tmp/{name}")).await, "x", "it stayed inside");
}

#[tokio::test]
async fn sparse_file_read() {
    let sandbox = create().await;
    sh(&sandbox, "truncate -s 8E /root/sparse 2>/dev/null || truncate -s 1T /root/sparse").await;
    let read = sandbox.read_file("/root/sparse", 100 * MIB).await;
    assert!(matches!(read, Err(SessionError::Failed { kind: FailureKind::TooLarge, .. })), "{read:?}");
}

#[tokio::test]
async fn setuid_file_in_a_writable_mount() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = create_with_mount(directory.path(), "/data", true).await;
    let script = "cp /usr/bin/id /data/id; chmod 4755 /data/id; chmod 2755 /data/id; chmod u+s /data/id; install -m 4755 /usr/bin/id /data/other; \
                  perl -e 'my @a = (q(/data/made), 0102, 04755); syscall(2, @a)'; true";
    sh(&sandbox, script).await;
    for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
        assert_eq!(mode & 0o6000, 0, "{}: {mode:o}", entry.path().display());
    }
    assert!(directory.path().join("id").exists(), "it was written at all");
}

#[tokio::test]
async fn starve_the_guest() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 302, "1, 7, pack('Q2', 3, 3), 0").await, EPERM, "its descriptors");
    assert_eq!(errno(&sandbox, 144, "1, 5, pack('l', 0)").await, EPERM, "its scheduling");
    assert_eq!(errno(&sandbox, 141, "0, 1, 19").await, EPERM, "its priority");
    assert_eq!(errno(&sandbox, 141, "2, 0, 19").await, EPERM, "everybody's priority");
    // Refused, or to a place that is not its score: either way the kernel's own sum stays as it was.
    let all = "/proc/1/oom_score_adj /proc/1/task/1/oom_score_adj /proc/1/oom_adj /proc/1/task/1/oom_adj";
    let before = sh(&sandbox, &format!("cat {all}")).await;
    sh(&sandbox, &format!("for f in {all}; do chmod 666 $f; chown 0:0 $f; echo 15 > $f; done; true")).await;
    sh(&sandbox, &format!("for f in {all}; do echo 1000 > $f; done; true")).await;
    assert_eq!(sh(&sandbox, &format!("cat {all}")).await, before);
    // 667 without an adjustment, 677 with the lowest of those that were tried.
    let score: u32 = sh(&sandbox, "cat /proc/1/oom_score").await.parse().unwrap();
    assert!(score < 676, "{score}");
}

#[tokio::test]
async fn host_directory_as_image() {
    for path in ["/", "/etc", "/root", "/home", "/run"] {
        let image = jail::zygote::Image::Directory(path.into());
        let refused = engine().create(Request { image, ..request() }).await;
        assert!(matches!(&refused, Err(sandbox::StartError::Mount { .. })), "{path}: {refused:?}");
    }
}

#[tokio::test]
async fn other_commands_hold_nothing_of_ours() {
    let sandbox = create().await;
    let first = sandbox.start(command(&["cat"])).unwrap();
    let second = sandbox.start(command(&["sleep", "30"])).unwrap();
    first.input().end().await;
    let mut first = first;
    let ended = tokio::time::timeout(Duration::from_secs(5), first.next()).await.unwrap();
    assert!(matches!(ended, sandbox::Event::Ended(Outcome::Exited(0))), "{ended:?}");
    drop(second);
}

#[tokio::test]
async fn growing_file_read() {
    let sandbox = create().await;
    let read = sandbox.read_file("/proc/self/mountinfo", 10).await;
    assert!(
        matches!(read, Err(SessionError::Failed { kind: FailureKind::TooLarge, .. })),
        "a file that says it is empty: {read:?}"
    );
}

#[tokio::test]
async fn fork_bomb() {
    if !is_root() {
        // Without control groups the plan says that nothing bounds processes: there is no promise to test.
        return;
    }
    let sandbox = create().await;
    let bomb = Exec { timeout_ms: Some(1500), ..command(&["perl", "-e", "while (1) { fork }"]) };
    let running =
        tokio::time::timeout(Duration::from_secs(10), exec(&sandbox, bomb)).await.expect("the bomb was ended");
    assert_eq!(running.unwrap().outcome, Outcome::TimedOut);
    assert_eq!(sh(&sandbox, "pgrep -c perl || true").await, "0", "nothing of it is left");
}

#[tokio::test]
async fn process_limit_is_a_typed_error() {
    if !is_root() {
        return;
    }
    let sandbox = create().await;
    let filler = "my @p; while (defined(my $p = fork)) { if (!$p) { sleep 100; exit } push @p, $p } $| = 1; print 'full'; sleep 100";
    let mut full = sandbox.start(command(&["perl", "-e", filler])).unwrap();
    assert!(matches!(full.next().await, sandbox::Event::Output(..)));
    let refused = exec(&sandbox, command(&["true"])).await;
    assert!(matches!(refused, Err(SessionError::Failed { kind: FailureKind::ProcessLimit, .. })), "{refused:?}");
    // Killing needs no process.
    full.kill();
    assert!(matches!(full.next().await, sandbox::Event::Ended(Outcome::Killed)));
    assert_eq!(sh(&sandbox, "echo alive").await, "alive");
}

#[tokio::test]
async fn memory_bomb() {
    if !is_root() {
        return;
    }
    let limits = Some(Limits { memory: 64 * MIB, pids: 64, cpu_millis: 1000 });
    let sandbox = create_as(Request { limits, ..request() }).await.unwrap();
    let completed =
        exec(&sandbox, command(&["perl", "-e", "my $x = 'x' x 500_000_000; print 'survived'"])).await.unwrap();
    assert_eq!(completed.outcome, Outcome::Signalled(9));
    assert_eq!(sh(&sandbox, "echo alive").await, "alive");
}

#[tokio::test]
async fn disk_bomb() {
    let sandbox = engine().create(Request { disk: 8 * MIB, ..request() }).await.unwrap();
    let script = "dd if=/dev/zero of=/root/big bs=1M count=64 2>&1 | grep -c 'No space'; stat -c %s /root/big";
    let text = sh(&sandbox, script).await;
    let (refused, size) = text.split_once('\n').unwrap();
    assert_eq!(refused, "1");
    assert!(size.parse::<u64>().unwrap() <= 8 * MIB, "{size}");
    assert_eq!(sh(&sandbox, "rm /root/big; echo x > /root/small; cat /root/small").await, "x");
}

#[tokio::test]
async fn inode_bomb() {
    let sandbox = engine().create(Request { disk: 8 * MIB, ..request() }).await.unwrap();
    let program = "my $n = 0; while (open(my $h, '>', \"/tmp/$$-$n\")) { $n++; last if $n > 100_000 } print $n";
    let completed = exec(&sandbox, command(&["perl", "-e", program])).await.unwrap();
    let made: u64 = String::from_utf8_lossy(&completed.stdout).parse().unwrap();
    assert!(made < 3000, "{made}");
}

#[tokio::test]
async fn fd_bomb() {
    let sandbox = create().await;
    let program = "my @h; while (open(my $h, '<', '/dev/null')) { push @h, $h; last if @h > 100_000 } print scalar(@h)";
    let opened: u64 = perl(&sandbox, program).await.parse().unwrap();
    assert!(opened <= 4096, "{opened}");
}

#[tokio::test]
async fn output_bomb() {
    let sandbox = create().await;
    let bomb = command(&["sh", "-c", "head -c 100000000 /dev/zero; echo end"]);
    let kept = sandbox.exec(bomb, b"", 1 << 20, Overflow::KeepTail).await.unwrap();
    assert_eq!((kept.outcome, kept.stdout.len(), kept.truncated), (Outcome::Exited(0), 1 << 20, true));
    assert!(kept.stdout.ends_with(b"end\n"));
    let endless = command(&["cat", "/dev/zero"]);
    let killed = sandbox.exec(endless, b"", 1 << 20, Overflow::Kill).await.unwrap();
    assert_eq!(killed.outcome, Outcome::OutputLimit(sandbox::Stream::Out));
}

#[tokio::test]
async fn stdin_never_read() {
    let sandbox = create().await;
    let input = vec![b'x'; 50 << 20];
    let start = Instant::now();
    let completed = sandbox.exec(command(&["sleep", "0.2"]), &input, 1000, Overflow::KeepTail).await.unwrap();
    assert_eq!(completed.outcome, Outcome::Exited(0));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn zombie_flood() {
    let sandbox = create().await;
    let program = "for (1..300) { my $p = fork; if (!$p) { fork; exit } waitpid($p, 0) } print 'done'";
    assert_eq!(perl(&sandbox, program).await, "done");
    let deadline = Instant::now() + Duration::from_secs(5);
    while sh(&sandbox, "ps -eo stat | grep -c ^Z || true").await != "0" {
        assert!(Instant::now() < deadline, "zombies stay");
    }
}

#[tokio::test]
async fn env_leak() {
    let sandbox = create().await;
    let exec = Exec { env: vec![("GRANTED".into(), "yes".into())], ..command(&["env"]) };
    let completed = common::exec(&sandbox, exec).await.unwrap();
    let mut names: Vec<String> = String::from_utf8_lossy(&completed.stdout)
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
        .collect();
    names.sort();
    assert_eq!(names, ["GRANTED", "HOME", "PATH", "USER"]);
    assert_eq!(
        sh(&sandbox, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c CARGO || true").await,
        "0"
    );
}

#[tokio::test]
async fn home_files_visible() {
    let secret = format!("ringfence-secret-{}", std::process::id());
    let home = std::env::var("HOME").unwrap_or_else(|_| "/tmp".into());
    let mut planted = Vec::new();
    let places = [
        &home,
        "/tmp",
        "/var/tmp",
        "/opt",
        "/srv",
        "/mnt",
        "/home",
        "/root",
        "/usr/local/share",
        "/usr/local/bin",
        "/etc",
        "/etc/ssl/private",
        "/var/lib",
        "/dev/shm",
    ];
    for place in places {
        let path = std::path::Path::new(place).join(&secret);
        // Where the user may not write, there is nothing of the user's either.
        if !planted.contains(&path) && std::fs::write(&path, &secret).is_ok() {
            planted.push(path);
        }
    }
    let count = planted.len();
    let sandbox = create().await;
    let found = sh(&sandbox, &format!("find / -name {secret} 2>/dev/null; grep -rl {secret} /etc /home /root /opt /srv /mnt /tmp /var /run /usr/local /dev/shm 2>/dev/null || true")).await;
    for path in planted {
        std::fs::remove_file(path).unwrap();
    }
    assert!(count >= 3, "only {count} secrets could be planted");
    assert_eq!(found, "");
}

#[tokio::test]
async fn mount_source_socket() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("deep")).unwrap();
    let _listener = UnixListener::bind(directory.path().join("deep/daemon")).unwrap();
    let mount =
        jail::zygote::Mount { source: directory.path().to_str().unwrap().into(), target: "/x".into(), writable: false };
    let refused = create_as(Request { mounts: vec![mount], ..request() }).await;
    assert!(matches!(&refused, Err(sandbox::StartError::Mount { .. })), "{refused:?}");
    // A link to what may not be mounted is what it leads to.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/run", &link).unwrap();
    let mount = jail::zygote::Mount { source: link.to_str().unwrap().into(), target: "/x".into(), writable: false };
    assert!(matches!(
        create_as(Request { mounts: vec![mount], ..request() }).await,
        Err(sandbox::StartError::Mount { .. })
    ));
}

#[tokio::test]
async fn mount_target_through_a_link() {
    // An image whose target is a link to elsewhere must not lead the mount there.
    let image = tempfile::tempdir().unwrap();
    for name in ["proc", "dev", "sys", "tmp"] {
        std::fs::create_dir(image.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("/proc", image.path().join("data")).unwrap();
    let source = tempfile::tempdir().unwrap();
    let mount =
        jail::zygote::Mount { source: source.path().to_str().unwrap().into(), target: "/data".into(), writable: false };
    let spec = Request {
        image: jail::zygote::Image::Directory(image.path().to_str().unwrap().into()),
        mounts: vec![mount],
        ..request()
    };
    assert!(engine().create(spec).await.is_err());
}

#[tokio::test]
async fn timeout_ends_the_whole_tree_and_nothing_else() {
    let sandbox = create().await;
    sh(&sandbox, "setsid sleep 3333 >/dev/null 2>&1 & true").await;
    let tree = "setsid sh -c 'setsid sleep 4444 & sleep 4444' & (sleep 4444 &) ; sleep 4444";
    let start = Instant::now();
    let completed = exec(&sandbox, Exec { timeout_ms: Some(500), ..command(&["sh", "-c", tree]) }).await.unwrap();
    assert_eq!(completed.outcome, Outcome::TimedOut);
    assert!(start.elapsed() < Duration::from_millis(1500), "{:?}", start.elapsed());
    assert_eq!(sh(&sandbox, "pgrep -fc '^sleep 4444' || true").await, "0");
    assert_eq!(
        sh(&sandbox, "pgrep -fc '^sleep 3333'").await,
        "1",
        "the background process of an earlier command lives on"
    );
}
