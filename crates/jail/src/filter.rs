//! The system-call filter: an allow-list as data, compiled to a binary tree.
//!
//! What is not listed answers `EPERM`; what no kernel of today knows answers `ENOSYS`, so that a newer C library falls
//! back. The list is for x86-64; on another architecture no sandbox is started.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter,
};

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
    /// `socket`: UNIX, IPv4, IPv6 without raw ones; of netlink only routing.
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

macro_rules! calls {
    ($($name:ident),* $(,)?) => { &[$(libc::$name),*] };
}

/// Files: names, contents, attributes, links. What a right or a mount forbids stays forbidden by it.
const FILES: &[c_long] = calls![
    SYS_read,
    SYS_write,
    SYS_open,
    SYS_close,
    SYS_stat,
    SYS_fstat,
    SYS_lstat,
    SYS_poll,
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_access,
    SYS_pipe,
    SYS_select,
    SYS_dup,
    SYS_dup2,
    SYS_sendfile,
    SYS_fcntl,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_truncate,
    SYS_ftruncate,
    SYS_getdents,
    SYS_getcwd,
    SYS_chdir,
    SYS_fchdir,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_creat,
    SYS_link,
    SYS_unlink,
    SYS_symlink,
    SYS_readlink,
    SYS_chmod,
    SYS_fchmod,
    SYS_chown,
    SYS_fchown,
    SYS_lchown,
    SYS_umask,
    SYS_utime,
    SYS_mknod,
    SYS_statfs,
    SYS_fstatfs,
    SYS_sync,
    SYS_chroot,
    SYS_readahead,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_getdents64,
    SYS_fadvise64,
    SYS_utimes,
    SYS_openat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_fchownat,
    SYS_futimesat,
    SYS_newfstatat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_readlinkat,
    SYS_fchmodat,
    SYS_faccessat,
    SYS_pselect6,
    SYS_ppoll,
    SYS_splice,
    SYS_tee,
    SYS_sync_file_range,
    SYS_vmsplice,
    SYS_utimensat,
    SYS_fallocate,
    SYS_dup3,
    SYS_pipe2,
    SYS_inotify_init1,
    SYS_inotify_init,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_preadv,
    SYS_pwritev,
    SYS_syncfs,
    SYS_renameat2,
    SYS_copy_file_range,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_statx,
    SYS_openat2,
    SYS_faccessat2,
    SYS_close_range,
    SYS_fchmodat2,
];

/// Memory of one's own.
const MEMORY: &[c_long] = calls![
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_brk,
    SYS_mremap,
    SYS_msync,
    SYS_mincore,
    SYS_madvise,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_mlock,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_remap_file_pages,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_get_mempolicy,
    SYS_memfd_create,
    SYS_mlock2,
    SYS_pkey_mprotect,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_process_madvise,
    SYS_set_mempolicy_home_node,
    SYS_mseal,
];

/// Processes, threads, signals. `ptrace` serves debuggers; the guest is not traceable.
const PROCESSES: &[c_long] = calls![
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_yield,
    SYS_pause,
    SYS_nanosleep,
    SYS_getitimer,
    SYS_alarm,
    SYS_setitimer,
    SYS_getpid,
    SYS_fork,
    SYS_vfork,
    SYS_execve,
    SYS_exit,
    SYS_wait4,
    SYS_kill,
    SYS_uname,
    SYS_semget,
    SYS_semop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_gettimeofday,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_times,
    SYS_ptrace,
    SYS_getuid,
    SYS_getgid,
    SYS_setuid,
    SYS_setgid,
    SYS_geteuid,
    SYS_getegid,
    SYS_setpgid,
    SYS_getppid,
    SYS_getpgrp,
    SYS_setsid,
    SYS_setreuid,
    SYS_setregid,
    SYS_getgroups,
    SYS_setgroups,
    SYS_setresuid,
    SYS_getresuid,
    SYS_setresgid,
    SYS_getresgid,
    SYS_getpgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_getsid,
    SYS_capget,
    SYS_capset,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_getpriority,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval,
    SYS_prctl,
    SYS_arch_prctl,
    SYS_setrlimit,
    SYS_gettid,
    SYS_tkill,
    SYS_time,
    SYS_futex,
    SYS_sched_getaffinity,
    SYS_set_tid_address,
    SYS_restart_syscall,
    SYS_semtimedop,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_exit_group,
    SYS_tgkill,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
    SYS_waitid,
    SYS_ioprio_get,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_signalfd,
    SYS_timerfd_create,
    SYS_eventfd,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_signalfd4,
    SYS_eventfd2,
    SYS_rt_tgsigqueueinfo,
    SYS_getcpu,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_sched_getattr,
    SYS_seccomp,
    SYS_getrandom,
    SYS_execveat,
    SYS_membarrier,
    SYS_rseq,
    SYS_pidfd_send_signal,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_futex_waitv,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
    SYS_process_mrelease,
];

