//! Attacks on pools of kernel objects that the whole host shares. docs/security/kernel-pools.md lists the pools.
//!
//! Every attack is bounded. What takes from the BPF pool is tried at most 64 times: beyond that it can stop a kernel.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox::{Event, Exec, Outcome, Sandbox};

use crate::attacks::{EINVAL, ENOPROTOOPT, ENOSYS, EPERM};
use crate::common::{MIB, command, create, errno, exec, is_docker, is_root, perl, sh};

/// One accepting instruction, as `struct sock_fprog` in `$program`.
const FILTER: &str = "my $code = pack('SCCL', 6, 0, 0, 0x7fff0000); my $program = pack('Sx6P', 1, $code); ";
/// A TCP socket in `$socket`, a number.
const SOCKET: &str = "my $socket = syscall(41, 2, 1, 0); die $! if $socket < 0; ";

/// What a Perl program prints on the host itself: the pools as the host sees them.
fn on_host(program: &str) -> String {
    let output = Command::new("perl").args(["-e", program]).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs a program that prints how much it took, and holds it; `outside` looks from the host in the meantime.
async fn while_held(sandbox: &Sandbox, taking: &str, outside: impl AsyncFnOnce(u64)) {
    let program = format!("$| = 1; {taking}; print \"$taken\\n\"; sleep 60");
    let mut holding = sandbox.start(Exec { timeout_ms: Some(60_000), ..command(&["perl", "-e", &program]) }).unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\n") {
        let event = holding.next().await;
        let Event::Output(_, bytes) = event else {
            unreachable!("{event:?} after {}", String::from_utf8_lossy(&said));
        };
        said.extend(bytes);
    }
    outside(String::from_utf8_lossy(&said).trim().parse().unwrap()).await;
    holding.kill();
    while !matches!(holding.next().await, Event::Ended(_)) {}
}

#[tokio::test]
async fn bpf_filters_on_sockets() {
    let sandbox = create().await;
    for option in [26, 50, 51, 52, 44] {
        let program = format!(
            "{FILTER}{SOCKET}my $r = syscall(54, $socket, 1, {option}, $program, 16); print $r == -1 ? $!+0 : 0"
        );
        assert_eq!(perl(&sandbox, &program).await, ENOPROTOOPT.to_string(), "option {option}");
    }
    // By SO_REUSEPORT (15) and its filter: some kernels give sockets' own filters (26) to the host's root only.
    let many = format!(
        "{FILTER}my $one = pack('i', 1); my $made = 0; for (1..64) {{ {SOCKET} syscall(54, $socket, 1, 15, $one, 4) == 0 or die $!; \
         $made++ if syscall(54, $socket, 1, 51, $program, 16) == 0 }} print $made"
    );
    assert_eq!(perl(&sandbox, &many).await, "0", "filters of 64 tries");
}

#[tokio::test]
async fn seccomp_filters_of_its_own() {
    let sandbox = create().await;
    // Without new privileges a kernel lets anyone filter itself.
    let attempt = |call: &str| {
        format!("{FILTER}syscall(157, 38, 1, 0, 0, 0); my $r = syscall({call}); print $r == -1 ? $!+0 : 0")
    };
    for call in ["317, 1, 0, $program", "317, 0, 0, 0", "157, 22, 2, $program", "157, 22, 1, 0"] {
        assert_eq!(perl(&sandbox, &attempt(call)).await, EINVAL.to_string(), "{call}");
    }
    assert_eq!(errno(&sandbox, 317, "2, 0, pack('L', 0x7fff0000)").await, 0, "which actions there are");
    let many = format!(
        "{FILTER}syscall(157, 38, 1, 0, 0, 0); my $made = 0; for (1..64) {{ $made++ if syscall(317, 1, 0, $program) == 0 }} print $made"
    );
    assert_eq!(perl(&sandbox, &many).await, "0", "filters of 64 tries");
}

#[tokio::test]
async fn asynchronous_io_contexts() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 206, "3000, pack('Q', 0)").await, ENOSYS);
    let take = "my ($taken, @held) = (0); for (1..64) { my $id = pack('Q', 0); $taken++ if syscall(206, 3000, $id) == 0; push @held, $id }";
    while_held(&sandbox, take, async |taken| {
        let one = "my $id = pack('Q', 0); print syscall(206, 3000, $id) == 0 ? 'made' : $!";
        assert_eq!(on_host(one), "made", "after {taken} of the sandbox's");
        assert_eq!(taken, 0);
    })
    .await;
}

