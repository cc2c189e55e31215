//! Starting a command: guest → keeper → command.
//!
//! The keeper is a copy of the guest that is the *child subreaper* of everything the command starts: a process that
//! forks twice and leaves its session still has the keeper as an ancestor. So a tree can be ended exactly, and a
//! background process lives on under its keeper when the command itself is done.
//!
//! A copy of the guest takes as long as the rest of a start, so one keeper is made while nothing else is to be done, with
//! the pipes of a command that is yet to come. Where it will report, it learns what to start.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use mutation::{Mutation, mutated};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, set_child_subreaper, setrlimit, setsid, wait};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::{Deserialize, Serialize};
use wire::{Attempt, Exec, FailureKind, User, WindowSize};

use crate::commands::Kind;
use crate::failure::Failure;
use crate::syscalls::{Side, close_all_but, exec, exit_now, fork, spawn_until_exec};
use crate::users::{self, Identity};

/// What a command finds when nobody says otherwise.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The workload is killed before the guest when memory runs out.
pub(crate) const OOM_SCORE: &str = "500";
/// Descriptors of one command; the guest itself has more.
const MAX_DESCRIPTORS: u64 = 4096;
/// The most that a keeper's report holds: what happened, and a number.
pub(crate) const REPORT: usize = 5;
pub(crate) const REPORT_EXITED: u8 = 1;
pub(crate) const REPORT_SIGNALLED: u8 = 2;
pub(crate) const REPORT_NOT_STARTED: u8 = 3;

/// A command that was started: the guest's ends of everything.
pub(crate) struct Started {
    pub(crate) keeper: Pid,
    /// Where the keeper reports, and hears what to start; its end means that the keeper is gone.
    pub(crate) report: OwnedFd,
    pub(crate) input: OwnedFd,
    pub(crate) out: OwnedFd,
    pub(crate) err: Option<OwnedFd>,
    pub(crate) kind: Kind,
}

/// A keeper that waits for a command.
pub(crate) struct Spare(Started);

/// Everything the child needs, prepared while memory may still be allocated.
#[derive(Serialize, Deserialize)]
struct Prepared {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    identity: Identity,
    switch_user: bool,
    /// What to try instead of executing a program.
    attempt: Option<Attempt>,
}

/// The command's own ends.
struct ChildEnds {
    input: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
    kind: Kind,
}

/// What a spare keeper can be told: enough for most commands.
const MAX_ORDERS: usize = 4096;

impl Spare {
    /// Makes one that waits. It ends by itself when it is dropped.
    pub(crate) fn make() -> Result<Self, Failure> {
        Ok(Self(fork_keeper(pipes().map_err(cannot_start)?, None)?))
    }

    pub(crate) fn keeper(&self) -> Pid {
        self.0.keeper
    }

    /// Has it start a command; `None` where it cannot be told, because the workload ended it.
    fn start(self, orders: &[u8]) -> Option<Started> {
        let told = rustix::io::write(&self.0.report, orders).is_ok_and(|count| count == orders.len());
        told.then_some(self.0)
    }
}

fn cannot_start(errno: Errno) -> Failure {
    Failure::from_errno(errno, "cannot start a command")
}

/// Starts a command, by the spare keeper if there is one that can do it.
pub(crate) fn start(spec: &Exec, spare: &mut Option<Spare>) -> Result<Started, Failure> {
    start_prepared(&prepare(spec)?, spec.pty, spare)
}

/// Starts an attempt: a command in everything but the program.
pub(crate) fn start_attempt(attempt: Attempt, user: User, spare: &mut Option<Spare>) -> Result<Started, Failure> {
    let spec = Exec {
        argv: vec!["/attempt".into()],
        env: Vec::new(),
        cwd: None,
        user,
        pty: None,
        timeout_ms: None,
        max_output: None,
    };
    start_prepared(&Prepared { attempt: Some(attempt), ..prepare(&spec)? }, None, spare)
}

