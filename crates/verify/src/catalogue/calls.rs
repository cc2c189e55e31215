//! System calls whose arguments are harmless wherever they are made: an unfiltered kernel finds fault with the arguments,
//! or gives something away that ends with the process; the filter says no before either.

use crate::probe::Call;

/// No such descriptor, and flags that no call knows.
const NONE: u64 = u64::MAX;
const UNKNOWN_FLAGS: u64 = 0x7fff_0000;
const NEW_USER: u64 = 0x1000_0000;

macro_rules! calls {
    ($name:ident: $($call:ident($($argument:expr),*)),+ $(,)?) => {
        pub(super) const $name: &[Call] =
            &[$(Call { name: stringify!($call), number: libc::$call, arguments: &[$($argument),*] }),+];
    };
}

calls!(KEYS: SYS_keyctl(0, NONE - 2, 0), SYS_add_key(0, 0, 0, 0, 0), SYS_request_key(0, 0, 0, 0));
calls!(IO_URING: SYS_io_uring_setup(1, 0), SYS_io_uring_enter(NONE, 0, 0, 0), SYS_io_uring_register(NONE, 0, 0, 0));
calls!(BPF: SYS_bpf(0, 0, 1 << 20), SYS_perf_event_open(0, 0, NONE, NONE, 0));
calls!(FAULTS: SYS_userfaultfd(1 | UNKNOWN_FLAGS));
calls!(NAMESPACES: SYS_unshare(NEW_USER), SYS_clone3(0, 0), SYS_setns(NONE, 0));
calls!(
    MOUNTS: SYS_mount(0, 0, 0, 0, 0),
    SYS_umount2(0, 0),
    SYS_open_tree(NONE, 0, UNKNOWN_FLAGS),
    SYS_mount_setattr(NONE, 0, UNKNOWN_FLAGS, 0, 0),
    SYS_fsconfig(NONE, 0, 0, 0, 0),
);
calls!(CLOCK: SYS_clock_settime(0, 0), SYS_adjtimex(0), SYS_clock_adjtime(0, 0));
calls!(HANDLES: SYS_name_to_handle_at(NONE, 0, 0, 0, UNKNOWN_FLAGS));
calls!(HARDWARE: SYS_iopl(4), SYS_ioperm(NONE, 1, 1), SYS_chroot(0), SYS_kcmp(0, 0, 0, 0, 0));
// TIOCSTI pushes a character into a terminal's input, TIOCSETD sets its line discipline; standard input is no terminal.
calls!(TERMINAL: SYS_ioctl(0, 0x5412, 0), SYS_ioctl(0, 0x5423, 0));
// Socket filters and their lock; seccomp filters by both calls. Without a filter of ours, an unfiltered kernel finds neither
// the descriptor nor the program.
calls!(
    FILTERS: SYS_setsockopt(NONE, 1, 26, 0, 0),
    SYS_setsockopt(NONE, 1, 50, 0, 0),
    SYS_setsockopt(NONE, 1, 51, 0, 0),
    SYS_setsockopt(NONE, 1, 52, 0, 0),
    SYS_setsockopt(NONE, 1, 44, 0, 0),
    SYS_seccomp(1, 0, 0),
    SYS_prctl(22, 2, 0),
);
calls!(ASYNCHRONOUS_IO: SYS_io_setup(0, 0), SYS_io_destroy(0));
calls!(MESSAGE_QUEUES: SYS_mq_open(0, 0, 0, 0), SYS_mq_unlink(0));
// MAP_HUGETLB, MFD_HUGETLB and SHM_HUGETLB, each of no size.
calls!(HUGE_PAGES: SYS_mmap(0, 0, 0, 0x4_0022, NONE, 0), SYS_memfd_create(0, 4), SYS_shmget(0, 0, 0o4000));
// TCP_MD5SIG, TCP_AO_ADD_KEY, TCP_AO_INFO; IPV6_FLOWLABEL_MGR, IPV6_2292PKTOPTIONS, IPV6_JOIN_GROUP; IP_ADD_MEMBERSHIP.
calls!(
    SOCKET_POOLS: SYS_setsockopt(NONE, 6, 14, 0, 0),
    SYS_setsockopt(NONE, 6, 38, 0, 0),
    SYS_setsockopt(NONE, 6, 40, 0, 0),
    SYS_setsockopt(NONE, 41, 32, 0, 0),
    SYS_setsockopt(NONE, 41, 6, 0, 0),
    SYS_setsockopt(NONE, 41, 20, 0, 0),
    SYS_setsockopt(NONE, 0, 35, 0, 0),
);
// F_SETLEASE, F_SETDELEG.
calls!(LEASES: SYS_fcntl(NONE, 1024, 0), SYS_fcntl(NONE, 1040, 0));
// Unknown flags.
calls!(FANOTIFY: SYS_fanotify_init(UNKNOWN_FLAGS, 0), SYS_fanotify_mark(NONE, UNKNOWN_FLAGS, 0, NONE, 0));
// Families: packet, vsock, AF_ALG, AF_XDP; netlink of uevents and of audit.
calls!(
    SOCKETS: SYS_socket(17, 3, 0),
    SYS_socket(40, 1, 0),
    SYS_socket(38, 5, 0),
    SYS_socket(44, 3, 0),
    SYS_socket(16, 3, 15),
    SYS_socket(16, 3, 9),
);
