//! The runner's side: starts the zygote and asks it for sandboxes.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};
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
    /// A process of the sandbox was killed and has not ended yet: the kernel still works for it, as when it frees a file of very
    /// many pieces. It runs no instruction of its own any more.
    #[error("a process of the sandbox was killed, and the kernel has not ended it yet")]
    NotEnded,
    /// The zygote is gone.
    #[error("the helper process that creates sandboxes is gone")]
    Gone(#[source] io::Error),
    /// The zygote did not answer in time, and was ended with all its sandboxes.
    #[error("the helper process that creates sandboxes did not answer within {0:?}, and was ended with its sandboxes")]
    Silent(Duration),
}

/// Time that the zygote has to answer a request, in steps of [`STEP`].
fn steps(request: &Request) -> u32 {
    match request {
        // With little of a processor, hundreds of processes take a while to end.
        Request::Destroy { .. } => 45,
        Request::Create(_)
        | Request::Prepare { .. }
        | Request::Forget { .. }
        | Request::Pause { .. }
        | Request::Resume { .. }
        | Request::Starved { .. }
        | Request::Groups
        | Request::Archive { .. } => 60,
        // Very many layers are copied into one.
        Request::Freeze { .. } => 300,
    }
}

/// Waiting is counted in steps instead of by the clock: if runner and zygote are suspended together (a frozen control
/// group, a stopped virtual machine), that is one step, and not the end of a zygote that could not have answered.
const STEP: Duration = Duration::from_secs(1);
/// Time that the zygote has to clean up and exit when its runner leaves, in the same steps.
const EXIT_STEPS: u32 = 20;
/// The same for a zygote that was killed.
const KILLED_STEPS: u32 = 5;

/// File descriptors that a runner needs for one sandbox with its gateway. The zygote's program is kept from 100 on.
pub const DESCRIPTORS_NEEDED: u64 = 256;

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
    /// Time that it may take.
    steps: u32,
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
const BUSY: Duration = Duration::from_millis(2);

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

/// Whether a descriptor can be read within this time; an interrupted call begins again.
fn can_be_read(descriptor: &OwnedFd, within: Duration) -> bool {
    let within = Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    };
    loop {
        match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&within)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            // What cannot be asked for is found out by reading.
            Err(_) => return true,
        }
    }
}

/// Waits for a child's end, at most so many steps; whether it has ended.
fn ends_within(child: &mut Child, steps: u32) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // Not waited for yet, so the number is still its own.
    let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(pidfd) = pidfd {
        let _ = (0..steps).any(|_| can_be_read(&pidfd, STEP));
    }
    matches!(child.try_wait(), Ok(Some(_)) | Err(_))
}

impl Zygote {
    /// Starts `zygote`, a static program in which the guest is too.
    pub fn start(zygote: &[u8]) -> io::Result<Self> {
        let zygote = sealed("ringfence-zygote", zygote)?;
        // High up: the numbers that the program's own descriptors get must not be its own number.
        let zygote = rustix::io::fcntl_dupfd_cloexec(&zygote, 100).map_err(|errno| match errno {
            rustix::io::Errno::INVAL => io::Error::other(format!(
                "RLIMIT_NOFILE allows too few file descriptors: {DESCRIPTORS_NEEDED} are needed"
            )),
            errno => errno.into(),
        })?;
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
        self.answer(steps(request))
    }

    /// Sends a request and leaves the answer to who waits for it.
    fn begin(
        &mut self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
        waiter: Waiter,
        makes: Option<u32>,
    ) -> Result<(), CreateError> {
        self.settle();
        send(&self.socket, request, descriptors).map_err(CreateError::Gone)?;
        self.begun = Some(Begun { waiter, makes, steps: steps(request) });
        Ok(())
    }

    /// Waits for the answer to what was begun, if something was, and hands it on.
    fn settle(&mut self) {
        let Some(Begun { waiter, makes, steps }) = self.begun.take() else { return };
        let answer = self.answer(steps);
        let made = makes.filter(|_| answer.is_ok());
        if let (false, Some(id)) = (waiter(answer), made) {
            // Nobody waits for it any more.
            let _ = self.destroy(id);
        }
    }

    /// Hands on the answer to what was begun, if it is there; whether nothing is left to wait for.
    pub fn settle_if_answered(&mut self) -> bool {
        // An end of the zygote is an answer too.
        if self.is_busy() && can_be_read(&self.socket, Duration::ZERO) {
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

    /// Time that the answer to what was begun may take.
    pub fn patience(&self) -> Duration {
        self.begun.as_ref().map_or(Duration::ZERO, |begun| STEP * begun.steps)
    }

    /// Whether a sandbox ended because its guest was killed for want of memory. What it wrote is then kept until it is destroyed
    /// or frozen.
    pub fn is_starved(&mut self, id: u32) -> bool {
        self.ask(&Request::Starved { id }, &[]).is_ok()
    }

    /// Ends a zygote that does not answer: the kernel ends its sandboxes with it. What was begun has no answer any more.
    pub fn give_up(&mut self) {
        self.begun = None;
        // It may be gone already.
        let _ = self.child.kill();
    }

    /// Where control groups for sandboxes can be made, for people; an error says why nowhere.
    pub fn groups(&mut self) -> Result<String, CreateError> {
        let request = Request::Groups;
        self.settle();
        send(&self.socket, &request, &[]).map_err(CreateError::Gone)?;
        match self.reply(steps(&request))? {
            (Reply::Groups { place }, _) => Ok(place),
            _ => Err(CreateError::Gone(io::Error::from(io::ErrorKind::InvalidData))),
        }
    }

    fn answer(&mut self, steps: u32) -> Result<Created, CreateError> {
        match self.reply(steps)? {
            (Reply::Created { pid }, listeners) => Ok(Created { pid, listeners }),
            _ => Ok(Created { pid: 0, listeners: Vec::new() }),
        }
    }

    /// An answer that is no failure.
    fn reply(&mut self, steps: u32) -> Result<(Reply, Vec<OwnedFd>), CreateError> {
        // The socket itself never waits.
        if !(0..steps).any(|_| can_be_read(&self.socket, STEP)) {
            self.give_up();
            return Err(CreateError::Silent(STEP * steps));
        }
        match receive::<Reply>(&self.socket).map_err(CreateError::Gone)? {
            Some((Reply::NotEnded, _)) => Err(CreateError::NotEnded),
            Some((Reply::Failed { step, errno }, _)) => {
                Err(CreateError::Refused { step, source: io::Error::from_raw_os_error(errno) })
            }
            Some(reply) => Ok(reply),
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
        self.begin(&Request::Create(Box::new(spec)), &[control.as_fd()], waiter, makes)
    }

    /// As [`Self::destroy`], without waiting for it.
    pub fn begin_destroy(&mut self, id: u32, waiter: Waiter) -> Result<(), CreateError> {
        self.begin(&Request::Destroy { id }, &[], waiter, None)
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
        if !ends_within(&mut self.child, EXIT_STEPS) {
            let _ = self.child.kill();
            // One that the kernel does not let go is left to it.
            ends_within(&mut self.child, KILLED_STEPS);
        }
    }
}
