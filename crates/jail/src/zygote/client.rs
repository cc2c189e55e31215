//! The runner's side: starts the zygote and asks it for sandboxes.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

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

/// A running zygote. Dropping it ends all its sandboxes.
#[derive(Debug)]
pub struct Zygote {
    socket: OwnedFd,
    child: Child,
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

impl Zygote {
    /// Starts `zygote`, a static program in which the guest is too.
    pub fn start(zygote: &[u8]) -> io::Result<Self> {
        let zygote = sealed("ringfence-zygote", zygote)?;
        // High up: the numbers that the program's own descriptors get must not be its own number.
        let zygote = rustix::io::fcntl_dupfd_cloexec(&zygote, 100)?;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(format!("/proc/self/fd/{}", zygote.as_raw_fd()));
        command.arg0("ringfence-zygote").env_clear().current_dir("/");
        mutation::announce();
        mutation::pass_on(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: spawn_at_3(command, &theirs)?, socket })
    }

    fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Created, CreateError> {
        send(&self.socket, request, descriptors).map_err(CreateError::Gone)?;
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
