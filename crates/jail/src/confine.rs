//! The gateway's own confinement: a process that parses hostile bytes and connects to the world needs sockets, memory,
//! threads and the time, and nothing else of the kernel.
//!
//! It works for root and for a plain user alike: no capabilities, no new ones by executing something, no files by
//! Landlock, and a system-call allow-list that has no call to open, execute, signal or trace anything. A process that is
//! confined like this keeps the descriptors that it has, and may be handed more.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_int, c_long, sock_filter,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::{landlock, probe, syscalls};

/// How a process is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    /// The version of Landlock that keeps it from files, beside the filter; `None` where the kernel has none.
    pub landlock: Option<u32>,
}

/// Confines the calling thread and all that it starts later, for good. Call it before there is a second thread. Memory of
/// the process cannot be read by other processes of the same user afterwards.
pub fn confine() -> io::Result<Confined> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    confine_thread()
}

fn confine_thread() -> io::Result<Confined> {
    let none = CapabilitySet::empty();
    set_no_new_privs(true)?;
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let landlock = probe::landlock_version();
    if let Some(version) = landlock {
        refuse_files(version)?;
    }
    syscalls::load_filter(&program(std::process::id()))?;
    Ok(Confined { landlock })
}

/// Landlock with all rights handled and no rule: no file, no TCP listener, no signal to a process outside.
fn refuse_files(version: u32) -> io::Result<()> {
    #[repr(C)]
    struct Ruleset {
        files: u64,
        network: u64,
        scoped: u64,
    }
    const BIND_TCP: u64 = 1;
    let ruleset = Ruleset {
        files: landlock::handled(version),
        network: if version >= 4 { BIND_TCP } else { 0 },
        scoped: landlock::scoped(version),
    };
    // An older kernel takes the shorter structure: only what it knows may be non-zero.
    let size = match version {
        0..4 => 8,
        4..6 => 16,
        _ => size_of::<Ruleset>(),
    };
    // WHY: two calls do not need a library.
    // SAFETY: the structure is that of landlock(7), at least as long as the size that is passed with it.
    unsafe {
        let number = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size, 0);
        let number = RawFd::try_from(number).ok().filter(|number| *number >= 0).ok_or_else(io::Error::last_os_error)?;
        let rules = OwnedFd::from_raw_fd(number);
        match libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The last call that this list was made for; later ones answer as if the kernel did not have them.
const LAST_KNOWN: u32 = 467;

/// Calls that need no look at their arguments.
const ALLOWED: &[c_long] = &[
    // Bytes and events of descriptors that are open.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    // Sockets. `listen` is not here: listeners are handed over.
    libc::SYS_connect,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    // Memory, without code.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
];

/// A test of one half of an argument: the bits of the mask are these.
#[derive(Debug, Clone, Copy)]
struct Is {
    /// Where it lies in `seccomp_data`.
    at: u32,
    mask: u32,
    value: u32,
}

/// The low half of an argument; all but pointers fit into it.
fn argument(index: u32, value: c_int) -> Is {
    masked(index, u32::MAX, value)
}

fn masked(index: u32, mask: u32, value: c_int) -> Is {
    Is { at: 16 + 8 * index, mask, value: value.cast_unsigned() }
}

/// A pointer that is null.
fn null(index: u32) -> [Is; 2] {
    [Is { at: 16 + 8 * index, mask: u32::MAX, value: 0 }, Is { at: 20 + 8 * index, mask: u32::MAX, value: 0 }]
}

/// Calls that are allowed when every test of one of the alternatives holds.
fn checked(pid: u32) -> Vec<(c_long, Vec<Vec<Is>>)> {
    const KIND: u32 = 0xf;
    const EXECUTABLE: u32 = libc::PROT_EXEC.cast_unsigned();
    let one_of = |index: u32, values: &[c_int]| values.iter().map(|value| vec![argument(index, *value)]).collect();
    let thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    // TCP and UDP; the routing protocol of netlink lists addresses. Not UNIX: a daemon's socket is a way to the host.
    let mut sockets = vec![vec![argument(0, libc::AF_NETLINK), argument(2, libc::NETLINK_ROUTE)]];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (kind, protocol) in [(libc::SOCK_STREAM, libc::IPPROTO_TCP), (libc::SOCK_DGRAM, libc::IPPROTO_UDP)] {
            for protocol in [0, protocol] {
                sockets.push(vec![argument(0, family), masked(1, KIND, kind), argument(2, protocol)]);
            }
        }
    }
    let options = |level: c_int, options: &[c_int]| -> Vec<Vec<Is>> {
        options.iter().map(|option| vec![argument(1, level), argument(2, *option)]).collect()
    };
    let mut settable =
        options(libc::SOL_SOCKET, &[libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_LINGER, libc::SO_REUSEADDR]);
    settable.extend(options(libc::IPPROTO_TCP, &[libc::TCP_NODELAY, libc::TCP_QUICKACK]));
    settable.extend(options(libc::IPPROTO_IPV6, &[libc::IPV6_V6ONLY]));
    vec![
        (libc::SYS_socket, sockets),
        // A stream that is paired cannot be connected to anything else.
        (libc::SYS_socketpair, vec![vec![argument(0, libc::AF_UNIX), masked(1, KIND, libc::SOCK_STREAM)]]),
        (libc::SYS_setsockopt, settable),
        (libc::SYS_mmap, vec![vec![masked(2, EXECUTABLE, 0)]]),
        (libc::SYS_mprotect, vec![vec![masked(2, EXECUTABLE, 0)]]),
        (libc::SYS_clone, vec![vec![masked(0, (thread | namespaces).cast_unsigned(), thread)]]),
        (libc::SYS_tgkill, vec![vec![argument(0, pid.cast_signed())]]),
        (libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME])),
        // The question for a limit of its own; not a new one, not of another process.
        (libc::SYS_prlimit64, vec![[vec![argument(0, 0)], null(2).to_vec()].concat()]),
        (libc::SYS_ioctl, one_of(1, &[0x5421])), // FIONBIO
        (
            libc::SYS_fcntl,
            one_of(1, &[libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC]),
        ),
    ]
}

