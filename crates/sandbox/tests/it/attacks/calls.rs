//! Attacks by system calls that nobody in a sandbox needs.

use crate::attacks::{EAFNOSUPPORT, ENOSYS, EPERM};
use crate::common::{create, errno};

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
    fanotify: 300("0, 0") = EPERM, 301("3, 1, 0, -100, '/'") = EPERM;
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
