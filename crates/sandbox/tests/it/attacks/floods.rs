//! Attacks by sheer number: processes, memory, disk, descriptors, output.

use std::time::{Duration, Instant};

use jail::cgroups::Limits;
use sandbox::{Exec, FailureKind, Outcome, Overflow, Request, SessionError};

use crate::attacks::EPERM;
use crate::common::{MIB, command, create, create_as, engine, errno, exec, is_docker, is_root, perl, request, sh};

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

/// By its autogroup the guest, or the keeper of a command, could be run last; by its score a keeper could be killed first.
#[tokio::test]
async fn demote_the_guest_and_its_keepers() {
    let sandbox = create().await;
    // A command's parent is its keeper. In a container of Docker root has the number of the host's: only the guest's are hidden.
    let keeper = if is_docker() { "" } else { "/proc/$PPID/oom_score_adj /proc/$PPID/autogroup" };
    let all = format!("/proc/1/autogroup {keeper}");
    let script = format!(
        "b=$(cat {all} 2>/dev/null); for f in {all}; do chmod 666 $f; chown 0:0 $f; echo 15 > $f; done 2>/dev/null; \
         a=$(cat {all} 2>/dev/null); [ \"$a\" = \"$b\" ] && echo same || echo \"$b became $a\""
    );
    assert_eq!(sh(&sandbox, &script).await, "same");
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
