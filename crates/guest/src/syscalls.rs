//! The only `unsafe` of the guest: fork, exec, the descriptor that it was born with, and the calls that a probe tries.
#![expect(unsafe_code, reason = "fork, exec and adopting an inherited descriptor have no safe form")]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use rustix::process::Pid;

/// Where whoever starts the guest leaves its control stream.
const CONTROL: i32 = 3;

/// Takes over the control stream that whoever executed this program left at number 3; call it once, before anything else.
/// Where it is two, the second, at number 4, is what is written to.
pub fn control_stream(two_ways: bool) -> Option<(OwnedFd, Option<OwnedFd>)> {
    let writes = if two_ways { Some(adopt(CONTROL + 1)?) } else { None };
    Some((adopt(CONTROL)?, writes))
}

fn adopt(number: i32) -> Option<OwnedFd> {
    // WHY: the descriptor comes from the process that executed us.
    // SAFETY: fcntl takes plain values; these descriptors are ours by contract, and this is the only place that adopts them.
    unsafe {
        if libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == -1 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(number))
    }
}

/// Makes a system call of a probe: numbers as they are, bytes by their address. Never from the guest itself.
pub(crate) fn raw_call(number: i64, arguments: &mut [wire::Argument]) -> io::Result<i64> {
    let mut values = [0_u64; 6];
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = match argument {
            wire::Argument::Number(number) => *number,
            wire::Argument::Bytes(bytes) => bytes.as_mut_ptr() as u64,
        };
    }
    let [first, second, third, fourth, fifth, sixth] = values;
    // WHY: to try a call that no library makes is what a probe is for.
    // SAFETY: the host may have anything tried; this runs in a child that does nothing else, shares no memory with the
    // guest and ends right after. Buffers outlive the call.
    match unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// Which side of a fork this is.
pub(crate) enum Side {
    Parent(Pid),
    Child,
}

/// Copies this process.
pub(crate) fn fork() -> io::Result<Side> {
    // WHY: the standard library cannot fork without exec.
    // SAFETY: this program never has more than one thread, so the child's copy is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        pid => Pid::from_raw(pid).map(Side::Parent).ok_or_else(|| io::Error::from(io::ErrorKind::Other)),
    }
}

/// The stack of a child that shares our memory: enough for a handful of calls before it executes something.
const CHILD_STACK: usize = 64 << 10;

/// Starts a child that runs `body` in *our* memory while we wait, until it executes a program or ends. No page table is
/// copied, which is most of what a fork costs.
pub(crate) fn spawn_until_exec(mut body: impl FnMut()) -> io::Result<Pid> {
    extern "C" fn enter<B: FnMut()>(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is to the parent's `body`, which lives on while the parent waits, and nobody else uses it.
        unsafe { (*body.cast::<B>())() };
        127
    }
    fn entry<B: FnMut()>(_: &B) -> extern "C" fn(*mut libc::c_void) -> libc::c_int {
        enter::<B>
    }
    let entry = entry(&body);
    let mut stack = Vec::<u128>::with_capacity(CHILD_STACK / size_of::<u128>());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // WHY: the standard library's spawn cannot be a session leader with a terminal of another user in another directory.
    // SAFETY: with CLONE_VFORK this thread, the only one, stands still until the child has executed or ended, so the
    // shared memory has one user at a time; the child has a stack of its own, aligned, that outlives it; it ends by
    // exec or by returning, and never unwinds (this program aborts on panic).
    let pid = unsafe {
        let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
        libc::clone(entry, top.cast(), flags, (&raw mut body).cast())
    };
    if pid == -1 {
        return Err(io::Error::last_os_error());
    }
    Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::Other))
}

/// Closes every descriptor from 3 on but these.
pub(crate) fn close_all_but(kept: &[RawFd]) {
    let mut sorted = kept.to_vec();
    sorted.sort_unstable();
    let mut first = 3;
    for kept in sorted.into_iter().map(i32::cast_unsigned).chain([u32::MAX]) {
        if kept > first {
            // WHY: a copy of the guest holds all that the guest has open for other commands.
            // SAFETY: takes plain values. This process goes on without any object that owns one of the closed numbers:
            // it never returns to the server, and ends by `_exit`.
            unsafe { libc::syscall(libc::SYS_close_range, first, kept - 1, 0) };
        }
        first = first.max(kept.saturating_add(1));
    }
}

/// Closes a descriptor that no program would inherit, as an exec does.
pub(crate) fn close_if_not_inherited(number: RawFd) {
    // WHY: a probe executes nothing, and must not hold more than a command would.
    // SAFETY: takes plain values. The process goes on without any object that owns the number, as after an exec.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFD);
        if flags != -1 && flags & libc::FD_CLOEXEC != 0 {
            libc::close(number);
        }
    }
}

/// Ends this process at once, without running anything of the parent's.
pub(crate) fn exit_now(code: i32) -> ! {
    // WHY: exit handlers of the parent must not run in a forked child.
    // SAFETY: takes a plain value and does not return.
    unsafe { libc::_exit(code) }
}

/// Tries the candidates in turn; returns only if none could be executed, with the most telling error.
pub(crate) fn exec(candidates: &[CString], argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in candidates {
        // WHY: the standard library's exec inherits the environment that we do not want.
        // SAFETY: both arrays end with a null pointer and outlive the call.
        unsafe { libc::execve(candidate.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        let failed = io::Error::last_os_error();
        // A later directory may have it; "permission denied" says more than "not found".
        if !matches!(failed.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) {
            error = failed;
        }
    }
    error
}
