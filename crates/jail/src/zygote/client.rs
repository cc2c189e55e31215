//! The runner's side: starts the zygote and asks it for sandboxes.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

use super::protocol::{Changed, Network, Reply, Request, Spec, receive, send};
use crate::cgroups::Limits;

/// Why a sandbox could not be created.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The kernel refused a step.
    #[error("{step} failed")]
    Refused {
        /// What was being done.
        step: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The zygote is gone.
    #[error("the helper process that creates sandboxes is gone")]
    Gone(#[source] io::Error),
}

/// A sandbox that was created.
#[derive(Debug)]
pub struct Created {
    /// The host's number of its first process.
    pub pid: i32,
    /// The listeners of a captured network: TCP, UDP, and the same for IPv6 where the kernel has it.
    pub listeners: Vec<OwnedFd>,
}

/// Who is told the answer to a request that was only begun; whether anybody took it.
pub type Waiter = Box<dyn FnOnce(Result<Created, CreateError>) -> bool + Send>;

/// A request whose answer is still to come.
struct Begun {
    waiter: Waiter,
    /// The sandbox that it makes.
    makes: Option<u32>,
}

/// A running zygote. Dropping it ends all its sandboxes.
///
/// It answers one request after the other. One that was only begun is answered before any other is sent: by
/// [`Self::settle_if_answered`], when its socket can be read, or by whoever asks next.
pub struct Zygote {
    socket: OwnedFd,
    child: Child,
    begun: Option<Begun>,
}

impl std::fmt::Debug for Zygote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zygote").field("pid", &self.child.id()).finish_non_exhaustive()
    }
}

/// A program in memory that nobody can change any more.
fn sealed(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut left = program;
    while !left.is_empty() {
        let written = rustix::io::write(&file, left)?;
        left = &left[written..];
    }
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file)
}

/// Starts a program that finds `control` at number 3, in a session of its own that Ctrl-C does not reach.
pub fn spawn_at_3(mut command: Command, control: &OwnedFd) -> io::Result<Child> {
    inherit_at_3(&mut command, control, Session::Own);
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            // It was written just now, and a process that another thread of ours begins has it open until its own exec.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY),
            spawned => return spawned,
        }
    }
    command.spawn()
}

/// How often, and how long, a program that is being written is waited for.
const BUSY_TRIES: usize = 100;
const BUSY: std::time::Duration = std::time::Duration::from_millis(2);

/// Which session a program that is started is in. The kernel shares its time among sessions, and who waits for somebody of
/// another session may wait for everybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    Ours,
    Own,
}

/// Has `command` find `control` at number 3, and no other descriptor of ours but its standard streams.
pub(super) fn inherit_at_3(command: &mut Command, control: &OwnedFd, session: Session) {
    let number = control.as_raw_fd();
    // WHY: a program that is executed finds descriptors by number, and the standard library passes only three.
    // SAFETY: between fork and exec only fcntl, dup2, close, setsid and close_range are called, which are async-signal-safe;
    // nothing is allocated. The copy is made high up first, so that it is another number than 3.
    unsafe {
        command.pre_exec(move || {
            let copy = libc::fcntl(number, libc::F_DUPFD, 10);
            if copy == -1 || libc::dup2(copy, 3) == -1 || libc::close(copy) == -1 {
                return Err(io::Error::last_os_error());
            }
            if session == Session::Own {
                libc::setsid();
            }
            crate::syscalls::close_on_exec_from(4)
        });
    }
}

/// Has a command inherit nothing but its standard streams, whatever the program that starts it left open.
pub fn keep_descriptors_back(command: &mut Command) {
    // WHY: descriptors that somebody else opened without close-on-exec would be inherited.
    // SAFETY: between fork and exec only close_range is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| crate::syscalls::close_on_exec_from(3));
    }
}

