//! Attacks on other processes: the guest, keepers, those of the host and of other sandboxes.

use std::time::{Duration, Instant};

use sandbox::{Exec, Outcome};

use crate::attacks::EPERM;
use crate::common::{command, create, engine, errno, exec, request, sh};

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
    let deadline = Instant::now() + Duration::from_secs(5);
    while sh(&sandbox, "pgrep -fc '^sleep 1000' || true").await != "1" {
        assert!(Instant::now() < deadline, "the other command does not begin");
    }
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
    // A command that was begun with it is the one that it costs.
    let first = exec(&sandbox, command(&["true"])).await.unwrap().outcome;
    assert!(matches!(first, Outcome::Exited(0) | Outcome::Signalled(9)), "{first:?}");
    assert_eq!(sh(&sandbox, "echo fine").await, "fine");
    assert_eq!(sh(&sandbox, &signal("STOP")).await.lines().count(), 1, "and one again");
    let start = Instant::now();
    let stuck = exec(&sandbox, Exec { timeout_ms: Some(300), ..command(&["true"]) }).await.unwrap();
    assert_eq!(stuck.outcome, Outcome::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(sh(&sandbox, "echo fine").await, "fine");
    // The guest, the keeper of who looks, its three processes; and one that waits, if it was made already.
    // What was ended may take a busy machine a moment.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = sh(&sandbox, "sleep 0.2; ls -d /proc/[0-9]* | wc -l").await.parse::<u32>().unwrap();
        if matches!(left, 5 | 6) {
            break;
        }
        assert!(Instant::now() < deadline, "none is left: {left}");
    }
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
async fn ptrace_sibling_sandbox() {
    let (first, second) = (create().await, create().await);
    let running = first.start(command(&["sleep", "4321"])).unwrap();
    assert_eq!(sh(&second, "pgrep -fc '^sleep 4321' || true").await, "0");
    drop(running);
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

/// A program that counts in `/tmp/count`, and has a timer of the kernel send it a SIGCONT every 20 ms.
const CONTINUED_BY_A_TIMER: &str = "
    $SIG{CONT} = sub {}; # A signal that is ignored rearms no timer.
    my ($event, $id) = (pack('q i i x48', 0, 18, 0), pack('i', 0));
    syscall(222, 1, $event, $id) == 0 or die \"timer_create: $!\";
    my $every = pack('q4', 0, 20_000_000, 0, 20_000_000);
    syscall(223, unpack('i', $id), 0, $every, 0) == 0 or die \"timer_settime: $!\";
    $| = 1; print 'ready';
    while (1) { open my $f, '>>', '/tmp/count' or die; print $f 'x'; close $f }";

#[tokio::test]
async fn sigcont_by_a_timer_in_a_paused_sandbox() {
    // A SIGSTOP discards a SIGCONT that is pending, and the kernel does not rearm that timer: such a try attacks nothing.
    let mut attacked = None;
    for _ in 0..5 {
        let sandbox = create().await;
        let mut counting = sandbox.start(command(&["perl", "-e", CONTINUED_BY_A_TIMER])).unwrap();
        assert!(matches!(counting.next().await, sandbox::Event::Output(_, said) if said == b"ready"));
        let counted = async || sandbox.stat("/tmp/count").await.unwrap().map(|stat| stat.size);
        let held = match sandbox.session().pause().await {
            Ok(()) => {
                let before = counted().await;
                tokio::time::sleep(Duration::from_millis(200)).await;
                let after = counted().await;
                let resumed = sandbox.session().resume().await;
                assert!(resumed.is_err() || before == after, "a process ran in a paused sandbox, and nothing says so");
                resumed
            }
            Err(error) => Err(error),
        };
        if let Err(error) = held {
            attacked = Some((sandbox, counting, error.to_string()));
            break;
        }
    }
    let (sandbox, mut counting, message) = attacked.expect("the timer did nothing in five tries");
    assert!(message.contains("ran while the sandbox was paused") || message.contains("stand still"), "{message}");
    // The sandbox goes on, and a pause that holds is one.
    counting.kill();
    loop {
        match counting.next().await {
            sandbox::Event::Ended(_) => break,
            sandbox::Event::Gone(error) => panic!("{error}"),
            _ => {}
        }
    }
    let mut sleeping = sandbox.start(command(&["sh", "-c", "echo ready; exec sleep 100"])).unwrap();
    assert!(matches!(sleeping.next().await, sandbox::Event::Output(..)));
    sandbox.session().pause().await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    sandbox.session().resume().await.unwrap();
}