#[tokio::test]
async fn inotify_instances_of_the_hosts_user() {
    if !is_root() || is_docker() {
        // There the sandbox has an id of the host, and the plan says so.
        return;
    }
    let sandbox = create().await;
    let take = "my $taken = 0; while ($taken < 1000 && syscall(294, 0) >= 0) { $taken++ }";
    while_held(&sandbox, take, async |taken| {
        assert!((1..1000).contains(&taken), "{taken}");
        assert_eq!(on_host("print syscall(294, 0) >= 0 ? 'made' : $!"), "made", "after {taken} of the sandbox's");
    })
    .await;
}

#[tokio::test]
async fn queued_signals_of_the_hosts_user() {
    let sandbox = create().await;
    let queue = "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(40)); my $info = pack('lll', 40, 0, -1) . \"\\0\" x 116; \
                 my $taken = 0; while ($taken < 200_000 && syscall(129, $$ + 0, 40, $info) == 0) { $taken++ }";
    while_held(&sandbox, queue, async |taken| {
        assert!((1..=4096).contains(&taken), "{taken}");
        let one = "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(40)); my $info = pack('lll', 40, 0, -1) . \"\\0\" x 116; \
                   print syscall(129, $$ + 0, 40, $info) == 0 ? 'queued' : $!";
        assert_eq!(on_host(one), "queued", "after {taken} of the sandbox's");
    })
    .await;
}

#[tokio::test]
async fn timers_of_the_hosts_user() {
    let sandbox = create().await;
    let make =
        "my $taken = 0; my $id = pack('L', 0); while ($taken < 200_000 && syscall(222, 0, 0, $id) == 0) { $taken++ }";
    while_held(&sandbox, make, async |taken| {
        assert!((1..=4096).contains(&taken), "{taken}");
        let one = "my $id = pack('L', 0); print syscall(222, 0, 0, $id) == 0 ? 'made' : $!";
        assert_eq!(on_host(one), "made", "after {taken} of the sandbox's");
    })
    .await;
}

#[tokio::test]
async fn terminals_of_all_sandboxes() {
    if is_docker() {
        // The Engine mounts them, without a bound of their number: the plan says so.
        return;
    }
    let sandbox = create().await;
    let take = "my ($taken, @held) = (0); while ($taken < 3500 && open(my $t, '+<', '/dev/ptmx')) { push @held, $t; $taken++ }";
    while_held(&sandbox, take, async |taken| assert_eq!(taken, 64)).await;
}

#[tokio::test]
async fn message_queues_of_the_hosts_user() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 240, "'queue', 0102, 0600, 0").await, ENOSYS);
    let one = "my $name = 'ringfence-test-' . $$; my $q = syscall(240, $name, 0102, 0600, 0); my $why = \"$!\"; \
               syscall(241, $name); print $q >= 0 ? 'made' : $why";
    assert_eq!(on_host(one), "made", "the host still has queues");
}

#[tokio::test]
async fn huge_pages() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 9, "0, 2 << 20, 3, 0x40022, -1, 0").await, EPERM, "mmap");
    assert_eq!(errno(&sandbox, 319, "'x', 4").await, EPERM, "memfd_create");
    assert_eq!(errno(&sandbox, 29, "0, 2 << 20, 05600").await, EPERM, "shmget");
}

#[tokio::test]
async fn flow_labels_and_keys_of_sockets() {
    let sandbox = create().await;
    for (family, level, option) in [(10, 41, 32), (2, 6, 14), (2, 6, 32), (2, 6, 38), (2, 6, 40), (2, 6, 31)] {
        let program = format!(
            "my $socket = syscall(41, {family}, 1, 0); my $value = \"\\0\" x 256; \
             my $r = syscall(54, $socket, {level}, {option}, $value, 256); print $r == -1 ? $!+0 : 0"
        );
        assert_eq!(perl(&sandbox, &program).await, ENOPROTOOPT.to_string(), "{level} {option}");
    }
}

