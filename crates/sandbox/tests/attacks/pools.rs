//! Attacks on pools of kernel objects that the whole host shares. docs/security/kernel-pools.md lists the pools.
//!
//! Every attack is bounded. What takes from the BPF pool is tried at most 64 times: beyond that it can stop a kernel.

use std::process::Command;
use std::time::{Duration, Instant};

use sandbox::{Event, Exec, Outcome, Sandbox};

use crate::common::{command, create, errno, exec, is_docker, is_root, perl, sh};
use crate::{EINVAL, ENOPROTOOPT, ENOSYS, EPERM};

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
async fn while_held(sandbox: &Sandbox, taking: &str, outside: impl FnOnce(u64)) {
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
    outside(String::from_utf8_lossy(&said).trim().parse().unwrap());
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
    let many = format!(
        "{FILTER}my $made = 0; for (1..64) {{ {SOCKET} $made++ if syscall(54, $socket, 1, 26, $program, 16) == 0 }} print $made"
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
    let many =
        "my $made = 0; for (1..64) { my $id = pack('Q', 0); $made++ if syscall(206, 3000, $id) == 0 } print $made";
    assert_eq!(perl(&sandbox, many).await, "0");
    let one = "my $id = pack('Q', 0); print syscall(206, 1, $id) == 0 ? 'made' : $!";
    assert_eq!(on_host(one), "made", "the host still has contexts");
}

#[tokio::test]
async fn inotify_instances_of_the_hosts_user() {
    if !is_root() || is_docker() {
        // There the sandbox has an id of the host, and the plan says so.
        return;
    }
    let sandbox = create().await;
    let take = "my $taken = 0; while ($taken < 1000 && syscall(294, 0) >= 0) { $taken++ }";
    while_held(&sandbox, take, |taken| {
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
    while_held(&sandbox, queue, |taken| {
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
    while_held(&sandbox, make, |taken| {
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
    while_held(&sandbox, take, |taken| assert_eq!(taken, 64)).await;
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
    for (family, level, option) in [(10, 41, 32), (2, 6, 14), (2, 6, 32), (2, 6, 38), (2, 6, 31)] {
        let program = format!(
            "my $socket = syscall(41, {family}, 1, 0); my $value = \"\\0\" x 256; \
             my $r = syscall(54, $socket, {level}, {option}, $value, 256); print $r == -1 ? $!+0 : 0"
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
    let program = "my $f = \"/tmp/leased$>\"; open(my $h, '>', $f) or die $!; print syscall(72, fileno $h, 1024, 1) == -1 ? $!+0 : 0";
    assert_eq!(perl(&sandbox, program).await, EINVAL.to_string());
}

#[tokio::test]
async fn sync_of_the_whole_host() {
    let sandbox = create().await;
    assert_eq!(errno(&sandbox, 162, "").await, 0);
}

#[tokio::test]
async fn pressure_trigger_outlives_the_timeout() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "ls -A /proc/pressure 2>/dev/null | wc -l").await, "0");
    let program = "my @h; for (1..64) { open(my $h, '+<', '/proc/pressure/cpu') or next; syswrite($h, \"some 1000 500000\\0\"); \
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
async fn facts_of_the_host_in_proc() {
    let sandbox = create().await;
    for file in ["modules", "interrupts", "locks", "pressure/cpu"] {
        assert_eq!(sh(&sandbox, &format!("cat /proc/{file} 2>/dev/null | wc -c")).await, "0", "{file}");
    }
}
