//! The zygote's loop.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::create::{Sandbox, create};
use super::home::Home;
use super::protocol::{Reply, Request, receive, send};
use super::{During as _, Trouble};
use crate::syscalls;

/// Where whoever starts us leaves the runner's socket and the guest's program.
const SOCKET: i32 = 3;
const GUEST: i32 = 4;

/// The zygote's whole life.
pub fn main() -> ExitCode {
    let (Ok(socket), Ok(guest)) = (syscalls::adopt(SOCKET), syscalls::adopt(GUEST)) else { return ExitCode::from(70) };
    let mut server = Server { home: Home::make(guest), sandboxes: BTreeMap::new() };
    while let Ok(Some(request)) = server.next(&socket) {
        let reply = match request {
            (Request::Create(spec), descriptors) => server.create(&spec, descriptors),
            (Request::Destroy { id }, _) => {
                server.destroy(id);
                Ok((Reply::Destroyed, Vec::new()))
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
    }
    server.leave();
    ExitCode::SUCCESS
}

struct Server {
    home: Result<Home, Trouble>,
    sandboxes: BTreeMap<u32, Sandbox>,
}

impl Server {
    /// Waits for the next request and reaps sandboxes that end meanwhile.
    fn next(&mut self, socket: &OwnedFd) -> std::io::Result<Option<(Request, Vec<OwnedFd>)>> {
        loop {
            let mut set = vec![PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
            set.extend(
                self.sandboxes.values().map(|sandbox| PollFd::from_borrowed_fd(sandbox.pidfd.as_fd(), PollFlags::IN)),
            );
            poll(&mut set, None)?;
            let asked = !set[0].revents().is_empty();
            let ended: Vec<bool> = set[1..].iter().map(|pidfd| !pidfd.revents().is_empty()).collect();
            let ids: Vec<u32> =
                self.sandboxes.keys().copied().zip(ended).filter_map(|(id, ended)| ended.then_some(id)).collect();
            for id in ids {
                self.destroy(id);
            }
            if asked {
                return receive(socket);
            }
        }
    }

    fn create(&mut self, spec: &super::Spec, descriptors: Vec<OwnedFd>) -> Result<(Reply, Vec<OwnedFd>), Trouble> {
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
        let (sandbox, listeners) = create(home, spec, control)?;
        let pid = sandbox.pid;
        self.sandboxes.insert(spec.id, sandbox);
        Ok((Reply::Created { pid }, listeners))
    }

    /// Ends one sandbox. Killing its first process ends all the others with it.
    fn destroy(&mut self, id: u32) {
        if let Some(sandbox) = self.sandboxes.remove(&id) {
            end(&sandbox);
            self.remove_groups(&[sandbox]);
        }
    }

    /// Ends everything: all at once, then the groups.
    fn leave(mut self) {
        let sandboxes: Vec<Sandbox> = std::mem::take(&mut self.sandboxes).into_values().collect();
        for sandbox in &sandboxes {
            let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
        }
        for sandbox in &sandboxes {
            end(sandbox);
        }
        self.remove_groups(&sandboxes);
    }

    fn remove_groups(&self, sandboxes: &[Sandbox]) {
        let Ok(Home { parents: Some(parents), .. }) = &self.home else { return };
        let groups: Vec<_> = sandboxes.iter().filter_map(|sandbox| sandbox.group.as_ref()).collect();
        parents.remove_all(&groups);
    }
}

fn end(sandbox: &Sandbox) {
    let _ = pidfd_send_signal(&sandbox.pidfd, Signal::KILL);
    let _ = waitid(WaitId::PidFd(sandbox.pidfd.as_fd()), WaitIdOptions::EXITED);
}