/// What the kernel keeps for a socket beside its buffers: ancillary data to be sent with each packet, and multicast groups.
#[tokio::test]
async fn memory_of_sockets_without_an_account() {
    let sandbox = create().await;
    let unaccounted = || -> u64 {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("SUnreclaim:")).unwrap();
        1024 * line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let before = unaccounted();
    // IPV6_2292PKTOPTIONS with 64,800 bytes of IPV6_HOPLIMIT.
    let take = "use Socket; my ($taken, @held) = (0); my $bytes = pack('Q l l l l', 20, 41, 52, 1, 0) x 2700; \
                for (1..1000) { socket(my $s, AF_INET6, SOCK_DGRAM, 0) or die $!; push @held, $s; $taken++ if setsockopt($s, 41, 6, $bytes) }";
    while_held(&sandbox, take, async |taken| {
        let kept = unaccounted().saturating_sub(before);
        assert_eq!(taken, 0, "{kept} bytes more without an account on the host");
    })
    .await;
    // IPV6_JOIN_GROUP, IP_ADD_MEMBERSHIP.
    for (family, level, option, group) in [
        (10, 41, 20, "pack('n8', 0xff02, 0, 0, 0, 0, 0, 1, 2) . pack('I', 1)"),
        (2, 0, 35, "pack('C8', 239, 1, 2, 3, 127, 0, 0, 1)"),
    ] {
        let program = format!(
            "socket(my $s, {family}, 2, 0) or die $!; print setsockopt($s, {level}, {option}, {group}) ? 0 : $!+0"
        );
        assert_eq!(perl(&sandbox, &program).await, ENOPROTOOPT.to_string(), "{level} {option}");
    }
}

#[tokio::test]
async fn line_discipline() {
    let sandbox = create().await;
    let program =
        "open(my $t, '+<', '/dev/ptmx') or die $!; my $kind = pack('l', 3); print ioctl($t, 0x5423, $kind) ? 0 : $!+0";
    assert_eq!(perl(&sandbox, program).await, EPERM.to_string());
}

#[tokio::test]
async fn lease_on_a_file() {
    let sandbox = create().await;
    // F_SETLEASE, F_SETDELEG.
    for command in [1024, 1040] {
        let program = format!(
            "my $f = \"/tmp/leased$>\"; open(my $h, '>', $f) or die $!; my $type = pack('LSS', 0, 1, 0); \
             print syscall(72, fileno $h, {command}, {command} == 1024 ? 1 : $type) == -1 ? $!+0 : 0"
        );
        assert_eq!(perl(&sandbox, &program).await, EINVAL.to_string(), "{command}");
    }
}

/// Pages of a file of the host that were written and are not yet on the disk, by `cachestat` (Linux 6.5).
fn dirty(file: &Path) -> u64 {
    let program = "open(my $f, '+<', $ENV{WITNESS}) or die $!; my ($range, $found) = (pack('QQ', 0, 0), \"\\0\" x 40); \
                   syscall(451, fileno $f, $range, $found, 0) == 0 or die $!; print +(unpack 'Q5', $found)[1]";
    let output = Command::new("perl").args(["-e", program]).env("WITNESS", file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).parse().unwrap()
}

/// Whether this kernel has `cachestat` (Linux 6.5), by which the test sees dirty pages.
fn has_cachestat() -> bool {
    on_host("$! = 0; syscall(451, -1, 0, 0, 0); print $!+0") != ENOSYS.to_string()
}

/// A file of the host whose pages are dirty. Only what lies on a disk has such pages, and /tmp may be memory.
fn unwritten() -> Option<tempfile::NamedTempFile> {
    let places = [std::env::temp_dir(), "/var/tmp".into(), std::env::current_dir().unwrap()];
    places.iter().filter_map(|place| tempfile::NamedTempFile::new_in(place).ok()).find_map(|mut file| {
        // Not `fs::write`: ext4 writes a file that was truncated to the disk when it is closed.
        file.write_all(&vec![1; 8 << 20]).unwrap();
        (dirty(file.path()) > 0).then_some(file)
    })
}

/// Answered with success, and not done: 8 MiB of a file of the host stay dirty. A real sync writes them all.
#[tokio::test]
async fn sync_of_the_whole_host() {
    let sandbox = create().await;
    if !has_cachestat() {
        assert_eq!(errno(&sandbox, 162, "").await, 0);
        return;
    }
    // The kernel, or another program of the host, may write them before the test looks; not every time.
    let mut left = Vec::new();
    for _ in 0..20 {
        let Some(witness) = unwritten() else { continue };
        assert_eq!(errno(&sandbox, 162, "").await, 0);
        left.push(dirty(witness.path()));
        if left.last() != Some(&0) {
            witness.as_file().sync_all().unwrap();
            assert_eq!(dirty(witness.path()), 0, "the witness sees what is written");
            return;
        }
    }
    panic!("the sandbox had the host's files written (or no place here is on a disk): {left:?}");
}

