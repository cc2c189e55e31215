//! Checks of arguments: for calls that are allowed unless an argument says otherwise, the instructions that decide.

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// Calls whose arguments decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// `clone`: no new namespaces.
    CloneFlags,
    /// `socket`: UNIX; TCP and UDP over IPv4 and IPv6; of netlink only routing.
    Socket,
    /// `socketpair`: UNIX only.
    SocketPair,
    /// `ioctl`: nothing that types into a terminal or loads a line discipline.
    Ioctl,
    /// `fcntl`: no leases or delegations. The host's `open` of a leased file waits for the holder, up to 45 seconds.
    Fcntl,
    /// `setsockopt`: only options that keep no kernel memory of their own ([`super::options`]).
    SocketOption,
    /// `seccomp`: the two queries. A filter takes from the host-wide BPF JIT pool.
    SeccompQuery,
    /// `prctl`: everything but `PR_SET_SECCOMP`, for the same reason.
    Prctl,
    /// `setrlimit`: the limit of core dumps stays as it is (see `inside::set_limits`).
    SetLimit,
    /// `prlimit64`: the same, and never the guest's limits.
    ProcessLimit,
    /// `personality`: the ones that change no protection.
    Personality,
    /// This argument is a process number, and not the guest's.
    NotTheGuest(u32),
    /// `setpriority`, `ioprio_set`: single processes (this word of the first argument) but the guest.
    OneProcess(u32),
    /// This argument has none of these bits.
    WithoutBits(u32, u32),
}

/// A lease on a directory or file (Linux 6.19).
const F_SETDELEG: u32 = 1040;
/// `RLIMIT_CORE` as the argument of a system call.
const RLIMIT_CORE: u32 = 4;

pub(super) fn statement(code: u32, k: u32) -> sock_filter {
    // All of these codes are below 2^16.
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: 0, jf: 0, k }
}

pub(super) fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..statement(BPF_JMP | code | BPF_K, k) }
}

pub(super) fn answer(errno: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

pub(super) fn allow() -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW)
}

/// Loads the low half of an argument; `seccomp_data` has them at 16, little endian.
pub(super) fn load_argument(index: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * index)
}

/// Loads the high half of an argument.
fn load_upper_half(index: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, 20 + 8 * index)
}

