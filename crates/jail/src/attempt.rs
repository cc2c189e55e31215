//! Tries something in a child process, with a deadline, and throws the child away.
//!
//! Entering a user namespace or loading a filter cannot be undone, so whatever is tried must not be tried here.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// What a child was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Entering a user namespace and mapping ids into it.
    UserNamespace,
    /// Entering the other namespaces from inside it.
    OtherNamespaces,
    /// Making the mounts private and mounting a tmpfs.
    Tmpfs,
    /// Mounting an overlay.
    Overlay,
    /// Writing through the overlay.
    OverlayWrite,
    /// Loading a system-call filter.
    Filter,
    /// Making a call that the filter forbids.
    FilteredCall,
    /// Opening the netfilter socket.
    NetfilterSocket,
    /// Loading a table, a nat chain and a rule.
    Rules,
    /// Opening the KVM device.
    KvmDevice,
    /// Building a virtual machine.
    KvmSetup,
    /// Running a few instructions in it.
    KvmRun,
}

impl Step {
    const ALL: [Self; 12] = [
        Self::UserNamespace,
        Self::OtherNamespaces,
        Self::Tmpfs,
        Self::Overlay,
        Self::OverlayWrite,
        Self::Filter,
        Self::FilteredCall,
        Self::NetfilterSocket,
        Self::Rules,
        Self::KvmDevice,
        Self::KvmSetup,
        Self::KvmRun,
    ];

    /// The step in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::UserNamespace => "entering a user namespace",
            Self::OtherNamespaces => "entering the other namespaces from a user namespace",
            Self::Tmpfs => "mounting a tmpfs in a user namespace",
            Self::Overlay => "mounting an overlay in a user namespace",
            Self::OverlayWrite => "writing through an overlay",
            Self::Filter => "loading a system-call filter",
            Self::FilteredCall => "being refused by a system-call filter",
            Self::NetfilterSocket => "opening a netfilter socket",
            Self::Rules => "loading redirect rules",
            Self::KvmDevice => "opening /dev/kvm",
            Self::KvmSetup => "building a virtual machine",
            Self::KvmRun => "running instructions in a virtual machine",
        }
    }
}

