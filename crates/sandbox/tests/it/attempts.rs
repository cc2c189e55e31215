//! Attempts of probes have the rights, limits and end of a command.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

use std::time::{Duration, Instant};

use crate::common::{attackers, create, sh};
use sandbox::{Argument, Attempt, Attempted, FailureKind, Outcome, Sandbox, SessionError, Tried, User};

const SOON: Duration = Duration::from_secs(5);

async fn attempt(sandbox: &Sandbox, attempt: Attempt) -> Attempted {
    match sandbox.attempt(attempt, User::Default, SOON).await.unwrap() {
        Tried::Answered(attempted) => attempted,
        Tried::Ended(outcome) => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn attempts_have_the_rights_of_commands() {
    let sandbox = create().await;
    let status = sh(&sandbox, "grep -E '^(Cap|NoNewPrivs|Seccomp|Uid)' /proc/self/status").await;
    let Attempted::Read(bytes) = attempt(&sandbox, Attempt::Read { path: "/proc/self/status".into() }).await else {
        panic!("not read")
    };
    let text = String::from_utf8(bytes).unwrap();
    for line in status.lines() {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(attempt(&sandbox, Attempt::Descriptors).await, Attempted::Listed(Vec::new()));
    for user in attackers() {
        let call = Attempt::Call { number: 165, arguments: vec![Argument::Number(0); 5] };
        let tried = sandbox.attempt(call, user, SOON).await.unwrap();
        assert_eq!(tried, Tried::Answered(Attempted::Refused(1)), "mount");
    }
}

/// Processes of the sandbox as (children of the guest, all others). The guest's children are keepers: the one of this command, and a
/// spare one that the guest forks when it is idle.
async fn processes(sandbox: &Sandbox) -> (usize, usize) {
    let parents = sh(sandbox, "grep -h '^PPid:' /proc/[0-9]*/status").await;
    let parents: Vec<u32> = parents.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
    let keepers = parents.iter().filter(|parent| **parent == 1).count();
    (keepers, parents.iter().filter(|parent| **parent > 1).count())
}

#[tokio::test]
async fn an_attempt_ends_in_time_and_leaves_nothing() {
    let sandbox = create().await;
    let (_, before) = processes(&sandbox).await;
    assert!(before >= 1, "at least the command that looks");
    let start = Instant::now();
    let listen = Attempt::Listen { port: 8000, reply: Vec::new(), timeout_ms: 30_000 };
    let tried = sandbox.attempt(listen, User::Default, Duration::from_millis(200)).await.unwrap();
    assert_eq!(tried, Tried::Ended(Outcome::TimedOut));
    assert!(start.elapsed() < SOON);
    let many = attempt(&sandbox, Attempt::Processes { count: 20 }).await;
    assert_eq!(many, Attempted::Amount { amount: 20, errno: None });
    // Ended processes are reaped a moment later, when the machine is busy.
    let deadline = Instant::now() + SOON;
    loop {
        let (keepers, others) = processes(&sandbox).await;
        if keepers <= 2 && others == before {
            break;
        }
        assert!(Instant::now() < deadline, "{keepers} keepers, {others} other processes, {before} before");
    }
}

#[tokio::test]
async fn a_connection_inside_is_an_exchange() {
    let sandbox = create().await;
    let listen = Attempt::Listen { port: 8000, reply: b"hello".to_vec(), timeout_ms: 3000 };
    let listening = sandbox.attempt(listen, User::Default, SOON);
    let connecting = async {
        let to = "127.0.0.1:8000".parse().unwrap();
        let deadline = Instant::now() + SOON;
        loop {
            match attempt(&sandbox, Attempt::Tcp { to, send: Vec::new(), timeout_ms: 1000 }).await {
                Attempted::Exchanged { received, .. } => return received,
                other => assert!(Instant::now() < deadline, "{other:?}"),
            }
        }
    };
    let (listened, received) = tokio::join!(listening, connecting);
    assert_eq!(received, b"hello");
    assert!(matches!(listened.unwrap(), Tried::Answered(Attempted::Amount { amount: 1, errno: None })));
}

#[tokio::test]
async fn a_user_sees_of_directories_what_the_kernel_lets_it() {
    let sandbox = create().await;
    let script = "mkdir -m 700 /tmp/hidden; echo answer >/tmp/hidden/answers; mkdir /tmp/open; cd /tmp/open
        for n in $(seq 3000); do : >a-file-with-a-long-name-$n; done; ln -s nowhere link; chmod 755 /tmp/open";
    sh(&sandbox, script).await;
    for user in attackers() {
        let mut listed = sandbox.list_as("/tmp/open", user.clone()).await.unwrap();
        let mut all = sandbox.list("/tmp/open").await.unwrap();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!((listed.len(), listed), (3001, all));
        let link = sandbox.stat_as("/tmp/open/link", user.clone()).await.unwrap();
        assert_eq!(link, sandbox.stat("/tmp/open/link").await.unwrap());
        assert_eq!(sandbox.stat_as("/tmp/none", user.clone()).await.unwrap(), None);
        let failed = sandbox.list_as("/tmp/none", user.clone()).await.unwrap_err();
        assert!(matches!(failed, SessionError::Failed { kind: FailureKind::NotFound, .. }), "{failed}");
        // Where there is one user only, that is root.
        if user == User::Default || matches!(&user, User::Named(name) if name.starts_with('0') || name == "root") {
            continue;
        }
        let failures = [
            sandbox.list_as("/tmp/hidden", user.clone()).await.map(|_| ()),
            sandbox.stat_as("/tmp/hidden/answers", user).await.map(|_| ()),
        ];
        for failed in failures {
            let denied = |error: &SessionError| {
                matches!(error, SessionError::Failed { kind: FailureKind::PermissionDenied, .. })
            };
            assert!(failed.as_ref().is_err_and(denied), "{failed:?}");
        }
    }
}
