//! Attacks on whoever reads or writes files of the sandbox: links, pipes, devices, files without end.

use std::io::Write as _;
use std::time::{Duration, Instant};

use sandbox::{Exec, FailureKind, SessionError, User};

use crate::common::{MIB, command, create, create_with_mount, sh};

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
        crate::common::exec(&sandbox, exec).await,
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
async fn growing_file_read() {
    let sandbox = create().await;
    let read = sandbox.read_file("/proc/self/mountinfo", 10).await;
    assert!(
        matches!(read, Err(SessionError::Failed { kind: FailureKind::TooLarge, .. })),
        "a file that says it is empty: {read:?}"
    );
}