/// Why an attempt did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The kernel said no.
    #[error("{} failed", step.describe())]
    Refused {
        /// What was being done.
        step: Step,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The child did not finish in time.
    #[error("the probe did not end within {0:?}")]
    TimedOut(Duration),
    /// The child died without an answer.
    #[error("the probing process died without an answer")]
    Died,
    /// No child could be started.
    #[error("cannot start a probing process")]
    Start(#[source] io::Error),
}

/// A step that failed with an error number, as it travels from the child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

impl Refused {
    /// The error number of the call that just failed.
    pub(crate) fn last(step: Step) -> Self {
        Self { step, errno: io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
    }

    pub(crate) fn with(step: Step, errno: i32) -> Self {
        Self { step, errno }
    }
}

/// Succeeds unless `result` is the -1 of a failed call.
pub(crate) fn check(step: Step, result: impl Into<i64>) -> Result<i64, Refused> {
    match result.into() {
        -1 => Err(Refused::last(step)),
        value => Ok(value),
    }
}

/// Runs `body` in a forked child. `body` must only make system calls: no allocation, no locks (the parent may have
/// threads, and only the calling one is copied; fork(2), signal-safety(7)).
pub(crate) fn attempt(deadline: Duration, body: impl FnOnce() -> Result<(), Refused>) -> Result<(), Failure> {
    let (reader, writer) = pipe().map_err(Failure::Start)?;
    // WHY: the standard library cannot fork without exec, and these attempts are system calls in a throw-away process.
    // SAFETY: the child runs only `body`, `write` and `_exit`, which are async-signal-safe by this function's contract.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(Failure::Start(io::Error::last_os_error())),
        0 => {
            keep_only(&writer);
            let message: [u8; 8] = match body() {
                Ok(()) => [0; 8],
                Err(Refused { step, errno }) => {
                    let errno = errno.to_ne_bytes();
                    [1, step as u8, 0, 0, errno[0], errno[1], errno[2], errno[3]]
                }
            };
            // WHY: no destructor and no exit handler of the parent may run in the child.
            // SAFETY: the buffer is valid for its length; `_exit` does not return.
            unsafe {
                libc::write(writer.as_raw_fd(), message.as_ptr().cast(), message.len());
                libc::_exit(0)
            }
        }
        child => {
            drop(writer);
            let answer = read_answer(&reader, deadline);
            end(child);
            answer
        }
    }
}

/// Time that a killed child has to end. One that is stuck in the kernel is left behind: it has no descriptor of ours, and
/// waiting for it would be waiting without end.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Ends a child and reaps it, if the kernel lets it go in time.
fn end(child: i32) {
    let start = Instant::now();
    // WHY: the child is ours and not yet waited for, so its id cannot have been reused.
    // SAFETY: kill and waitpid take plain values; a null status pointer is allowed.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        while libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) == 0 && start.elapsed() < KILL_TIMEOUT {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Closes everything but the descriptor of the answer: a child that is left behind would keep our output open, and the
/// reader of it would wait for an end that does not come. For a forked child.
fn keep_only(kept: &OwnedFd) {
    let kept = kept.as_raw_fd().cast_unsigned();
    // WHY: only descriptors by number are left after a fork.
    // SAFETY: takes plain values; the child uses nothing of the parent's that owns a descriptor, and ends by `_exit`.
    unsafe {
        if kept > 0 {
            libc::syscall(libc::SYS_close_range, 0, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
    }
}

/// Does something with a child that does nothing, and ends it.
pub(crate) fn with_idle_child<T>(action: impl FnOnce(i32) -> T) -> io::Result<T> {
    // WHY: as in `attempt`.
    // SAFETY: the child only waits for a signal, by an async-signal-safe call, and never returns from here.
    let child = unsafe {
        match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => loop {
                libc::pause();
            },
            child => child,
        }
    };
    let result = action(child);
    end(child);
    Ok(result)
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // WHY: the child writes to this pipe with nothing but a system call.
    // SAFETY: `fds` has room for two descriptors; both are ours alone on success.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

fn read_answer(reader: &OwnedFd, deadline: Duration) -> Result<(), Failure> {
    let end = Instant::now() + deadline;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let millis = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // WHY: a read with a deadline; the standard library has none for pipes.
        // SAFETY: one valid pollfd is passed with its count.
        match unsafe { libc::poll(&raw mut poll, 1, millis) } {
            0 => return Err(Failure::TimedOut(deadline)),
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(Failure::Died),
            _ => break,
        }
    }
    let mut message = [0_u8; 8];
    // WHY: as above. A pipe delivers eight bytes at once or none.
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::read(reader.as_raw_fd(), message.as_mut_ptr().cast(), message.len()) };
    match (count, message) {
        (8, [0, ..]) => Ok(()),
        (8, [_, step, _, _, errno @ ..]) => {
            let step = Step::ALL.into_iter().find(|known| *known as u8 == step).ok_or(Failure::Died)?;
            Err(Failure::Refused { step, source: io::Error::from_raw_os_error(i32::from_ne_bytes(errno)) })
        }
        _ => Err(Failure::Died),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn success_and_refusal_come_back() {
        assert!(attempt(SOON, || Ok(())).is_ok());
        let refused = attempt(SOON, || Err(Refused::with(Step::Rules, libc::EPERM)));
        assert!(
            matches!(refused, Err(Failure::Refused { step: Step::Rules, source }) if source.raw_os_error() == Some(libc::EPERM))
        );
    }

    #[test]
    fn a_child_that_hangs_is_ended_at_the_deadline() {
        let start = Instant::now();
        let result = attempt(Duration::from_millis(50), || {
            loop {
                // SAFETY: pause takes nothing.
                unsafe { libc::pause() };
            }
        });
        assert!(matches!(result, Err(Failure::TimedOut(_))));
        assert!(start.elapsed() < SOON);
    }

    #[test]
    fn a_child_that_cannot_be_reaped_is_left_at_the_deadline() {
        // A process that is traced and killed cannot be waited for by its parent until its tracer lets it go: to us it is
        // as stuck as one in an uninterruptible call of the kernel.
        const HELD: u32 = 20;
        let start = Instant::now();
        let result = attempt(Duration::from_millis(500), || {
            // SAFETY: system calls with plain values, in a child that does nothing else.
            unsafe {
                libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
                if libc::fork() == 0 {
                    if libc::ptrace(libc::PTRACE_SEIZE, libc::getppid(), 0_usize, 0_usize) == 0 {
                        libc::sleep(HELD);
                    }
                    libc::_exit(0);
                }
                loop {
                    libc::pause();
                }
            }
        });
        assert!(matches!(result, Err(Failure::TimedOut(_))), "{result:?}");
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        // It was stuck indeed: its entry is still there.
        let own = format!(" Z {} ", std::process::id());
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        assert!(lines.any(|line| line.contains(&own)), "the child was reaped: nothing was tested");
    }

    #[test]
    fn a_child_holds_nothing_of_ours_open() {
        let (reader, writer) = pipe().unwrap();
        let start = Instant::now();
        let waiting = std::thread::spawn(move || {
            attempt(Duration::from_secs(10), || {
                loop {
                    // SAFETY: pause takes nothing.
                    unsafe { libc::pause() };
                }
            })
        });
        std::thread::sleep(Duration::from_millis(300));
        drop(writer);
        let mut end = [0];
        // SAFETY: the buffer is valid for its length.
        assert_eq!(unsafe { libc::read(reader.as_raw_fd(), end.as_mut_ptr().cast(), 1) }, 0);
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        assert!(waiting.join().unwrap().is_err());
    }

    #[test]
    fn a_child_that_dies_is_not_a_success() {
        let result = attempt(SOON, || {
            // SAFETY: ends only the child.
            unsafe { libc::_exit(0) }
        });
        assert!(matches!(result, Err(Failure::Died)));
    }
}
