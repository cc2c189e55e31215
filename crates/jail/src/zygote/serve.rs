//! The zygote's loop.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::create::{Finished, Kind, Sandbox, begin, finish};
use super::home::Home;
use super::prepared::Prepared;
use super::protocol::{Changed, Reply, Request, receive_into, room, send};
use super::{During as _, Trouble, cradle, snapshot};
use crate::cgroups::Parents;
use crate::syscalls;

/// A sandbox whose stream has ended is gone within this time, with all of its processes.
const AN_END: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// The most time that one request waits for the end of killed processes. The kernel can take minutes to end a process that an agent
/// made expensive to end; other requests wait meanwhile, so the runner asks again instead.
const WAIT: Duration = Duration::from_millis(200);
/// The most time for the end of all sandboxes when the runner leaves.
const LEAVE: Duration = Duration::from_secs(15);
/// Where whoever starts us leaves its socket.
const SOCKET: i32 = 3;

/// The zygote's whole life, or that of its cradle: which one, the program's name says.
pub fn main() -> ExitCode {
    let Ok(socket) = syscalls::adopt(SOCKET) else { return ExitCode::from(70) };
    if std::env::args_os().next().is_some_and(|name| name == cradle::NAME) {
        return cradle::main(&socket);
    }
    let mut server = Server {
        home: Home::make(),
        sandboxes: BTreeMap::new(),
        ended: Vec::new(),
        dying: Vec::new(),
        writers: Vec::new(),
        prepared: Prepared::default(),
        room: room(),
    };
    while let Ok(Some(request)) = server.next(&socket) {
        let reply = match request {
            (Request::Create(mut spec), descriptors) => server.create(&mut spec, descriptors),
            (Request::Destroy { id }, _) => match server.destroy(id) {
                Ended::Yes => Ok((Reply::Done, Vec::new())),
                Ended::NotYet => Ok((Reply::NotEnded, Vec::new())),
            },
            (Request::Prepare { network, limits, name, count }, _) => {
                if let Ok(home) = &server.home {
                    server.prepared.want(home, Kind { network, limits }, name, count);
                }
                Ok((Reply::Done, Vec::new()))
            }
            (Request::Freeze { id, snapshot }, _) => match server.freeze(id, snapshot) {
                Ok(Ended::Yes) => Ok((Reply::Done, Vec::new())),
                Ok(Ended::NotYet) => Ok((Reply::NotEnded, Vec::new())),
                Err(trouble) => Err(trouble),
            },
            (Request::Forget { snapshot }, _) => {
                if let Ok(home) = &mut server.home {
                    home.snapshots.forget(snapshot);
                }
                Ok((Reply::Done, Vec::new()))
            }
            (Request::Groups, _) => server.groups().map(|place| (Reply::Groups { place }, Vec::new())),
            (Request::Starved { id }, _) => server.starved(id).map(|()| (Reply::Done, Vec::new())),
            (Request::Pause { id }, _) => server.pause(id).map(|()| (Reply::Done, Vec::new())),
            (Request::Resume { id }, _) => server.resume(id).map(|()| (Reply::Done, Vec::new())),
            (Request::Archive { what, limit }, descriptors) => {
                server.archive(what, limit, descriptors).map(|()| (Reply::Done, Vec::new()))
            }
        };
        let (reply, listeners) = reply.unwrap_or_else(|Trouble { step, error }| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            (Reply::Failed { step: step.to_owned(), errno }, Vec::new())
        });
        let listeners: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
        if send(&socket, &reply, &listeners).is_err() {
            break;
        }
        server.tidy();
    }
    server.leave();
    ExitCode::SUCCESS
}

struct Server {
    home: Result<Home, Trouble>,
    sandboxes: BTreeMap<u32, Sandbox>,
    /// Sandboxes without a process, whose groups are still there.
    ended: Vec<Sandbox>,
    /// Killed sandboxes that have a process yet, with their numbers.
    dying: Vec<(u32, Sandbox)>,
    /// Children that write archives.
    writers: Vec<OwnedFd>,
    prepared: Prepared,
    /// For requests.
    room: Box<[u8]>,
}

