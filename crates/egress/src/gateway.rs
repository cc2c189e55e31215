//! The gateway: serves the captured networks of many sandboxes.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profile::Egress;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use crate::neighbours::{Neighbour, Neighbourhood};
use crate::outside::{HostResolver, Outside, OutsideError};
use crate::reason::Reason;
use crate::record::{Counters, Journal, Outcome, Protocol, Record};
use crate::relay::Buffers;
use crate::served::{Commons, Decider, Decisions, Limits, Served};
use crate::services::Reach;
use crate::socket::Socket;
use crate::{connection, names};

/// How a gateway works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Who is asked for names; `None`: whom the host asks.
    pub upstream: Option<SocketAddr>,
    /// What each sandbox may use.
    pub limits: Limits,
}

/// Where a sandbox's connections come in.
#[derive(Debug)]
pub enum Inlet {
    /// At listeners of its own: TCP, UDP, and the same for IPv6 where there is any.
    Listeners(Vec<OwnedFd>),
    /// Whoever started the gateway hands them in, one by one.
    Runner,
}

/// A sandbox that lost its network: whatever it does next would not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub id: u32,
    /// Why.
    pub why: String,
}

/// Serves captured networks.
pub struct Gateway {
    commons: Commons,
    limits: Limits,
    records: mpsc::Sender<Record>,
    lost: mpsc::UnboundedSender<Lost>,
    served: Mutex<HashMap<u32, Attached>>,
}

struct Attached {
    served: Arc<Served>,
    tasks: TaskTracker,
}

/// Descriptors that the gateway needs for itself.
const OWN_DESCRIPTORS: u64 = 256;
/// How often counts of what came again are sent.
const FLUSH: Duration = Duration::from_secs(1);
/// How long connections may take to end when their sandbox does.
const FAREWELL: Duration = Duration::from_secs(2);
/// Where accepting may go on after an error.
const PAUSE: Duration = Duration::from_millis(20);

impl Gateway {
    /// Starts without any sandbox. Records and losses go to the channels.
    pub fn new(
        settings: &Settings,
        resolver: &HostResolver,
        decider: Option<Arc<dyn Decider>>,
        reach: Option<Arc<dyn Reach>>,
        records: mpsc::Sender<Record>,
        lost: mpsc::UnboundedSender<Lost>,
    ) -> Result<Self, OutsideError> {
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
        // Two for each connection: one inside, one outside.
        let connections = descriptors.saturating_sub(OWN_DESCRIPTORS) / 2;
        let commons = Commons {
            outside: Arc::new(Outside::new(settings.upstream, resolver, settings.limits.connect)?),
            buffers: Arc::new(Buffers::default()),
            all_connections: Arc::new(Semaphore::new(usize::try_from(connections).unwrap_or(1024).min(1 << 20))),
            decider,
            reach,
        };
        Ok(Self { commons, limits: settings.limits.clone(), records, lost, served: Mutex::default() })
    }

    fn table(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Attached>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a sandbox's network by these rules, among these other services of its sample.
    pub fn attach(
        &self,
        id: u32,
        name: &str,
        egress: Egress,
        neighbours: Vec<Neighbour>,
        inlet: Inlet,
    ) -> io::Result<()> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let neighbours = Neighbourhood::new(neighbours).map_err(invalid)?;
        let journal = Journal::new(name, self.records.clone());
        let served = Served::new((id, name), egress, neighbours, self.limits.clone(), journal, &self.commons);
        let served = Arc::new(served);
        let tasks = TaskTracker::new();
        let (listeners, mut any) = match inlet {
            Inlet::Listeners(listeners) => (listeners, false),
            Inlet::Runner => (Vec::new(), true),
        };
        let mut listeners = listeners.into_iter();
        while let (Some(tcp), Some(udp)) = (listeners.next(), listeners.next()) {
            let (tcp, udp) = (tcp_listener(tcp)?, udp_socket(udp)?);
            any = true;
            let (lost, watched, tracker) = (self.lost.clone(), Arc::clone(&served), tasks.clone());
            tasks.spawn(async move {
                let error = tokio::select! {
                    error = accept(Arc::clone(&watched), tcp, tracker) => error,
                    error = names::serve_udp(Arc::clone(&watched), udp) => error,
                    () = watched.ended.cancelled() => return,
                };
                let _ = lost.send(Lost { id, why: error.to_string() });
            });
        }
        if !any {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a capture without listeners"));
        }
        let flushed = Arc::clone(&served);
        tasks.spawn(async move {
            while tokio::time::timeout(FLUSH, flushed.ended.cancelled()).await.is_err() {
                flushed.journal.flush();
            }
        });
        self.table().insert(id, Attached { served, tasks });
        Ok(())
    }