/// Sockets once they are there, and waiting for many things.
const NETWORK: &[c_long] = calls![
    SYS_connect,
    SYS_accept,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_shutdown,
    SYS_bind,
    SYS_listen,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_epoll_create,
    SYS_epoll_ctl_old,
    SYS_epoll_wait_old,
    SYS_epoll_wait,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_accept4,
    SYS_epoll_create1,
    SYS_recvmmsg,
    SYS_sendmmsg,
    SYS_epoll_pwait2,
    SYS_io_setup,
    SYS_io_destroy,
    SYS_io_getevents,
    SYS_io_submit,
    SYS_io_cancel,
];

/// Harmless calls that the `libc` crate has no name for yet: `io_pgetevents`, `cachestat`, `map_shadow_stack`, and
/// the three newer forms of futex.
const UNNAMED: &[c_long] = &[333, 451, 453, 454, 455, 456];

/// Answered as if the kernel did not have them, because programs then use something else.
const UNKNOWN: &[c_long] = calls![SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register];

const CHECKED: &[(c_long, Check)] = &[
    (libc::SYS_clone, Check::CloneFlags),
    (libc::SYS_socket, Check::Socket),
    (libc::SYS_socketpair, Check::SocketPair),
    (libc::SYS_ioctl, Check::Ioctl),
    (libc::SYS_personality, Check::Personality),
    (libc::SYS_prlimit64, Check::NotTheGuest(0)),
    (libc::SYS_sched_setparam, Check::NotTheGuest(0)),
    (libc::SYS_sched_setscheduler, Check::NotTheGuest(0)),
    (libc::SYS_sched_setattr, Check::NotTheGuest(0)),
    (libc::SYS_sched_setaffinity, Check::NotTheGuest(0)),
    (libc::SYS_setpriority, Check::OneProcess(0)),
    (libc::SYS_ioprio_set, Check::OneProcess(1)),
];

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
    if let Some((_, check)) = CHECKED.iter().find(|(checked, _)| *checked == number) {
        return Action::Check(*check);
    }
    if [FILES, MEMORY, PROCESSES, NETWORK, UNNAMED].iter().any(|list| list.contains(&number)) {
        return Action::Allow;
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
                jump(BPF_JEQ, family(libc::AF_UNIX), 10, 0),
                jump(BPF_JEQ, family(libc::AF_INET), 4, 0),
                jump(BPF_JEQ, family(libc::AF_INET6), 3, 0),
                jump(BPF_JEQ, family(libc::AF_NETLINK), 0, 6),
                // Netlink: the protocol must be routing, which getifaddrs needs.
                load_argument(2),
                jump(BPF_JEQ, libc::NETLINK_ROUTE.cast_unsigned(), 5, 4),
                // IPv4 and IPv6: the type, without its flags, must not be raw.
                load_argument(1),
                statement(BPF_ALU | BPF_AND | BPF_K, 0xf),
                jump(BPF_JEQ, libc::SOCK_STREAM.cast_unsigned(), 2, 0),
                jump(BPF_JEQ, libc::SOCK_DGRAM.cast_unsigned(), 1, 0),
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
    const X86_64: u32 = 0xC000_003E;
    // Runs of numbers with the same action; one leaf each.
    let mut runs: Vec<(u32, Action)> = Vec::new();
    for number in 0..=LAST_KNOWN + 1 {
        let action = action(number, bits);
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
        let mut node = vec![jump(BPF_JGE, first, 0, 1), statement(BPF_JMP | BPF_JA, over)];
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
mod tests {
    use super::*;

    /// What the filter says of a call: an interpreter of the few instructions that it is made of.
    fn judge(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 4]) -> u32 {
        let load = |offset: u32| match offset {
            0 => number,
            4 => arch,
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
        let arguments = [arguments[0], arguments[1], arguments[2], 0];
        judge(&program(SetIdBits::Allowed), 0xC000_003E, u32::try_from(number).unwrap(), arguments)
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
}