fn statement(code: u32, k: u32) -> sock_filter {
    // All of these codes are below 2^16.
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt: 0, jf: 0, k }
}

/// Goes on if the comparison holds, else skips so many instructions.
fn unless_skip(code: u32, k: u32, skipped: usize) -> sock_filter {
    // More than fit would be refused by the kernel's check, or lead past a refusal into another one.
    sock_filter { jf: u8::try_from(skipped).unwrap_or(u8::MAX), ..statement(BPF_JMP | code | BPF_K, k) }
}

fn load(at: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, at)
}

fn answer(action: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, action)
}

fn refuse(errno: c_int) -> sock_filter {
    answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// One test after the other; behind each alternative that holds, the call is allowed.
fn alternatives(all: &[Vec<Is>]) -> Vec<sock_filter> {
    let mut block = Vec::new();
    for tests in all {
        for (index, test) in tests.iter().enumerate() {
            // To the next alternative: over the tests that are left, three instructions each, and the answer.
            let skipped = 3 * (tests.len() - index - 1) + 1;
            block.push(load(test.at));
            block.push(statement(BPF_ALU | BPF_AND | BPF_K, test.mask));
            block.push(unless_skip(BPF_JEQ, test.value, skipped));
        }
        block.push(answer(libc::SECCOMP_RET_ALLOW));
    }
    block.push(refuse(libc::EPERM));
    block
}

/// The filter. The kernel keeps the answers that depend on the call's number alone in a table, so its length costs little.
fn program(pid: u32) -> Vec<sock_filter> {
    const X86_64: u32 = 0xC000_003E;
    let mut program = vec![
        load(4),
        sock_filter { jt: 1, ..statement(BPF_JMP | BPF_JEQ | BPF_K, X86_64) },
        // Another calling convention has other numbers: nothing is right about it.
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(0),
    ];
    for call in ALLOWED {
        program.extend([unless_skip(BPF_JEQ, number(*call), 1), answer(libc::SECCOMP_RET_ALLOW)]);
    }
    for (call, tests) in checked(pid) {
        let block = alternatives(&tests);
        program.push(unless_skip(BPF_JEQ, number(call), block.len()));
        program.extend(block);
    }
    // The C library starts threads by `clone` where there is no `clone3`, whose flags a filter cannot see.
    program.extend([unless_skip(BPF_JEQ, number(libc::SYS_clone3), 1), refuse(libc::ENOSYS)]);
    program.extend([unless_skip(BPF_JGE, LAST_KNOWN + 1, 1), refuse(libc::ENOSYS), refuse(libc::EPERM)]);
    program
}

#[cfg(test)]
#[path = "confine_tests.rs"]
mod tests;