impl Server {
    /// Waits for the next request and reaps sandboxes that end meanwhile. While nobody asks, it prepares others.
    fn next(&mut self, socket: &OwnedFd) -> std::io::Result<Option<(Request, Vec<OwnedFd>)>> {
        loop {
            let mut set = vec![PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
            let running: Vec<u32> =
                self.sandboxes.iter().filter(|(_, sandbox)| !sandbox.keeps_files).map(|(id, _)| *id).collect();
            set.extend(
                running.iter().map(|id| PollFd::from_borrowed_fd(self.sandboxes[id].pidfd.as_fd(), PollFlags::IN)),
            );
            set.extend(self.writers.iter().map(|writer| PollFd::from_borrowed_fd(writer.as_fd(), PollFlags::IN)));
            set.extend(
                self.dying.iter().map(|(_, dying)| PollFd::from_borrowed_fd(dying.pidfd.as_fd(), PollFlags::IN)),
            );
            if poll(&mut set, self.prepared.patience())? == 0 {
                drop(set);
                if let Ok(home) = &mut self.home {
                    self.prepared.idle(home);
                }
                continue;
            }
            let asked = !set[0].revents().is_empty();
            let mut ended: Vec<bool> = set[1..].iter().map(|pidfd| !pidfd.revents().is_empty()).collect();
            let mut finished = ended.split_off(running.len());
            let dead = finished.split_off(self.writers.len());
            drop(set);
            let mut dead = dead.into_iter();
            for (_, sandbox) in self.dying.extract_if(.., |_| dead.next().unwrap_or(false)) {
                let _ = waitid(WaitId::PidFd(sandbox.pidfd.as_fd()), WaitIdOptions::EXITED);
                self.ended.push(sandbox);
            }
            let mut finished = finished.into_iter();
            self.writers.retain(|writer| {
                let done = finished.next().unwrap_or(false);
                if done {
                    let _ = waitid(WaitId::PidFd(writer.as_fd()), WaitIdOptions::EXITED);
                }
                !done
            });
            for (id, _) in running.into_iter().zip(ended).filter(|(_, ended)| *ended) {
                // What one wrote whose guest was killed for want of memory may still be asked for.
                if self.starved(id).is_err() {
                    self.destroy(id);
                }
            }
            self.tidy();
            if asked {
                return receive_into(socket, &mut self.room);
            }
        }
    }

    /// Where control groups can be made.
    fn groups(&self) -> Result<String, Trouble> {
        let copy = |Trouble { step, error }: &Trouble| {
            let error = std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
            Trouble { step, error }
        };
        let home = self.home.as_ref().map_err(copy)?;
        home.parents.as_ref().map(Parents::describe).map_err(copy)
    }

    fn create(&mut self, spec: &mut super::Spec, descriptors: Vec<OwnedFd>) -> Result<(Reply, Vec<OwnedFd>), Trouble> {
        let home = match &mut self.home {
            Ok(home) => home,
            Err(Trouble { step, error }) => {
                let error = std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
                return Err(Trouble { step, error });
            }
        };
        let invalid = || std::io::Error::from_raw_os_error(libc::EINVAL);
        let control = descriptors.into_iter().next().ok_or_else(invalid).during("receiving the control stream")?;
        if self.sandboxes.contains_key(&spec.id) {
            return Err(invalid()).during("choosing an id");
        }
        home.bases.hold(&mut spec.image, spec.directory).during("opening the image's directory")?;
        let kind = Kind { network: spec.network, limits: spec.limits };
        let range =
            home.snapshots.range(&spec.image).during("joining snapshots of several id ranges (needs Linux 6.3)")?;
        let taken = if range.is_none() { self.prepared.take(home, &kind) } else { None };
        let prepared = match taken {
            Some(blank) => {
                let control = rustix::io::fcntl_dupfd_cloexec(&control, 3).during("copying the control stream")?;
                // One that dies just now is not whoever asks's trouble.
                finish(home, spec, control, blank).ok()
            }
            None => None,
        };
        let Finished { sandbox, listeners } = if let Some(made) = prepared {
            made
        } else {
            let blank = begin(home, &kind, &spec.name, range)?;
            finish(home, spec, control, blank)?
        };
        self.prepared.note(&kind, &spec.name);
        let pid = sandbox.pid;
        self.sandboxes.insert(spec.id, sandbox);
        Ok((Reply::Created { pid }, listeners))
    }

    /// Ends one sandbox. Killing its first process ends all the others with it. May be asked for again.
    fn destroy(&mut self, id: u32) -> Ended {
        let dying = self.dying.iter().position(|(dying, _)| *dying == id);
        let killed_before = dying.map(|place| self.dying.remove(place).1);
        let Some(sandbox) = self.sandboxes.remove(&id).or(killed_before) else { return Ended::Yes };
        let ended = end(&sandbox, WAIT);
        match ended {
            Ended::Yes => self.ended.push(sandbox),
            Ended::NotYet => self.dying.push((id, sandbox)),
        }
        ended
    }

    /// Takes off and removes what nobody needs any more. Whoever asked has the answer by now, and does not wait for this.
    fn tidy(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        if !ended.is_empty() {
            self.remove_groups(&ended);
        }
        // Also after a sandbox that could not be created.
        if let Ok(Home { bases, snapshots, .. }) = &mut self.home {
            let writable = self.sandboxes.values().filter_map(|sandbox| sandbox.writable.as_ref());
            bases.keep_only(writable.map(|writable| &writable.image).chain(snapshots.images()));
        }
    }

    /// Ends one sandbox and keeps what it wrote, but not while a process of it may still write: then this may be asked for again. One
    /// whose files cannot be kept is not ended.
    fn freeze(&mut self, id: u32, snapshot: u32) -> Result<Ended, Trouble> {
        let absent = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let home = self.home.as_mut().map_err(|_| absent()).during("freezing the sandbox")?;
        let sandbox = self.sandboxes.get_mut(&id).ok_or_else(absent).during("freezing the sandbox")?;
        let writable = sandbox.writable.take().ok_or_else(absent).during("freezing the sandbox")?;
        // Nothing writes any more when its processes are gone.
        if matches!(end(sandbox, WAIT), Ended::NotYet) {
            sandbox.writable = Some(writable);
            sandbox.keeps_files = true;
            return Ok(Ended::NotYet);
        }
        // A layer that is still mounted must not lie below another.
        sandbox.mounts = None;
        let kept = home.snapshots.keep(snapshot, writable, home.rights);
        self.destroy(id);
        kept.map(|()| Ended::Yes)
    }

    /// Succeeds if a sandbox ended because its guest was killed for want of memory. An end that was just begun is awaited.
    fn starved(&mut self, id: u32) -> Result<(), Trouble> {
        let during = "looking at an ended sandbox";
        let absent = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let home = self.home.as_ref().map_err(|_| absent()).during(during)?;
        let sandbox = self.sandboxes.get_mut(&id).ok_or_else(absent).during(during)?;
        let parents = home.parents.as_ref().map_err(|_| absent()).during(during)?;
        let group = sandbox.group.as_ref().ok_or_else(absent).during(during)?;
        let mut ended = [PollFd::from_borrowed_fd(sandbox.pidfd.as_fd(), PollFlags::IN)];
        poll(&mut ended, Some(&AN_END)).during(during)?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::PidFd(sandbox.pidfd.as_fd()), options).during(during)?;
        let was_killed = status.is_some_and(|status| status.terminating_signal() == Some(libc::SIGKILL));
        if !was_killed || !parents.has_killed_for_memory(group) {
            return Err(absent()).during(during);
        }
        sandbox.keeps_files = true;
        Ok(())
    }