#[tokio::test]
async fn pressure_trigger_outlives_the_timeout() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "ls -A /proc/pressure 2>/dev/null | wc -l").await, "0");
    let program = "my @h; for (1..64) { open(my $h, '+<', '/proc/pressure/cpu') or next; syswrite($h, \"some 1000 2000000\\0\"); \
                   push @h, $h } print scalar @h; sleep 60";
    let start = Instant::now();
    let ended = exec(&sandbox, Exec { timeout_ms: Some(500), ..command(&["perl", "-e", program]) }).await.unwrap();
    assert_eq!(ended.outcome, Outcome::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// A piped `core_pattern` starts its program as the host's root, whatever the limit is, but for a limit of 1.
#[tokio::test]
async fn core_dump_to_a_program_of_the_host() {
    let sandbox = create().await;
    let shown = "grep 'core file' /proc/self/limits | awk '{print $5, $6}'";
    assert_eq!(sh(&sandbox, shown).await, "1 1");
    // 160 is setrlimit, 302 prlimit64.
    let tries = "my $none = pack('QQ', 0, 0); my $old = pack('QQ', 7, 7); my @r = (syscall(160, 4, $none), \
                 syscall(302, 0, 4, $none, 0), syscall(302, 0, 4, $none, $old)); \
                 open(my $f, '<', '/proc/self/limits'); my ($line) = grep { /core file/ } <$f>; \
                 $line =~ s/\\s+/ /g; print \"@r $line\"";
    assert_eq!(perl(&sandbox, tries).await, "0 0 -1 Max core file size 1 1 bytes");
}

#[tokio::test]
async fn locked_memory() {
    let sandbox = create().await;
    // 9 is mmap, 149 mlock: 64 times 1 MiB.
    let program = "my $locked = 0; for (1..64) { my $at = syscall(9, 0, 1 << 20, 3, 0x22, -1, 0); $at > 0 or die $!; \
                   $locked++ if syscall(149, $at, 1 << 20) == 0 } print $locked <= 8 ? 'bounded' : $locked";
    assert_eq!(perl(&sandbox, program).await, "bounded");
}

/// The kernel's structures for two million mappings are more than the sandbox's memory, whatever `vm.max_map_count` is.
#[tokio::test]
async fn memory_mappings_are_memory_of_the_sandbox() {
    if !is_root() {
        // Without control groups nothing bounds memory, and the plan says so.
        return;
    }
    let sandbox = create().await;
    // Of changing protections, so that the kernel joins none; by many processes, each with as many as the kernel lets it have.
    let program = "use POSIX; my @children; for (1..40) { my $child = fork; if (!$child) { my $made = 0; \
                   while ($made < 50_000 && syscall(9, 0, 4096, 1 + $made % 2 * 2, 0x22, -1, 0) > 0) { $made++ } sleep 60 } \
                   push @children, $child; } my $killed = waitpid(-1, 0); print $? & 127; kill 9, @children";
    let ended = exec(&sandbox, Exec { timeout_ms: Some(60_000), ..command(&["perl", "-e", program]) }).await.unwrap();
    assert!(
        ended.outcome == Outcome::Signalled(9) || ended.stdout == b"9",
        "{:?} {}",
        ended.outcome,
        String::from_utf8_lossy(&ended.stdout)
    );
}

/// System V shared memory that is larger than the sandbox's memory: its pages are charged to the sandbox.
#[tokio::test]
async fn system_v_shared_memory_is_memory_of_the_sandbox() {
    if !is_root() {
        // Without control groups nothing bounds memory, and the plan says so.
        return;
    }
    let sandbox = create().await;
    // 29 is shmget, 30 shmat, 31 shmctl; the segment ends with the process. read(2) from /dev/zero touches its pages.
    let program = "my $size = 512 << 20; my $id = syscall(29, 0, $size, 01600); die $! if $id < 0; my $at = syscall(30, $id, 0, 0); \
                   syscall(31, $id, 0, 0); open(my $zero, '<', '/dev/zero'); my $touched = 0; \
                   while ($touched < $size) { my $read = syscall(0, fileno $zero, $at + $touched, 1 << 20); last if $read <= 0; $touched += $read } \
                   print $touched";
    let ended = exec(&sandbox, Exec { timeout_ms: Some(60_000), ..command(&["perl", "-e", program]) }).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Signalled(9), "{} bytes", String::from_utf8_lossy(&ended.stdout));
}