fn start_prepared(prepared: &Prepared, pty: Option<WindowSize>, spare: &mut Option<Spare>) -> Result<Started, Failure> {
    let orders = postcard::to_allocvec(prepared).ok();
    if let Some(orders) = orders.filter(|orders| pty.is_none() && orders.len() <= MAX_ORDERS)
        && let Some(started) = spare.take().and_then(|spare| spare.start(&orders))
    {
        return Ok(started);
    }
    let ends = match pty {
        Some(size) => terminal(size),
        None => pipes(),
    };
    fork_keeper(ends.map_err(cannot_start)?, Some(prepared))
}

/// Makes a keeper, of a command or of one to come.
fn fork_keeper((input, out, err, ends): Ends, prepared: Option<&Prepared>) -> Result<Started, Failure> {
    let (report, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(cannot_start)?;
    for descriptor in [Some(&input), Some(&out), err.as_ref(), Some(&report)].into_iter().flatten() {
        fcntl_setfl(descriptor, OFlags::NONBLOCK).map_err(cannot_start)?;
    }
    match fork().map_err(|error| Failure::from_io(&error, "cannot start a command"))? {
        Side::Parent(keeper) => Ok(Started { keeper, report, input, out, err, kind: ends.kind }),
        Side::Child => {
            let own = [&ends.input, &ends.out, &ends.err, &theirs].map(AsRawFd::as_raw_fd);
            // Not dropped: what follows closes them with everything else that is not this command's.
            std::mem::forget((report, input, out, err));
            end_with_parent();
            if !mutated(Mutation::LeakedDescriptor) {
                close_all_but(&own);
            }
            match prepared {
                Some(prepared) => keep(prepared, ends, theirs),
                None => match await_orders(&theirs) {
                    Some(prepared) => keep(&prepared, ends, theirs),
                    None => exit_now(0),
                },
            }
        }
    }
}

/// Whoever is in a pid namespace of the guest's own ends with it. Where tests take that away, this sees to it.
fn end_with_parent() {
    if mutated(Mutation::HostPid) {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}

/// Waits for what the guest writes in one record; `None` when it does not want this keeper any more.
fn await_orders(orders: &OwnedFd) -> Option<Prepared> {
    let mut buffer = [0; MAX_ORDERS];
    loop {
        match rustix::io::read(orders, &mut buffer) {
            Err(Errno::INTR) => {}
            Ok(count) if count > 0 => return postcard::from_bytes(&buffer[..count]).ok(),
            _ => return None,
        }
    }
}

fn text(value: &str) -> Result<CString, Failure> {
    CString::new(value).map_err(|_| Failure::invalid("a text has a NUL in it"))
}

fn prepare(spec: &Exec) -> Result<Prepared, Failure> {
    let program =
        spec.argv.first().filter(|program| !program.is_empty()).ok_or_else(|| Failure::invalid("no program"))?;
    let identity = users::resolve(&spec.user)?;
    // Who it is already, it need not become: with a single id there is no right to.
    let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let switch_user = spec.user != User::Default && (identity.uid, identity.gid) != own;
    if switch_user {
        users::require_mapped(&identity)?;
    }
    let mut env: Vec<(&str, &str)> = spec.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in [("PATH", DEFAULT_PATH), ("HOME", &identity.home), ("USER", &identity.name)] {
        if !value.is_empty() && !env.iter().any(|(known, _)| *known == name) {
            env.push((name, value));
        }
    }
    let path = env.iter().find(|(name, _)| *name == "PATH").map_or("", |(_, value)| value);
    let candidates = if program.contains('/') {
        vec![text(program)?]
    } else {
        let directories = path.split(':').filter(|directory| directory.starts_with('/'));
        directories.map(|directory| text(&format!("{directory}/{program}"))).collect::<Result<_, _>>()?
    };
    let is_directory = |path: &str| std::path::Path::new(path).is_dir();
    let cwd = match spec.cwd.as_deref() {
        Some(cwd) if !is_directory(cwd) => {
            return Err(Failure::new(FailureKind::NotFound, format!("the working directory `{cwd}` does not exist")));
        }
        Some(cwd) => cwd,
        None if is_directory(&identity.home) => &identity.home,
        None => "/",
    };
    Ok(Prepared {
        candidates,
        argv: spec.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
        env: env.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect::<Result<_, _>>()?,
        cwd: text(cwd)?,
        switch_user,
        identity,
        attempt: None,
    })
}

type Ends = (OwnedFd, OwnedFd, Option<OwnedFd>, ChildEnds);

fn pipes() -> Result<Ends, Errno> {
    let (child_input, input) = pipe_with(PipeFlags::CLOEXEC)?;
    let (out, child_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (err, child_err) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((input, out, Some(err), ChildEnds { input: child_input, out: child_out, err: child_err, kind: Kind::Pipes }))
}

fn terminal(size: WindowSize) -> Result<Ends, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let child = ioctl_tiocgptpeer(&master, flags)?;
    set_size(&master, size)?;
    let clone = |descriptor: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(descriptor, 0);
    let ends = ChildEnds { input: clone(&child)?, out: clone(&child)?, err: child, kind: Kind::Terminal };
    Ok((clone(&master)?, master, None, ends))
}

pub(crate) fn set_size(terminal: impl AsFd, size: WindowSize) -> Result<(), Errno> {
    tcsetwinsize(terminal, Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 })
}

/// The keeper's life: start the command, report its end, reap until nothing is left.
fn keep(prepared: &Prepared, ends: ChildEnds, report: OwnedFd) -> ! {
    let mut report = File::from(report);
    let mut tell = |what: u8, number: i32| {
        let mut message = [what, 0, 0, 0, 0];
        message[1..].copy_from_slice(&number.to_ne_bytes());
        // Nobody listens any more if the guest is gone, and then neither are we soon.
        let _ = report.write_all(&message);
    };
    let mut become_it = || {
        let errno = become_command(prepared, &ends);
        tell(REPORT_NOT_STARTED, errno.raw_os_error());
        exit_now(127)
    };
    let started = set_child_subreaper(Some(Pid::INIT)).map_err(std::io::Error::from).and_then(|()| {
        if prepared.attempt.is_none() {
            return spawn_until_exec(become_it);
        }
        // It executes nothing, so it needs memory of its own.
        match fork()? {
            Side::Parent(pid) => Ok(pid),
            Side::Child => {
                become_it();
                exit_now(127)
            }
        }
    });
    let command = match started {
        Err(error) => {
            tell(REPORT_NOT_STARTED, error.raw_os_error().unwrap_or(libc::EIO));
            exit_now(1)
        }
        Ok(command) => command,
    };
    // Raising a score needs no right. From here it costs the command no time; a sandbox without /proc has no killer that
    // would ask.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", command.as_raw_nonzero()), OOM_SCORE);
    drop(ends);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => tell(REPORT_EXITED, code),
                (_, Some(signal)) => tell(REPORT_SIGNALLED, signal),
                _ => {}
            },
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing is left. The guest counts on this: only who has no children ends with 0.
            Err(Errno::CHILD) => exit_now(0),
            Err(_) => exit_now(1),
        }
    }
}

