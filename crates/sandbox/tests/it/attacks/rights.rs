//! Attacks that would gain rights: setuid programs, capabilities of files, ambient ones.

use sandbox::{Exec, FailureKind, Request, SessionError, User};

use crate::attacks::EPERM;
use crate::common::{command, create, create_with_mount, engine, errno, is_root, request, sh};

#[tokio::test]
async fn setuid_gain() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "grep NoNewPrivs /proc/self/status | cut -f2").await, "1");
    if is_root() {
        sh(&sandbox, "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id").await;
        let exec = Exec { user: User::Named("agent".into()), ..command(&["/tmp/id", "-u"]) };
        assert_eq!(crate::common::exec(&sandbox, exec).await.unwrap().stdout, b"1000\n");
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
    assert_eq!(crate::common::exec(&sandbox, exec).await.unwrap().stdout, b"0\n", "root inside");
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
        match crate::common::exec(&sandbox, exec).await {
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