    /// Serves a connection that was handed in; `to` is what it is said to ask for. Nothing else is believed of it: an
    /// address that was given to no name is refused like any other. `on_reset` is called when it is broken off; whoever
    /// holds the other end of the pair then closes it.
    pub fn incoming(
        &self,
        id: u32,
        to: Option<SocketAddr>,
        socket: OwnedFd,
        on_reset: impl FnOnce() + Send + Sync + 'static,
    ) {
        let Ok(socket) = Socket::handed(socket, Some(Box::new(on_reset))) else { return };
        let attached = self.table().get(&id).map(|attached| (Arc::clone(&attached.served), attached.tasks.clone()));
        let Some((served, tasks)) = attached else { return socket.reset() };
        admit(served, socket, to, &tasks);
    }

    /// The answer to a question that was handed in; `None` if it gets none.
    pub async fn question(&self, id: u32, question: &[u8]) -> Option<Vec<u8>> {
        let served = self.table().get(&id).map(|attached| Arc::clone(&attached.served))?;
        names::serve_question(&served, question).await
    }

    /// Puts other rules in force; open connections that they forbid are cut. False if there is no such sandbox.
    pub fn replace(&self, id: u32, egress: Egress) -> bool {
        self.put(id, egress, Decisions::Kept)
    }

    pub(crate) fn put(&self, id: u32, egress: Egress, decisions: Decisions) -> bool {
        match self.table().get(&id) {
            Some(attached) => {
                attached.served.replace(egress, decisions);
                true
            }
            None => false,
        }
    }

    /// Ends a sandbox's network and everything in it. All its records were sent when this returns.
    pub async fn detach(&self, id: u32) -> Option<Counters> {
        let Attached { served, tasks } = self.table().remove(&id)?;
        served.ended.cancel();
        tasks.close();
        let _ = tokio::time::timeout(FAREWELL, tasks.wait()).await;
        served.journal.flush();
        Some(served.journal.counters())
    }
}

fn tcp_listener(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn udp_socket(descriptor: OwnedFd) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::from(descriptor);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Accepts until the listener is of no use any more; returns why.
async fn accept(served: Arc<Served>, listener: TcpListener, tasks: TaskTracker) -> io::Error {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_transient(&error) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return error,
        };
        let stream = Socket::Tcp(stream);
        let to = stream.original();
        admit(Arc::clone(&served), stream, to, &tasks);
    }
}

/// Serves a connection if there is a place for it.
fn admit(served: Arc<Served>, stream: Socket, to: Option<SocketAddr>, tasks: &TaskTracker) {
    let places =
        (Arc::clone(&served.connections).try_acquire_owned(), Arc::clone(&served.all_connections).try_acquire_owned());
    let (Ok(own), Ok(shared)) = places else {
        let mut record = served.journal.record(Protocol::Tcp, Outcome::Refused);
        record.reason = Some(Reason::ConnectionLimit);
        served.journal.note(record);
        stream.reset();
        return;
    };
    tasks.spawn(async move {
        connection::serve(served, stream, to).await;
        drop((own, shared));
    });
}

/// Errors of one connection, or of a machine that is short of something. Anything else means that nobody listens.
fn is_transient(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let transient =
        [Errno::CONNABORTED, Errno::INTR, Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::PERM];
    transient.into_iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
