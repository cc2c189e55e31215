//! System calls that have no safe form elsewhere, each in the smallest wrapper that is one.

use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Which side of a clone this is.
pub(crate) enum Side {
    Parent { pid: i32, pidfd: OwnedFd },
    Child,
}

/// Copies this process into new namespaces and, if given, into a v2 control group.
///
/// # Safety
/// The process must have one thread: the child goes on with a copy of it.
pub(crate) unsafe fn clone_into(flags: i32, group: Option<BorrowedFd<'_>>) -> io::Result<Side> {
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let (mut pidfd, sibling): (RawFd, u64) = (-1, u64::from(libc::CLONE_PARENT.cast_unsigned()));
    let flags = u64::from((flags | libc::CLONE_PIDFD).cast_unsigned()) | group.map_or(0, |_| INTO_CGROUP);
    let arguments = libc::clone_args {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        // A sibling ends as we would: whoever waits for us waits for it.
        exit_signal: if flags & sibling == 0 { u64::from(libc::SIGCHLD.cast_unsigned()) } else { 0 },
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.map_or(0, |group| u64::from(group.as_raw_fd().cast_unsigned())),
    };
    // WHY: namespaces and a pidfd in one step; the standard library has no clone.
    // SAFETY: the structure is complete and of the size passed; without a stack the child runs on a copy of ours.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) })?;
    if pid == 0 {
        return Ok(Side::Child);
    }
    // SAFETY: the kernel gave us this descriptor.
    Ok(Side::Parent { pid: i32::try_from(pid).unwrap_or(-1), pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

/// Copies this process as [`clone_into`] does, with `owner` as the effective user and group while it happens: a new user
/// namespace then belongs to `owner`, and what the kernel counts per user is counted for `owner`. 0 changes nothing.
///
/// The caller must have called [`keep_rights_across_owners`], and loses its parent-death signal.
///
/// # Safety
/// As for [`clone_into`].
pub(crate) unsafe fn clone_as(owner: u32, flags: i32, group: Option<BorrowedFd<'_>>) -> io::Result<Side> {
    let become_owner = |owner: u32| {
        // WHY: rustix has no form that leaves the real and saved ids as they are.
        // SAFETY: take plain values; the process has one thread.
        unsafe {
            check(libc::syscall(libc::SYS_setresgid, u32::MAX, owner, u32::MAX))?;
            check(libc::syscall(libc::SYS_setresuid, u32::MAX, owner, u32::MAX))
        }
    };
    if owner == 0 {
        // SAFETY: the caller's promise.
        return unsafe { clone_into(flags, group) };
    }
    // SAFETY: the caller's promise.
    let side = become_owner(owner).and_then(|_| unsafe { clone_into(flags, group) });
    // The child's ids are those of its namespace from now on.
    if !matches!(side, Ok(Side::Child)) && become_owner(0).is_err() {
        // A process with another's ids must serve no other sandbox.
        exit_now(71);
    }
    side
}

/// A namespace that is held by a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Mounts,
    User,
}

impl Namespace {
    /// What it is called in /proc.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mounts => "mnt",
            Self::User => "user",
        }
    }
}

/// A namespace of a process, without a path to it (since Linux 6.11).
pub(crate) fn namespace(process: &OwnedFd, kind: Namespace) -> io::Result<OwnedFd> {
    // `_IO(0xff, number)`, see `linux/pidfd.h`.
    let request = 0xff00
        | match kind {
            Namespace::Mounts => 3,
            Namespace::User => 9,
        };
    // WHY: no safe form without a dependency.
    // SAFETY: takes plain values and gives a descriptor that is ours.
    unsafe {
        let number = check(libc::ioctl(process.as_raw_fd(), request, 0).into())?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(number).unwrap_or(-1)))
    }
}

/// Enters new namespaces of these kinds.
pub(crate) fn unshare(flags: i32) -> io::Result<()> {
    // WHY: there is no safe form; file descriptors are not unshared here.
    // SAFETY: takes plain flags.
    check(unsafe { libc::unshare(flags) }.into()).map(|_| ())
}

/// Lets [`with_file_owner`] keep its capabilities. A user namespace that is entered later begins without this.
pub(crate) fn keep_rights_across_owners() -> io::Result<()> {
    const NO_SETUID_FIXUP: libc::c_ulong = 1 << 2;
    // WHY: rustix has no form of it that keeps the other bits as they are for a fresh process.
    // SAFETY: takes plain values.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0) }.into()).map(|_| ())
}

/// Does something while what this thread makes on file systems belongs to `owner`.
pub(crate) fn with_file_owner<T>(owner: u32, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let set = |owner: u32| {
        // WHY: no safe form. They return the old value and never say whether they worked; asking again does.
        // SAFETY: take plain values.
        unsafe {
            libc::setfsuid(owner);
            libc::setfsgid(owner);
            (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX))
        }
    };
    if owner == 0 {
        return work();
    }
    let wanted = owner.cast_signed();
    let result = if set(owner) == (wanted, wanted) { work() } else { Err(io::Error::from_raw_os_error(libc::EPERM)) };
    if set(0) == (0, 0) { result } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Ends this process at once.
pub(crate) fn exit_now(code: i32) -> ! {
    // WHY: exit handlers of the parent must not run in a child.
    // SAFETY: takes a plain value and does not return.
    unsafe { libc::_exit(code) }
}

