//! A probe answers in time and leaves the process that asked as it was.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::time::{Duration, Instant};

use jail::{Failure, probe};

const DEADLINE: Duration = Duration::from_secs(10);

/// Everything about this process that a probe could have changed, but for its mounts.
fn own_state() -> String {
    let namespaces: Vec<_> = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .iter()
        .map(|name| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap())
        .collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kept = ["Uid:", "Gid:", "CapEff:", "NoNewPrivs:", "Seccomp:"];
    let status: Vec<&str> = status.lines().filter(|line| kept.iter().any(|key| line.starts_with(key))).collect();
    format!("{namespaces:?} {status:?}")
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap()
}

#[test]
fn probes_answer_in_time_and_change_nothing_here() {
    let before = own_state();
    for (name, probe) in [
        ("user namespaces", probe::user_namespaces as fn(Duration) -> Result<(), Failure>),
        ("overlay", probe::overlay),
        ("redirect rules", probe::redirect_rules),
        ("seccomp", probe::seccomp_filter),
        ("kvm", probe::kvm_guest),
    ] {
        let start = Instant::now();
        let result = probe(DEADLINE);
        assert!(start.elapsed() < DEADLINE * 2, "{name} took {:?}", start.elapsed());
        assert!(!matches!(result, Err(Failure::Died | Failure::Start(_))), "{name}: {result:?}");
        assert_eq!(own_state(), before, "{name} changed the process that asked");
        // Other processes mount and unmount meanwhile, so one try without a change is enough.
        let unchanged = (0..5).any(|_| {
            let before = mounts();
            let _ = probe(DEADLINE);
            mounts() == before
        });
        assert!(unchanged, "{name} mounted something where it was asked");
    }
}

#[test]
fn seccomp_works_wherever_these_tests_run() {
    probe::seccomp_filter(DEADLINE).unwrap();
}
