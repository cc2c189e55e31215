//! What the filter says of single calls.

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_W, c_long, sock_filter};

use super::{Action, MODES, SetIdBits, action, program};

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$(libc::$name),*] };
}

/// What the filter says of a call: an interpreter of the few instructions that it is made of.
fn judge(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 4]) -> u32 {
    let load = |offset: u32| match offset {
        0 => number,
        4 => arch,
        // Upper halves: all arguments here are small.
        _ if offset % 8 == 4 => 0,
        _ => arguments[usize::try_from((offset - 16) / 8).unwrap()],
    };
    let (mut at, mut accumulator) = (0_usize, 0_u32);
    loop {
        let instruction = &program[at];
        let (code, k) = (u32::from(instruction.code), instruction.k);
        at += 1;
        let mut branch = |yes: bool| at += usize::from(if yes { instruction.jt } else { instruction.jf });
        match code {
            _ if code == BPF_LD | BPF_W | BPF_ABS => accumulator = load(k),
            _ if code == BPF_ALU | BPF_AND | BPF_K => accumulator &= k,
            _ if code == BPF_JMP | BPF_JEQ | BPF_K => branch(accumulator == k),
            _ if code == BPF_JMP | BPF_JGE | BPF_K => branch(accumulator >= k),
            _ if code == BPF_JMP | BPF_JA => at += usize::try_from(k).unwrap(),
            _ => return k,
        }
    }
}

fn verdict(number: c_long, arguments: [u32; 3]) -> u32 {
    four(number, [arguments[0], arguments[1], arguments[2], 0])
}

fn errno(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()
}

#[test]
fn every_number_gets_the_action_of_the_list() {
    let program = program(SetIdBits::Allowed);
    assert!(program.len() < 4096, "{}", program.len());
    for number in 0..600 {
        let said = judge(&program, 0xC000_003E, u32::try_from(number).unwrap(), [0; 4]);
        match action(number, SetIdBits::Allowed) {
            Action::Allow => assert_eq!(said, libc::SECCOMP_RET_ALLOW, "{number}"),
            Action::Errno(expected) => assert_eq!(said, errno(expected), "{number}"),
            Action::Check(_) => {}
        }
    }
}

#[test]
fn other_calling_conventions_are_killed_or_unknown() {
    assert_eq!(judge(&program(SetIdBits::Allowed), 0x4000_0003, 20, [0; 4]), libc::SECCOMP_RET_KILL_PROCESS);
    // x32: the same architecture with a bit in the number.
    assert_eq!(judge(&program(SetIdBits::Allowed), 0xC000_003E, 0x4000_0000, [0; 4]), errno(libc::ENOSYS));
}

#[test]
fn dangerous_calls_are_not_on_the_list() {
    for number in calls![
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_unshare,
        SYS_setns,
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        SYS_fanotify_init,
        SYS_fanotify_mark,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_kexec_load,
        SYS_kexec_file_load,
        SYS_init_module,
        SYS_finit_module,
        SYS_delete_module,
        SYS_reboot,
        SYS_swapon,
        SYS_open_by_handle_at,
        SYS_fsopen,
        SYS_fsmount,
        SYS_move_mount,
        SYS_open_tree,
        SYS_mount_setattr,
        SYS_settimeofday,
        SYS_clock_settime,
        SYS_adjtimex,
        SYS_sethostname,
        SYS_iopl,
        SYS_ioperm,
        SYS_modify_ldt,
        SYS_syslog,
        SYS_acct,
        SYS_quotactl,
        SYS_kcmp,
        SYS_vhangup,
        SYS_move_pages,
    ] {
        assert_eq!(verdict(*number, [0; 3]), errno(libc::EPERM), "{number}");
    }
    for number in
        calls![SYS_io_setup, SYS_io_destroy, SYS_io_getevents, SYS_io_submit, SYS_io_cancel, SYS_mq_open, SYS_mq_notify]
    {
        assert_eq!(verdict(*number, [0; 3]), errno(libc::ENOSYS), "{number}");
    }
    assert_eq!(verdict(libc::SYS_sync, [0; 3]), errno(0), "success, and nothing is done");
}