/// Instructions that end with a decision.
pub(super) fn block(check: Check) -> Vec<sock_filter> {
    let one_of = |values: &[u32], otherwise: sock_filter| -> Vec<sock_filter> {
        let count = values.len();
        let mut block: Vec<sock_filter> = values
            .iter()
            .enumerate()
            .map(|(index, value)| jump(BPF_JEQ, *value, u8::try_from(count - index).unwrap_or(0), 0))
            .collect();
        block.extend([otherwise, allow()]);
        block
    };
    match check {
        Check::CloneFlags => {
            let namespaces = libc::CLONE_NEWNS
                | libc::CLONE_NEWCGROUP
                | libc::CLONE_NEWUTS
                | libc::CLONE_NEWIPC
                | libc::CLONE_NEWUSER
                | libc::CLONE_NEWPID
                | libc::CLONE_NEWNET;
            vec![
                load_argument(0),
                statement(BPF_ALU | BPF_AND | BPF_K, namespaces.cast_unsigned()),
                jump(BPF_JEQ, 0, 1, 0),
                answer(libc::EPERM),
                allow(),
            ]
        }
        Check::Socket => socket_block(),
        Check::SocketPair => {
            let mut block = vec![load_argument(0)];
            block.extend(one_of(&[libc::AF_UNIX.cast_unsigned()], answer(libc::EAFNOSUPPORT)));
            block
        }
        Check::Ioctl => vec![
            load_argument(1),
            jump(BPF_JEQ, 0x5412, 2, 0), // TIOCSTI: types into the terminal
            jump(BPF_JEQ, 0x5423, 1, 0), // TIOCSETD: loads a line discipline, a module of the host
            jump(BPF_JEQ, 0x541c, 0, 1), // TIOCLINUX: pastes into the terminal
            answer(libc::EPERM),
            allow(),
        ],
        Check::Fcntl => vec![
            load_argument(1),
            jump(BPF_JEQ, libc::F_SETLEASE.cast_unsigned(), 1, 0),
            jump(BPF_JEQ, F_SETDELEG, 0, 1),
            answer(libc::EINVAL),
            allow(),
        ],
        Check::Prctl => refuse_one(0, libc::PR_SET_SECCOMP.cast_unsigned(), libc::EINVAL),
        Check::SetLimit => refuse_one(0, RLIMIT_CORE, 0),
        Check::ProcessLimit => vec![
            load_argument(0),
            jump(BPF_JEQ, 1, 8, 0), // the guest's
            load_argument(1),
            jump(BPF_JEQ, RLIMIT_CORE, 0, 8),
            // A query passes no new limit; a change that asks for the old one would be left without an answer.
            load_argument(2),
            jump(BPF_JEQ, 0, 0, 2),
            load_upper_half(2),
            jump(BPF_JEQ, 0, 4, 0),
            load_argument(3),
            jump(BPF_JEQ, 0, 1, 0),
            answer(libc::EPERM),
            answer(0),
            allow(),
        ],
        Check::SeccompQuery => {
            let mut block = vec![load_argument(0)];
            let queries = [libc::SECCOMP_GET_ACTION_AVAIL, libc::SECCOMP_GET_NOTIF_SIZES];
            block.extend(one_of(&queries, answer(libc::EINVAL)));
            block
        }
        Check::SocketOption => super::options::block(),
        Check::NotTheGuest(argument) => {
            vec![load_argument(argument), jump(BPF_JEQ, 1, 0, 1), answer(libc::EPERM), allow()]
        }
        Check::OneProcess(word) => vec![
            load_argument(0),
            jump(BPF_JEQ, word, 0, 2),
            load_argument(1),
            jump(BPF_JEQ, 1, 0, 1),
            answer(libc::EPERM),
            allow(),
        ],
        Check::WithoutBits(argument, bits) => vec![
            load_argument(argument),
            statement(BPF_ALU | BPF_AND | BPF_K, bits),
            jump(BPF_JEQ, 0, 1, 0),
            answer(libc::EPERM),
            allow(),
        ],
        Check::Personality => {
            let mut block = vec![load_argument(0)];
            // Linux, 32-bit uname, old uname, both, and the question what it is.
            block.extend(one_of(&[0, 8, 0x0002_0000, 0x0002_0008, u32::MAX], answer(libc::EPERM)));
            block
        }
    }
}

/// Everything is allowed but one value of one argument.
fn refuse_one(argument: u32, value: u32, errno: i32) -> Vec<sock_filter> {
    vec![load_argument(argument), jump(BPF_JEQ, value, 0, 1), answer(errno), allow()]
}

/// The family, then the type and the protocol.
fn socket_block() -> Vec<sock_filter> {
    let family = |family: i32| family.cast_unsigned();
    vec![
        load_argument(0),
        jump(BPF_JEQ, family(libc::AF_UNIX), 15, 0),
        jump(BPF_JEQ, family(libc::AF_INET), 4, 0),
        jump(BPF_JEQ, family(libc::AF_INET6), 3, 0),
        jump(BPF_JEQ, family(libc::AF_NETLINK), 0, 11),
        // Netlink: the protocol must be routing, which getifaddrs needs.
        load_argument(2),
        jump(BPF_JEQ, libc::NETLINK_ROUTE.cast_unsigned(), 10, 9),
        // IPv4 and IPv6: the type, without its flags, must not be raw, and the protocol TCP or UDP.
        load_argument(1),
        statement(BPF_ALU | BPF_AND | BPF_K, 0xf),
        jump(BPF_JEQ, libc::SOCK_STREAM.cast_unsigned(), 1, 0),
        jump(BPF_JEQ, libc::SOCK_DGRAM.cast_unsigned(), 0, 5),
        load_argument(2),
        jump(BPF_JEQ, 0, 4, 0),
        jump(BPF_JEQ, libc::IPPROTO_TCP.cast_unsigned(), 3, 0),
        jump(BPF_JEQ, libc::IPPROTO_UDP.cast_unsigned(), 2, 0),
        answer(libc::EPROTONOSUPPORT),
        answer(libc::EAFNOSUPPORT),
        allow(),
    ]
}
