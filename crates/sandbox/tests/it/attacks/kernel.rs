//! Attacks on what the kernel keeps: names, settings, mounts, devices, control groups.

use crate::attacks::EPERM;
use crate::common::{command, create, errno, exec, is_docker, is_root, sh};

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
    // The Docker Engine mounts them, and a mask covers them.
    if !is_docker() {
        assert_eq!(sh(&sandbox, "grep -c cgroup /proc/self/mountinfo || true").await, "0");
    }
    assert_eq!(
        sh(&sandbox, "ls -A /sys/fs/cgroup 2>/dev/null | wc -l; mkdir /sys/fs/cgroup/x 2>/dev/null || echo no").await,
        "0\nno"
    );
    if is_root() {
        // Its own group is the root of what it sees, in the hierarchies that it was put into.
        let groups = sh(&sandbox, "grep -E ':(memory|pids|cpu):|^0::' /proc/self/cgroup | cut -d: -f3 | sort -u").await;
        assert!(groups.lines().all(|group| group == "/"), "{groups}");
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
            "head -c1 /proc/kcore 2>/dev/null | wc -c; head -c1 /proc/kallsyms | wc -c; head -c1 /proc/keys | wc -c"
        )
        .await,
        "0\n0\n0"
    );
}