/// Filters; what stays with a socket; memberships; keys and upper-layer protocols; flow labels; levels that no program needs.
const REFUSED_OPTIONS: [(u32, u32); 33] = [
    (1, 26),
    (1, 44),
    (1, 50),
    (1, 51),
    (1, 52),
    (0, 4),
    (0, 35),
    (0, 39),
    (0, 41),
    (0, 42),
    (0, 48),
    (41, 6),
    (41, 20),
    (41, 27),
    (41, 32),
    (41, 42),
    (41, 48),
    (41, 54),
    (41, 55),
    (41, 57),
    (41, 59),
    (6, 14),
    (6, 27),
    (6, 31),
    (6, 32),
    (6, 33),
    (6, 38),
    (6, 40),
    (17, 100),
    (136, 10),
    (263, 5),
    (279, 1),
    (282, 1),
];

#[test]
fn host_wide_pools_are_refused_by_argument() {
    let allowed = libc::SECCOMP_RET_ALLOW;
    let option = |level: u32, option: u32| verdict(libc::SYS_setsockopt, [9, level, option]);
    for (level, name) in REFUSED_OPTIONS {
        assert_eq!(option(level, name), errno(libc::ENOPROTOOPT), "{level} {name}");
    }
    // SO_KEEPALIVE, SO_DETACH_FILTER, TCP_NODELAY, TCP_KEEPIDLE, TCP_USER_TIMEOUT, IP_TOS, IP_MULTICAST_IF, IPV6_V6ONLY,
    // IPV6_UNICAST_HOPS, UDP_SEGMENT, NETLINK_ADD_MEMBERSHIP.
    for (level, name) in
        [(1, 9), (1, 27), (6, 1), (6, 4), (6, 18), (0, 1), (0, 32), (41, 26), (41, 16), (17, 103), (270, 1)]
    {
        assert_eq!(option(level, name), allowed, "{level} {name}");
    }
    for (operation, said) in [(0, errno(libc::EINVAL)), (1, errno(libc::EINVAL)), (2, allowed), (3, allowed)] {
        assert_eq!(verdict(libc::SYS_seccomp, [operation, 0, 0]), said, "{operation}");
    }
    assert_eq!(verdict(libc::SYS_prctl, [22, 2, 0]), errno(libc::EINVAL), "PR_SET_SECCOMP");
    assert_eq!(verdict(libc::SYS_prctl, [21, 0, 0]), allowed, "PR_GET_SECCOMP");
    assert_eq!(verdict(libc::SYS_fcntl, [0, 1024, 1]), errno(libc::EINVAL), "F_SETLEASE");
    assert_eq!(verdict(libc::SYS_fcntl, [0, 1040, 1]), errno(libc::EINVAL), "F_SETDELEG");
    assert_eq!(verdict(libc::SYS_fcntl, [0, 1031, 1 << 20]), allowed, "F_SETPIPE_SZ");
    assert_eq!(verdict(libc::SYS_ioctl, [0, 0x5423, 0]), errno(libc::EPERM), "TIOCSETD");
    let refused = errno(libc::EPERM);
    assert_eq!(four(libc::SYS_mmap, [0, 4096, 3, 0x4_0022]), refused, "MAP_HUGETLB");
    assert_eq!(four(libc::SYS_mmap, [0, 4096, 3, 0x22]), allowed);
    assert_eq!(verdict(libc::SYS_memfd_create, [0, 5, 0]), refused, "MFD_HUGETLB");
    assert_eq!(verdict(libc::SYS_memfd_create, [0, 3, 0]), allowed);
    assert_eq!(verdict(libc::SYS_shmget, [0, 4096, 0o5600]), refused, "SHM_HUGETLB");
    assert_eq!(verdict(libc::SYS_shmget, [0, 4096, 0o1600]), allowed);
}

#[test]
fn the_limit_of_core_dumps_cannot_be_changed() {
    let (core, files, done) = (4, 7, errno(0));
    assert_eq!(verdict(libc::SYS_setrlimit, [core, 1, 0]), done, "success, and nothing is done");
    assert_eq!(verdict(libc::SYS_setrlimit, [files, 1, 0]), libc::SECCOMP_RET_ALLOW);
    for (arguments, said) in [
        ([0, core, 1, 0], done),
        ([0, core, 1, 1], errno(libc::EPERM)),
        ([0, core, 0, 1], libc::SECCOMP_RET_ALLOW),
        ([7, core, 1, 0], done),
        ([1, core, 0, 1], errno(libc::EPERM)),
        ([0, files, 1, 1], libc::SECCOMP_RET_ALLOW),
    ] {
        assert_eq!(four(libc::SYS_prlimit64, arguments), said, "{arguments:?}");
    }
}

