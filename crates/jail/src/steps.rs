//! The steps of the probes: system calls only, run in a child that is thrown away.

use std::ffi::{CStr, CString};
use std::io;

use crate::attempt::{Refused, Step, check};

/// The id maps of a user namespace in which the caller is root, prepared before the fork.
pub(crate) struct IdMaps {
    uid: CString,
    gid: CString,
}

impl IdMaps {
    pub(crate) fn of_caller() -> Self {
        // WHY: the standard library does not tell the caller's ids.
        // SAFETY: both calls take nothing and always succeed.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        // A number has no NUL, so these cannot fail; an empty map would only make the probe say no.
        let map = |id: u32| CString::new(format!("0 {id} 1")).unwrap_or_default();
        Self { uid: map(uid), gid: map(gid) }
    }
}

/// Writes `text` to the file at `path`.
fn write_file(step: Step, path: &CStr, text: &CStr) -> Result<(), Refused> {
    // WHY: no allocation is allowed here, so not `std::fs`.
    // SAFETY: both strings are NUL-terminated; the descriptor is closed in all cases.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(step, fd)?;
        let bytes = text.to_bytes();
        let written = libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        let result = if written == -1 { Err(Refused::last(step)) } else { Ok(()) };
        libc::close(fd);
        result
    }
}

/// Becomes root of a new user namespace, then enters all other namespaces from there. Some distributions let the first
/// succeed and take the rights away for the second.
pub(crate) fn enter_namespaces(maps: &IdMaps) -> Result<(), Refused> {
    // WHY: there is no safe form; a namespace is entered by the calling thread.
    // SAFETY: takes plain flags; the process has one thread.
    check(Step::UserNamespace, unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    write_file(Step::UserNamespace, c"/proc/self/setgroups", c"deny")?;
    write_file(Step::UserNamespace, c"/proc/self/uid_map", &maps.uid)?;
    write_file(Step::UserNamespace, c"/proc/self/gid_map", &maps.gid)?;
    let others = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // WHY, SAFETY: as above.
    check(Step::OtherNamespaces, unsafe { libc::unshare(others) }).map(|_| ())
}

fn mount(step: Step, kind: &CStr, target: &CStr, flags: libc::c_ulong, options: &CStr) -> Result<(), Refused> {
    // WHY: no safe form without a dependency.
    // SAFETY: all strings are NUL-terminated.
    let result = unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    check(step, result).map(|_| ())
}

/// Mounts an overlay on a private tmpfs and writes through it.
pub(crate) fn overlay() -> Result<(), Refused> {
    mount(Step::Tmpfs, c"none", c"/", libc::MS_REC | libc::MS_PRIVATE, c"")?;
    mount(Step::Tmpfs, c"tmpfs", c"/tmp", 0, c"size=1m")?;
    for directory in [c"/tmp/lower", c"/tmp/lower/again", c"/tmp/upper", c"/tmp/work", c"/tmp/root"] {
        // WHY: no allocation is allowed here.
        // SAFETY: the path is NUL-terminated.
        check(Step::Tmpfs, unsafe { libc::mkdir(directory.as_ptr(), 0o700) })?;
    }
    let options = c"lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr";
    mount(Step::Overlay, c"overlay", c"/tmp/root", 0, options)?;
    // WHY: no allocation is allowed here.
    // SAFETY: the path is NUL-terminated.
    let fd = unsafe { libc::open(c"/tmp/root/file".as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o600) };
    check(Step::OverlayWrite, fd).map(|_| ())
}

/// In that overlay, removes a directory of the lower layer and makes it again: the new one must be marked as hiding the old.
pub(crate) fn remake_directory() -> Result<(), Refused> {
    let again = c"/tmp/root/again";
    // WHY: no allocation is allowed here.
    // SAFETY: the path is NUL-terminated.
    check(Step::OverlayWrite, unsafe { libc::rmdir(again.as_ptr()) })?;
    // WHY, SAFETY: as above.
    check(Step::OverlayWrite, unsafe { libc::mkdir(again.as_ptr(), 0o700) }).map(|_| ())
}

/// The error number that the probe's filter answers with: one that `getppid` can never give by itself.
const FILTERED: u16 = 95;

/// Loads a filter that refuses `getppid` and checks that it is refused.
pub(crate) fn seccomp() -> Result<(), Refused> {
    let statement =
        |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt: 0, jf: 0, k };
    let number = u32::try_from(libc::SYS_getppid).unwrap_or(u32::MAX);
    let mut filter = [
        // Load the system call's number: the first field of `seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jt: 0, jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | u32::from(FILTERED)),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // WHY: no safe form without a dependency.
    // SAFETY: the program points to four valid instructions that outlive the call; getppid takes nothing.
    unsafe {
        check(Step::Filter, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(Step::Filter, libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program))?;
        let result = libc::syscall(libc::SYS_getppid);
        let errno = io::Error::last_os_error().raw_os_error();
        if result == -1 && errno == Some(i32::from(FILTERED)) {
            Ok(())
        } else {
            Err(Refused::with(Step::FilteredCall, libc::ENOSYS))
        }
    }
}