/// Makes `.` the root, with the old root on top of it.
pub(crate) fn pivot_root_here() -> io::Result<()> {
    // WHY: no safe form. See pivot_root(2), "pivot_root(".", ".")".
    // SAFETY: both strings are NUL-terminated.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) }).map(|_| ())
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Changes a mount's attributes; with `userns`, its files' owners are mapped by it. Recursive if asked.
pub(crate) fn mount_setattr(
    mount: impl AsFd,
    set: u64,
    userns: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> io::Result<()> {
    const IDMAP: u64 = 0x0010_0000;
    let attributes = MountAttributes {
        set: set | if userns.is_some() { IDMAP } else { 0 },
        clear: 0,
        propagation: 0,
        userns: userns.map_or(0, |fd| u64::from(fd.as_raw_fd().cast_unsigned())),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // WHY: rustix has no form of it.
    // SAFETY: the path is NUL-terminated and the structure is of the size passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    check(result).map(|_| ())
}

pub(crate) const MOUNT_ATTR_RDONLY: u64 = 1;
pub(crate) const MOUNT_ATTR_NOSUID: u64 = 2;
pub(crate) const MOUNT_ATTR_NODEV: u64 = 4;

/// Sets the interface `lo` up. A kernel that cannot be told so, as gVisor's, may have it up already.
pub(crate) fn loopback_up() -> io::Result<()> {
    // WHY: the one interface of a fresh namespace needs one flag; netlink would be a library for it.
    // SAFETY: the request is a zeroed `ifreq` with a name that fits; the socket is closed by its owner.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(socket.into())?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
            *to = c_char::from_ne_bytes([*from]);
        }
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
        let told = check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request).into());
        let Err(error) = told else { return Ok(()) };
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request).into())?;
        let is_up = i32::from(request.ifr_ifru.ifru_flags) & libc::IFF_UP != 0;
        if is_up { Ok(()) } else { Err(error) }
    }
}

/// Marks every descriptor from `first` on as not to be inherited by a program that is executed.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    const CLOEXEC: u32 = 4;
    // WHY: whatever descriptor a library forgot must not reach the sandbox.
    // SAFETY: takes plain values.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOEXEC) }).map(|_| ())
}

/// Closes every descriptor from 3 on but these.
pub(crate) fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<u32> = kept.iter().map(|fd| fd.as_raw_fd().cast_unsigned()).collect();
    numbers.sort_unstable();
    let mut first = 3;
    for number in numbers.into_iter().chain([u32::MAX]) {
        if number > first {
            // WHY: what a copy of another process holds by number only.
            // SAFETY: takes plain values. Whoever calls this goes on with nothing but what is kept, and never drops the rest.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, number - 1, 0) })?;
        }
        first = number.saturating_add(1).max(first);
    }
    Ok(())
}

/// Executes the program behind a descriptor with an empty environment, but for a mutation in a build that has any; returns
/// only if that failed.
pub(crate) fn exec_descriptor(program: impl AsFd, name: &CStr, argument: Option<&CStr>) -> io::Error {
    let argv = [name.as_ptr(), argument.map_or(std::ptr::null(), CStr::as_ptr), std::ptr::null()];
    let entries = mutation::environment();
    let env: Vec<*const c_char> = entries.iter().map(|entry| entry.as_ptr()).chain([std::ptr::null()]).collect();
    // WHY: the program has no path in the sandbox.
    // SAFETY: both arrays end with a null pointer and outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_fd().as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Loads a system-call filter; every thread and child has it from then on.
pub(crate) fn load_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        filter: program.as_ptr().cast_mut(),
    };
    // WHY: no safe form without a dependency.
    // SAFETY: the program points to as many instructions as it says, and the kernel only reads them.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) }).map(|_| ())
}

/// Takes over a descriptor that whoever executed us left at this number; call it once per number.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // WHY: the descriptor comes from the process that executed us.
    // SAFETY: fcntl takes plain values; the number is ours by contract with the one who starts us.
    unsafe {
        check(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC).into())?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Three calls of Landlock: make a ruleset, allow everything below a directory, keep to it.
pub(crate) fn landlock(handled: u64, scoped: u64, root: impl AsFd) -> io::Result<()> {
    #[repr(C)]
    struct Ruleset {
        files: u64,
        network: u64,
        scoped: u64,
    }
    #[repr(C, packed)]
    struct Beneath {
        allowed: u64,
        parent: i32,
    }
    const PATH_BENEATH: i32 = 1;
    let ruleset = Ruleset { files: handled, network: 0, scoped };
    // An older kernel takes the shorter structure: only what it knows may be non-zero.
    let size = if scoped == 0 { 8 } else { size_of::<Ruleset>() };
    // WHY: three calls do not need a library.
    // SAFETY: the structures are those of landlock(7), of the sizes that are passed or implied.
    unsafe {
        let fd = check(libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size, 0))?;
        let fd = OwnedFd::from_raw_fd(RawFd::try_from(fd).unwrap_or(-1));
        let rule = Beneath { allowed: handled, parent: root.as_fd().as_raw_fd() };
        check(libc::syscall(libc::SYS_landlock_add_rule, fd.as_raw_fd(), PATH_BENEATH, &raw const rule, 0))?;
        check(libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0)).map(|_| ())
    }
}

/// Makes `fd` inherited at `number`; whatever was there is closed.
pub(crate) fn inherit_at(fd: &OwnedFd, number: RawFd) -> io::Result<()> {
    // WHY: the program that is executed next finds it by its number.
    // SAFETY: takes plain values. Should `number` be a descriptor of ours, it is used no more: the exec follows.
    unsafe {
        if fd.as_raw_fd() == number {
            return check(libc::fcntl(number, libc::F_SETFD, 0).into()).map(|_| ());
        }
        check(libc::dup2(fd.as_raw_fd(), number).into()).map(|_| ())
    }
}