fn four(number: c_long, arguments: [u32; 4]) -> u32 {
    judge(&program(SetIdBits::Allowed), 0xC000_003E, u32::try_from(number).unwrap(), arguments)
}

#[test]
fn the_guest_is_out_of_reach_of_limits_and_priorities() {
    for number in
        [libc::SYS_prlimit64, libc::SYS_sched_setscheduler, libc::SYS_sched_setattr, libc::SYS_sched_setaffinity]
    {
        assert_eq!(verdict(number, [1, 0, 0]), errno(libc::EPERM), "{number}");
        assert_eq!(verdict(number, [0, 0, 0]), libc::SECCOMP_RET_ALLOW, "{number}");
    }
    for (number, one) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        assert_eq!(verdict(number, [one, 0, 19]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(verdict(number, [one, 1, 19]), errno(libc::EPERM), "the guest");
        assert_eq!(verdict(number, [one + 2, 0, 19]), errno(libc::EPERM), "all of a user's");
    }
}

#[test]
fn setuid_bits_are_refused_where_the_hosts_files_are_written() {
    let strict = program(SetIdBits::Refused);
    for (number, argument) in MODES {
        let mut arguments = [0; 4];
        for (mode, expected) in
            [(0o755, libc::SECCOMP_RET_ALLOW), (0o4755, errno(libc::EPERM)), (0o2755, errno(libc::EPERM))]
        {
            arguments[usize::try_from(*argument).unwrap()] = mode;
            let said = judge(&strict, 0xC000_003E, u32::try_from(*number).unwrap(), arguments);
            assert_eq!(said, expected, "{number} {mode:o}");
        }
    }
    assert_eq!(judge(&strict, 0xC000_003E, u32::try_from(libc::SYS_openat2).unwrap(), [0; 4]), errno(libc::ENOSYS));
}

#[test]
fn arguments_decide() {
    let allowed = libc::SECCOMP_RET_ALLOW;
    assert_eq!(verdict(libc::SYS_clone, [libc::SIGCHLD.cast_unsigned(), 0, 0]), allowed);
    assert_eq!(verdict(libc::SYS_clone, [libc::CLONE_NEWUSER.cast_unsigned(), 0, 0]), errno(libc::EPERM));
    let socket = |family: i32, kind: i32, protocol: i32| {
        verdict(libc::SYS_socket, [family.cast_unsigned(), kind.cast_unsigned(), protocol.cast_unsigned()])
    };
    let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(socket(family, stream, 0), allowed, "{family}");
    }
    assert_eq!(socket(libc::AF_INET, libc::SOCK_DGRAM, 0), allowed);
    assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP), allowed);
    assert_eq!(socket(libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP), allowed);
    for (kind, protocol) in [
        (libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        (libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
    ] {
        assert_eq!(socket(libc::AF_INET, kind, protocol), errno(libc::EPROTONOSUPPORT), "{protocol}");
    }
    assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE), allowed);
    for (family, kind, protocol) in [
        (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        (libc::AF_INET, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER),
        (libc::AF_PACKET, libc::SOCK_RAW, 0),
        (libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        (libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        (libc::AF_KEY, libc::SOCK_RAW, 0),
        (libc::AF_XDP, libc::SOCK_RAW, 0),
    ] {
        assert_eq!(socket(family, kind, protocol), errno(libc::EAFNOSUPPORT), "{family} {kind} {protocol}");
    }
    assert_eq!(verdict(libc::SYS_ioctl, [0, 0x5412, 0]), errno(libc::EPERM));
    assert_eq!(verdict(libc::SYS_ioctl, [0, 0x541c, 0]), errno(libc::EPERM));
    assert_eq!(verdict(libc::SYS_ioctl, [0, 0x5413, 0]), allowed);
    assert_eq!(verdict(libc::SYS_personality, [0x0004_0000, 0, 0]), errno(libc::EPERM));
    assert_eq!(verdict(libc::SYS_personality, [8, 0, 0]), allowed);
}
