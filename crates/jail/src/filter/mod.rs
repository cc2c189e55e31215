//! The system-call filter: an allow-list as data, compiled to a binary tree.
//!
//! What is not listed answers `EPERM`; what no kernel of today knows answers `ENOSYS`, so that a newer C library falls
//! back. The list is for x86-64; on another architecture no sandbox is started.

mod check;
mod list;
mod options;

use libc::{BPF_ABS, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter};
use mutation::{Mutation, mutated};

use check::{Check, allow, answer, jump, statement};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allow,
    Errno(i32),
    /// Allowed unless an argument says otherwise.
    Check(Check),
}

/// The setuid and setgid bits of a file's mode.
const SET_ID: u32 = 0o6000;

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

/// Answered as if the kernel did not have them, because programs then use something else.
///
/// The contexts of asynchronous I/O (`io_setup` and the calls that use them) come out of `fs.aio-max-nr`, one number for
/// the whole host: 21 calls took all of it. POSIX message queues are counted per user of the host, and Landlock, which
/// knows no path to them, refuses to open any.
const UNKNOWN: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_io_destroy,
    libc::SYS_io_getevents,
    libc::SYS_io_submit,
    libc::SYS_io_cancel,
    IO_PGETEVENTS,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
    MAP_SHADOW_STACK,
];
const IO_PGETEVENTS: c_long = 333;
const MAP_SHADOW_STACK: c_long = 453;

/// Answered with success, without being done. `sync` writes back every file system of the host and cannot be killed while
/// it waits; what a sandbox needs written, it names with `fsync` or `syncfs`.
const IGNORED: &[c_long] = &[libc::SYS_sync];

/// Every entry of the list.
fn entries() -> impl Iterator<Item = &'static list::Entry> {
    [list::FILES, list::MEMORY, list::PROCESSES, list::NETWORK, list::UNNAMED, list::CHECKED].into_iter().flatten()
}

fn action(number: c_long, bits: SetIdBits) -> Action {
    if bits == SetIdBits::Refused {
        if let Some((_, argument)) = MODES.iter().find(|(call, _)| *call == number) {
            return Action::Check(Check::WithoutBits(*argument, SET_ID));
        }
        // Its mode lies in memory, where a filter cannot look; programs have another way.
        if number == libc::SYS_openat2 {
            return Action::Errno(libc::ENOSYS);
        }
    }
    if number == libc::SYS_keyctl && mutated(Mutation::DangerousCall) {
        return Action::Allow;
    }
    if number == libc::SYS_setsockopt && mutated(Mutation::SocketFilter) {
        return Action::Allow;
    }
    if let Some(entry) = entries().find(|entry| entry.number == number) {
        return entry.check.map_or(Action::Allow, Action::Check);
    }
    if IGNORED.contains(&number) {
        return Action::Errno(0);
    }
    if number > LAST_KNOWN || UNKNOWN.contains(&number) {
        Action::Errno(libc::ENOSYS)
    } else {
        Action::Errno(libc::EPERM)
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
        Action::Check(check) => check::block(*check),
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