    /// Freezes every process of a sandbox. An error where no control group can: nothing is paused then.
    fn pause(&mut self, id: u32) -> Result<(), Trouble> {
        let during = "freezing the processes";
        let absent = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let unable = || std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let home = self.home.as_ref().map_err(|_| absent()).during(during)?;
        let sandbox = self.sandboxes.get_mut(&id).ok_or_else(absent).during(during)?;
        let (Ok(parents), Some(group)) = (&home.parents, &mut sandbox.group) else {
            return Err(unable()).during(during);
        };
        sandbox.frozen = Some(parents.freeze(group).during(during)?);
        Ok(())
    }

    /// Lets the processes of a sandbox go on.
    fn resume(&mut self, id: u32) -> Result<(), Trouble> {
        let frozen = self.sandboxes.get_mut(&id).and_then(|sandbox| sandbox.frozen.take());
        frozen.map_or(Ok(()), |frozen| frozen.thaw()).during("letting the processes go on")
    }

    /// Starts a child that writes an archive, so that nobody else waits for it.
    fn archive(&mut self, what: Changed, limit: u64, descriptors: Vec<OwnedFd>) -> Result<(), Trouble> {
        let absent = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let home = self.home.as_ref().map_err(|_| absent()).during("writing a layer")?;
        let writable = match what {
            Changed::Sandbox(id) => self.sandboxes.get(&id).and_then(|sandbox| sandbox.writable.as_ref()),
            Changed::Snapshot(_) => None,
        };
        let stacks = match (what, writable) {
            (Changed::Snapshot(id), _) => home.snapshots.stacks(id, home.rights).during("writing a layer")?,
            (_, Some(writable)) => writable.stacks(home.rights).during("writing a layer")?,
            _ => return Err(absent()).during("writing a layer"),
        };
        let mut descriptors = descriptors.into_iter();
        let (Some(data), Some(status)) = (descriptors.next(), descriptors.next()) else {
            return Err(std::io::Error::from_raw_os_error(libc::EINVAL)).during("writing a layer");
        };
        // SAFETY: the zygote never has more than one thread.
        match unsafe { syscalls::clone_into(0, None) }.during("starting a writer")? {
            syscalls::Side::Child => snapshot::write(&stacks, limit, data, &status),
            syscalls::Side::Parent { pidfd, .. } => self.writers.push(pidfd),
        }
        Ok(())
    }

