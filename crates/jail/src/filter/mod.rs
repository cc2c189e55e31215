//! The system-call filter: an allow-list as data, compiled to a binary tree.
//!
//! What is not listed answers `EPERM`; what no kernel of today knows answers `ENOSYS`, so that a newer C library falls
//! back. The list is for x86-64; on another architecture no sandbox is started.

mod list;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter,
};
use mutation::{Mutation, mutated};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allow,
    Errno(i32),
    /// Allowed unless an argument says otherwise.
    Check(Check),
}

/// Calls whose arguments decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// `clone`: no new namespaces.
    CloneFlags,
    /// `socket`: UNIX; TCP and UDP over IPv4 and IPv6; of netlink only routing.
    Socket,
    /// `socketpair`: UNIX only.
    SocketPair,
    /// `ioctl`: nothing that types into a terminal.
    Ioctl,
    /// `personality`: the ones that change no protection.
    Personality,
    /// This argument is a process number, and not the guest's.
    NotTheGuest(u32),
    /// `setpriority`, `ioprio_set`: single processes (this word of the first argument) but the guest.
    OneProcess(u32),
    /// This argument is a file's mode, without setuid and setgid.
    NoSetId(u32),
}

/// Whether files may get the setuid and setgid bits. Not where the sandbox writes to the host's own files: there such a
/// file would be one of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetIdBits {
    Allowed,
    Refused,
}

/// Calls that can give a file those bits, with the argument that holds the mode.
const MODES: &[(c_long, u32)] = &[
    (libc::SYS_open, 2),
    (libc::SYS_creat, 1),
    (libc::SYS_openat, 3),
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// The last number that this list was made for; what lies beyond is unknown, not forbidden.
const LAST_KNOWN: c_long = 467;

/// Answered as if the kernel did not have them, because programs then use something else. The last is
/// `map_shadow_stack`.
const UNKNOWN: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, 453];

/// Every entry of the list.
fn entries() -> impl Iterator<Item = &'static list::Entry> {
    [list::FILES, list::MEMORY, list::PROCESSES, list::NETWORK, list::UNNAMED, list::CHECKED].into_iter().flatten()
}

fn action(number: c_long, bits: SetIdBits) -> Action {
    if bits == SetIdBits::Refused {
        if let Some((_, argument)) = MODES.iter().find(|(call, _)| *call == number) {
            return Action::Check(Check::NoSetId(*argument));
        }
        // Its mode lies in memory, where a filter cannot look; programs have another way.
        if number == libc::SYS_openat2 {
            return Action::Errno(libc::ENOSYS);
        }
    }
    if number == libc::SYS_keyctl && mutated(Mutation::DangerousCall) {
        return Action::Allow;
    }
    if let Some(entry) = entries().find(|entry| entry.number == number) {
        return entry.check.map_or(Action::Allow, Action::Check);
    }
    if number > LAST_KNOWN || UNKNOWN.contains(&number) {
        Action::Errno(libc::ENOSYS)
    } else {
        Action::Errno(libc::EPERM)
    }
}

fn statement(code: u32, k: u32) -> sock_filter {
    // All of these codes are below 2^16.
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: 0, jf: 0, k }
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..statement(BPF_JMP | code | BPF_K, k) }
}

fn answer(errno: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

fn allow() -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW)
}

/// Loads the low half of an argument; `seccomp_data` has them at 16, little endian.
fn load_argument(index: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * index)
}

/// Instructions that end with a decision.
fn check_block(check: Check) -> Vec<sock_filter> {
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
        Check::Socket => {
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
        Check::SocketPair => {
            let mut block = vec![load_argument(0)];
            block.extend(one_of(&[libc::AF_UNIX.cast_unsigned()], answer(libc::EAFNOSUPPORT)));
            block
        }
        Check::Ioctl => vec![
            load_argument(1),
            jump(BPF_JEQ, 0x5412, 1, 0), // TIOCSTI: types into the terminal
            jump(BPF_JEQ, 0x541c, 0, 1), // TIOCLINUX: pastes into it
            answer(libc::EPERM),
            allow(),
        ],
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
        Check::NoSetId(argument) => vec![
            load_argument(argument),
            statement(BPF_ALU | BPF_AND | BPF_K, 0o6000),
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

/// The whole filter.
pub(crate) fn program(bits: SetIdBits) -> Vec<sock_filter> {
    compile(|number| action(number, bits))
}

/// The filter as it would be if this call were not on the list.
#[cfg(test)]
fn program_without(missing: c_long) -> Vec<sock_filter> {
    let refused = Action::Errno(libc::EPERM);
    compile(|number| if number == missing { refused } else { action(number, SetIdBits::Allowed) })
}

fn compile(action: impl Fn(c_long) -> Action) -> Vec<sock_filter> {
    const X86_64: u32 = 0xC000_003E;
    // Runs of numbers with the same action; one leaf each.
    let mut runs: Vec<(u32, Action)> = Vec::new();
    for number in 0..=LAST_KNOWN + 1 {
        let action = action(number);
        if runs.last().is_none_or(|(_, last)| *last != action || matches!(action, Action::Check(_))) {
            runs.push((u32::try_from(number).unwrap_or(u32::MAX), action));
        }
    }
    let mut program = vec![
        statement(BPF_LD | BPF_W | BPF_ABS, 4),
        jump(BPF_JEQ, X86_64, 1, 0),
        // Another calling convention has other numbers: nothing is right about it.
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
        statement(BPF_LD | BPF_W | BPF_ABS, 0),
    ];
    program.extend(tree(&runs));
    program
}

/// Halves the runs until one is left.
fn tree(runs: &[(u32, Action)]) -> Vec<sock_filter> {
    let [(_, action)] = runs else {
        let (left, right) = runs.split_at(runs.len() / 2);
        let (first, left, right) = (right.first().map_or(0, |(first, _)| *first), tree(left), tree(right));
        let over = u32::try_from(left.len()).unwrap_or(0);
        // A short jump fits into the question; the kernel compiles every instruction anew for every sandbox.
        let mut node = match u8::try_from(over) {
            Ok(over) => vec![jump(BPF_JGE, first, over, 0)],
            Err(_) => vec![jump(BPF_JGE, first, 0, 1), statement(BPF_JMP | BPF_JA, over)],
        };
        node.extend(left);
        node.extend(right);
        return node;
    };
    match action {
        Action::Allow => vec![allow()],
        Action::Errno(errno) => vec![answer(*errno)],
        Action::Check(check) => check_block(*check),
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