/// Turns this process into the command; returns only what prevented it.
fn become_command(prepared: &Prepared, ends: &ChildEnds) -> Errno {
    if let Err(errno) = set_up(prepared, ends) {
        return errno;
    }
    if let Some(attempt) = &prepared.attempt {
        crate::attempt::run(attempt);
    }
    let error = exec(&prepared.candidates, &prepared.argv, &prepared.env);
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn set_up(prepared: &Prepared, ends: &ChildEnds) -> Result<(), Errno> {
    setsid()?;
    end_with_parent();
    if ends.kind == Kind::Terminal {
        rustix::process::ioctl_tiocsctty(&ends.input)?;
    }
    rustix::stdio::dup2_stdin(&ends.input)?;
    rustix::stdio::dup2_stdout(&ends.out)?;
    rustix::stdio::dup2_stderr(&ends.err)?;
    let limit = Rlimit { current: Some(MAX_DESCRIPTORS), maximum: Some(MAX_DESCRIPTORS) };
    // It is lower already where this fails.
    let _ = setrlimit(Resource::Nofile, limit);
    if prepared.switch_user {
        let identity = &prepared.identity;
        let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        set_thread_groups(&groups)?;
        let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    // After the user is switched: a directory that this user may not enter is not entered.
    rustix::process::chdir(&prepared.cwd)
}