/// Beyond 16,384 pages of buffers, a user's new pipes have one or two pages each (`pipe(7)`).
#[tokio::test]
async fn pipe_buffers_of_other_sandboxes() {
    if !is_root() || is_docker() {
        // There sandboxes share an id of the host, and the plan says so.
        return;
    }
    let (attacker, other) = (create().await, create().await);
    let take = "my ($taken, @held) = (0); while ($taken < 1500 && pipe(my $r, my $w)) { push @held, $r, $w; $taken++ }";
    while_held(&attacker, take, async |taken| {
        // 1,024 pipes of 16 pages.
        assert!(taken > 1024, "{taken}");
        let size = "use Fcntl; pipe(my $r, my $w); print fcntl($w, 1032, 0)";
        assert_eq!(perl(&other, size).await, "65536", "after {taken} of the attacker's");
    })
    .await;
}

/// Three million watches (3,000 descriptors in each of 1,000 epoll instances) take more kernel memory than the sandbox has.
#[tokio::test]
async fn epoll_watches_are_memory_of_the_sandbox() {
    if !is_root() {
        // Without control groups nothing bounds memory, and the plan says so.
        return;
    }
    let sandbox = create().await;
    // 290 is eventfd2, 291 epoll_create1, 233 epoll_ctl.
    let program = "my $event = pack('LQ', 0, 0); my @targets = map { syscall(290, 0, 0) } 1..3000; my $watches = 0; \
                   for my $epoll (map { syscall(291, 0) } 1..1000) { for my $target (@targets) { \
                   syscall(233, $epoll, 1, $target, $event) == 0 and $watches++ } } print $watches";
    let ended = exec(&sandbox, Exec { timeout_ms: Some(60_000), ..command(&["perl", "-e", program]) }).await.unwrap();
    let watches = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.outcome, Outcome::Signalled(9), "{watches} watches");
    let one = "my $event = pack('LQ', 0, 0); my ($epoll, $target) = (syscall(291, 0), syscall(290, 0, 0)); \
               print syscall(233, $epoll, 1, $target, $event) == 0 ? 'made' : $!";
    assert_eq!(on_host(one), "made", "the host's user still has watches");
}

/// Unread bytes in a thousand connections: what the host has for all TCP stays as it was, but for the sandbox's part.
#[tokio::test]
async fn socket_buffers_are_memory_of_the_sandbox() {
    if !is_root() || (is_docker() && Path::new("/sys/fs/cgroup/memory").exists()) {
        // Nothing bounds them without control groups, nor the Engine in version 1, and the plan says so.
        return;
    }
    let sandbox = create().await;
    let in_use = || -> u64 {
        let text = std::fs::read_to_string("/proc/net/sockstat").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap();
        4096 * line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    let before = in_use();
    let take = "use Socket; socket(my $l, AF_INET, SOCK_STREAM, 0); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 4096); \
                my ($taken, @held) = (0); my $at = getsockname($l); my $bytes = 'x' x (1 << 16); \
                for (1..1000) { socket(my $c, AF_INET, SOCK_STREAM, 0) or last; connect($c, $at) or last; accept(my $s, $l) or last; \
                $c->blocking(0); while (syswrite($c, $bytes)) {} push @held, $c, $s; $taken++ }";
    let take = format!("use IO::Handle; {take}");
    while_held(&sandbox, &take, async |taken| {
        let used = in_use().saturating_sub(before);
        assert!(used < 2 * 256 * MIB, "{used} bytes after {taken} connections");
    })
    .await;
}

#[tokio::test]
async fn facts_of_the_host_in_proc() {
    let sandbox = create().await;
    for file in ["modules", "interrupts", "locks", "pressure/cpu"] {
        assert_eq!(sh(&sandbox, &format!("cat /proc/{file} 2>/dev/null | wc -c")).await, "0", "{file}");
    }
}