/// Lets this process have as many descriptors open as it may. Every sandbox needs a handful here and in the zygote, and
/// the usual 1024 end at two hundred of them. A sandbox's own limit is set where it is made and does not follow this one.
pub fn raise_descriptor_limit() {
    let most = getrlimit(Resource::Nofile).maximum;
    // Where it cannot be raised, fewer sandboxes fit, and the one too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

/// Whether there is something to read, within this time.
fn can_be_read(socket: &OwnedFd, within: Option<&Timespec>) -> bool {
    let mut events = [PollFd::new(socket, PollFlags::IN)];
    // What cannot be asked for is found out by reading.
    match poll(&mut events, within) {
        Ok(count) => count > 0,
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

impl Zygote {
    /// Starts `zygote`, a static program in which the guest is too.
    pub fn start(zygote: &[u8]) -> io::Result<Self> {
        let zygote = sealed("ringfence-zygote", zygote)?;
        // High up: the numbers that the program's own descriptors get must not be its own number.
        let zygote = rustix::io::fcntl_dupfd_cloexec(&zygote, 100)?;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // Ours alone: who waits for an answer may do so without a thread.
        rustix::io::ioctl_fionbio(&socket, true)?;
        let mut command = Command::new(format!("/proc/self/fd/{}", zygote.as_raw_fd()));
        command.arg0("ringfence-zygote").env_clear().current_dir("/");
        mutation::announce();
        mutation::pass_on(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: spawn_at_3(command, &theirs)?, socket, begun: None })
    }

    fn ask(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Created, CreateError> {
        self.settle();
        send(&self.socket, request, descriptors).map_err(CreateError::Gone)?;
        self.answer()
    }

    /// Sends a request and leaves the answer to who waits for it.
    fn begin(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>], begun: Begun) -> Result<(), CreateError> {
        self.settle();
        send(&self.socket, request, descriptors).map_err(CreateError::Gone)?;
        self.begun = Some(begun);
        Ok(())
    }

    /// Waits for the answer to what was begun, if something was, and hands it on.
    fn settle(&mut self) {
        let Some(Begun { waiter, makes }) = self.begun.take() else { return };
        let answer = self.answer();
        let made = makes.filter(|_| answer.is_ok());
        if let (false, Some(id)) = (waiter(answer), made) {
            // Nobody waits for it any more.
            let _ = self.destroy(id);
        }
    }

    /// Hands on the answer to what was begun, if it is there; whether nothing is left to wait for.
    pub fn settle_if_answered(&mut self) -> bool {
        // An end of the zygote is an answer too.
        if self.is_busy() && can_be_read(&self.socket, Some(&Timespec::default())) {
            self.settle();
        }
        !self.is_busy()
    }

    /// Whether the answer to what was begun is still to come.
    fn is_busy(&self) -> bool {
        self.begun.is_some()
    }

    /// What can be read when an answer is there.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn answer(&self) -> Result<Created, CreateError> {
        // The socket itself never waits.
        while !can_be_read(&self.socket, None) {}
        match receive::<Reply>(&self.socket).map_err(CreateError::Gone)? {
            Some((Reply::Created { pid }, listeners)) => Ok(Created { pid, listeners }),
            Some((Reply::Done, _)) => Ok(Created { pid: 0, listeners: Vec::new() }),
            Some((Reply::Failed { step, errno }, _)) => {
                Err(CreateError::Refused { step, source: io::Error::from_raw_os_error(errno) })
            }
            None => Err(CreateError::Gone(io::Error::from(io::ErrorKind::UnexpectedEof))),
        }
    }

    /// Creates a sandbox whose guest speaks on `control`. Blocks for a few milliseconds. One request at a time: callers
    /// share the zygote behind a lock.
    pub fn create(&mut self, spec: Spec, control: &OwnedFd) -> Result<Created, CreateError> {
        self.ask(&Request::Create(Box::new(spec)), &[control.as_fd()])
    }

    /// The same without waiting for it.
    pub fn begin_create(&mut self, spec: Spec, control: &OwnedFd, waiter: Waiter) -> Result<(), CreateError> {
        let makes = Some(spec.id);
        self.begin(&Request::Create(Box::new(spec)), &[control.as_fd()], Begun { waiter, makes })
    }

    /// As [`Self::destroy`], without waiting for it.
    pub fn begin_destroy(&mut self, id: u32, waiter: Waiter) -> Result<(), CreateError> {
        self.begin(&Request::Destroy { id }, &[], Begun { waiter, makes: None })
    }

    /// Ends a sandbox and removes what it was made of.
    pub fn destroy(&mut self, id: u32) -> Result<(), CreateError> {
        self.ask(&Request::Destroy { id }, &[]).map(|_| ())
    }

    /// Has the zygote keep `count` sandboxes begun while nobody asks for anything: whichever image comes, their namespaces
    /// and network are there. Only for sandboxes with this network and these limits.
    pub fn prepare(
        &mut self,
        network: Network,
        limits: Option<Limits>,
        name: String,
        count: u32,
    ) -> Result<(), CreateError> {
        self.ask(&Request::Prepare { network, limits, name, count }, &[]).map(|_| ())
    }

    /// Ends a sandbox and keeps what it wrote under the number `snapshot`, for [`super::Image::Snapshot`].
    pub fn freeze(&mut self, id: u32, snapshot: u32) -> Result<(), CreateError> {
        self.ask(&Request::Freeze { id, snapshot }, &[]).map(|_| ())
    }

    /// Lets a snapshot go; sandboxes that were forked from it keep what they need.
    pub fn forget(&mut self, snapshot: u32) -> Result<(), CreateError> {
        self.ask(&Request::Forget { snapshot }, &[]).map(|_| ())
    }

    /// Freezes every process of a sandbox by its control group, until [`Self::resume`]. Its guest answers nothing
    /// meanwhile. An error where the host has no control group for it.
    pub fn pause(&mut self, id: u32) -> Result<(), CreateError> {
        self.ask(&Request::Pause { id }, &[]).map(|_| ())
    }

    /// Lets the processes of a sandbox go on.
    pub fn resume(&mut self, id: u32) -> Result<(), CreateError> {
        self.ask(&Request::Resume { id }, &[]).map(|_| ())
    }

    /// Begins to write the changes of a sandbox or snapshot into `data` as a layer's archive of at most `limit` bytes.
    /// When all is written, `ok` is written to `status`, else what went wrong.
    pub fn archive(
        &mut self,
        what: Changed,
        limit: u64,
        data: BorrowedFd<'_>,
        status: BorrowedFd<'_>,
    ) -> Result<(), CreateError> {
        self.ask(&Request::Archive { what, limit }, &[data, status]).map(|_| ())
    }

    /// The zygote's own process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // The end of the socket is the order to clean up and leave.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}