    /// Ends everything: all at once, then the groups.
    fn leave(mut self) {
        let mut sandboxes: Vec<Sandbox> = std::mem::take(&mut self.sandboxes).into_values().collect();
        sandboxes.extend(self.prepared.leave());
        sandboxes.append(&mut self.ended);
        sandboxes.extend(self.dying.drain(..).map(|(_, sandbox)| sandbox));
        let begun = Instant::now();
        for sandbox in &mut sandboxes {
            // Nobody waits: each takes its own mounts apart, all at the same time.
            sandbox.mounts = None;
            let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
        }
        for sandbox in &sandboxes {
            end(sandbox, LEAVE.saturating_sub(begun.elapsed()));
        }
        self.remove_groups(&sandboxes);
    }

    fn remove_groups(&self, sandboxes: &[Sandbox]) {
        let Ok(Home { parents: Ok(parents), .. }) = &self.home else { return };
        let groups: Vec<_> = sandboxes.iter().filter_map(|sandbox| sandbox.group.as_ref()).collect();
        parents.remove_all(&groups);
    }
}

/// Whether the last process of a killed sandbox is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Yes,
    NotYet,
}

fn end(sandbox: &Sandbox, within: Duration) -> Ended {
    let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
    // What is frozen in v1 does not die before it goes on.
    if let Some(frozen) = &sandbox.frozen {
        let _ = frozen.thaw();
    }
    let within = Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    };
    let mut set = [PollFd::from_borrowed_fd(sandbox.pidfd.as_fd(), PollFlags::IN)];
    if matches!(poll(&mut set, Some(&within)), Ok(0)) {
        return Ended::NotYet;
    }
    let _ = waitid(WaitId::PidFd(sandbox.pidfd.as_fd()), WaitIdOptions::EXITED);
    Ended::Yes
}
