//! The runner's side of the gateway's process.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profile::Egress;
use sandbox::Capture;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::gateway::{Lost, Settings};
use crate::link::{Asking, Comes, FromGateway, Inbox, Rules, ToGateway, send};
use crate::neighbours::{Neighbour, Neighbourhood};
use crate::process::PROCESS;
use crate::reaching::Board;
use crate::record::{Counters, Record};
use crate::served::{Asked, Decider, Decisions};
use crate::switchboard::Neighbours;
use crate::{reaching, relaying};

/// Why a sandbox has no network.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The process could not be started.
    #[error("cannot start the gateway")]
    Start(#[source] io::Error),
    /// It said why it cannot work.
    #[error("the gateway cannot work: {0}")]
    Refused(String),
    /// It is gone.
    #[error("the gateway is gone")]
    Gone,
    /// It is there and does not answer.
    #[error("the gateway does not answer")]
    Silent,
}

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the gateway says unasked.
#[derive(Debug)]
pub enum Notice {
    /// Something happened.
    Record(Record),
    /// A sandbox lost its network and must be ended.
    Lost(Lost),
    /// [`GatewayProcess::detach`] ended this sandbox's network: all of its records are before this notice.
    Detached(Attachment),
    /// The gateway is gone, and every sandbox has lost its network.
    Gone,
}

/// What waits for an answer.
#[derive(Default)]
struct Waiting {
    ready: Option<oneshot::Sender<Result<Option<u32>, String>>>,
    attached: HashMap<u32, oneshot::Sender<Result<(), String>>>,
    replaced: HashMap<u32, oneshot::Sender<()>>,
    detached: HashMap<u32, oneshot::Sender<Counters>>,
    /// Relayed questions.
    answers: HashMap<u64, oneshot::Sender<Vec<u8>>>,
}

/// Lines to services at the same time, of all sandboxes together.
const MAX_LINES: usize = 8192;

pub(crate) struct Shared {
    stream: UnixStream,
    writing: AsyncMutex<()>,
    waiting: Mutex<Waiting>,
    /// Who connects to whose neighbours.
    neighbours: Mutex<HashMap<u32, Board>>,
    pub(crate) lines: Semaphore,
    /// Relayed connections and questions have numbers of one row.
    relayed: AtomicU64,
    connections: Mutex<HashMap<u64, CancellationToken>>,
    /// The order to end for those who relay a sandbox's network.
    relays: Mutex<HashMap<u32, CancellationToken>>,
    /// The order to end for every task that serves a sandbox.
    pub(crate) ended: CancellationToken,
}

/// A gateway in a process of its own. Dropping it ends the process, and with it every sandbox's network.
pub struct GatewayProcess {
    shared: Arc<Shared>,
    next: AtomicU32,
    child: Child,
    landlock: Option<u32>,
    notices: mpsc::UnboundedSender<Notice>,
    reading: tokio::task::JoinHandle<()>,
}

/// A sandbox's network, served. `detach` ends it and gives the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment(u32);

impl Attachment {
    /// Its number, as [`Lost`] has it.
    pub fn id(self) -> u32 {
        self.0
    }
}

impl GatewayProcess {
    /// Starts this very program as a gateway ([`become_gateway`](crate::become_gateway)), with nothing of ours but a
    /// socket.
    pub async fn start(
        settings: Settings,
        decider: Option<Arc<dyn Decider>>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Notice>), GatewayError> {
        Self::start_program(Path::new("/proc/self/exe"), settings, decider).await
    }

    /// The same with another program that becomes a gateway.
    pub async fn start_program(
        program: &Path,
        settings: Settings,
        decider: Option<Arc<dyn Decider>>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Notice>), GatewayError> {
        let mut command = Command::new(program);
        command.arg0(PROCESS);
        Self::start_command(command, settings, decider).await
    }

    /// The same with a command that ends as a gateway, having gone elsewhere first.
    pub async fn start_command(
        mut command: Command,
        settings: Settings,
        decider: Option<Arc<dyn Decider>>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Notice>), GatewayError> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(GatewayError::Start)?;
        command.env_clear().current_dir("/").stdin(Stdio::from(OwnedFd::from(theirs)));
        mutation::pass_on(&mut command);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        sandbox::keep_descriptors_back(&mut command);
        let child = command.spawn().map_err(GatewayError::Start)?;
        let stream = ours.set_nonblocking(true).and_then(|()| UnixStream::from_std(ours));
        let shared = Arc::new(Shared::over(stream.map_err(GatewayError::Start)?));
        let (notices, received) = mpsc::unbounded_channel();
        let asking = if decider.is_some() { Asking::Wanted } else { Asking::Unwanted };
        let (ready, started) = oneshot::channel();
        shared.waiting().ready = Some(ready);
        let reading = tokio::spawn(read(Arc::clone(&shared), notices.clone(), decider));
        let mut process = Self { shared, next: AtomicU32::new(1), child, landlock: None, notices, reading };
        process.shared.say(&ToGateway::Configure(settings, asking), &[]).await?;
        process.landlock = in_time(started).await?.map_err(GatewayError::Refused)?;
        Ok((process, received))
    }

    /// Has a sandbox's network served by these rules.
    pub async fn attach(&self, name: &str, egress: &Egress, capture: Capture) -> Result<Attachment, GatewayError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.attach_as(id, name, egress, capture, Vec::new()).await
    }

    /// The same for one service of a sample: the others are reached by name on the ports that they declared, at every
    /// level, through whoever connects to them. Start nothing in it before.
    pub async fn attach_among(
        &self,
        name: &str,
        egress: &Egress,
        capture: Capture,
        neighbours: Vec<Neighbour>,
        through: Arc<dyn Neighbours>,
    ) -> Result<Attachment, GatewayError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let known = Arc::new(Neighbourhood::new(neighbours.clone()).map_err(GatewayError::Refused)?);
        self.shared.neighbours().insert(id, Board { known, through });
        let attached = self.attach_as(id, name, egress, capture, neighbours).await;
        if attached.is_err() {
            self.shared.neighbours().remove(&id);
        }
        attached
    }

    async fn attach_as(
        &self,
        id: u32,
        name: &str,
        egress: &Egress,
        capture: Capture,
        neighbours: Vec<Neighbour>,
    ) -> Result<Attachment, GatewayError> {
        let (sender, answer) = oneshot::channel();
        self.shared.waiting().attached.insert(id, sender);
        let (name, rules) = (name.to_owned(), Rules::from(egress));
        let (listeners, comes) = match &capture {
            Capture::Passed(listeners) => (listeners.as_slice(), Comes::ByListeners),
            Capture::Relayed(_) => (&[][..], Comes::ByRunner),
        };
        let message = ToGateway::Attach { id, comes, name, rules, neighbours };
        let descriptors: Vec<_> = listeners.iter().map(|listener| listener.as_fd()).collect();
        self.shared.say(&message, &descriptors).await?;
        in_time(answer).await?.map_err(GatewayError::Refused)?;
        if let Capture::Relayed(relay) = capture {
            let ended = self.shared.ended.child_token();
            self.shared.relays().insert(id, ended.clone());
            let notices = self.notices.clone();
            tokio::spawn(relaying::relay(Arc::clone(&self.shared), id, relay, ended, notices));
        }
        Ok(Attachment(id))
    }

    /// Puts other rules in force; open connections that they forbid are cut. They hold when this returns. What somebody
    /// decided holds on, unless they deny it.
    pub async fn replace(&self, attachment: Attachment, egress: &Egress) -> Result<(), GatewayError> {
        self.put(attachment, egress, Decisions::Kept).await
    }

    /// The same for another phase: what somebody decided is forgotten, and who is being asked is asked in vain.
    pub async fn advance(&self, attachment: Attachment, egress: &Egress) -> Result<(), GatewayError> {
        self.put(attachment, egress, Decisions::Forgotten).await
    }

    async fn put(&self, attachment: Attachment, egress: &Egress, decisions: Decisions) -> Result<(), GatewayError> {
        let (sender, answer) = oneshot::channel();
        self.shared.waiting().replaced.insert(attachment.0, sender);
        let message = ToGateway::Replace { id: attachment.0, rules: Rules::from(egress), decisions };
        self.shared.say(&message, &[]).await?;
        in_time(answer).await
    }

    /// Ends a sandbox's network. All its records have come when this returns.
    pub async fn detach(&self, attachment: Attachment) -> Result<Counters, GatewayError> {
        let (sender, answer) = oneshot::channel();
        self.shared.neighbours().remove(&attachment.0);
        // It ends after the gateway has broken off what is open: the other way round, the gateway would take the end of its
        // streams for an end that the sandbox meant.
        let relay = self.shared.relays().remove(&attachment.0);
        let _ends_last = relay.map(CancellationToken::drop_guard);
        self.shared.waiting().detached.insert(attachment.0, sender);
        self.shared.say(&ToGateway::Detach { id: attachment.0 }, &[]).await?;
        in_time(answer).await
    }

    /// The process' number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The version of Landlock that keeps it from files, beside its system-call filter; `None` where the kernel has none.
    pub fn landlock(&self) -> Option<u32> {
        self.landlock
    }
}

/// A gateway that does not answer is none.
async fn in_time<T>(answer: oneshot::Receiver<T>) -> Result<T, GatewayError> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|_| GatewayError::Gone),
        Err(_) => Err(GatewayError::Silent),
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        self.shared.ended.cancel();
        self.reading.abort();
        // The end of the stream is the order to end; a process that does not follow is ended.
        let _ = rustix::net::shutdown(&self.shared.stream, rustix::net::Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shared {
    pub(crate) fn over(stream: UnixStream) -> Self {
        Self {
            stream,
            writing: AsyncMutex::default(),
            waiting: Mutex::default(),
            neighbours: Mutex::default(),
            lines: Semaphore::new(MAX_LINES),
            relayed: AtomicU64::new(1),
            connections: Mutex::default(),
            relays: Mutex::default(),
            ended: CancellationToken::new(),
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn neighbours(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Board>> {
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn relays(&self) -> std::sync::MutexGuard<'_, HashMap<u32, CancellationToken>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a relayed connection that ends by this order.
    pub(crate) fn number_connection(&self, ended: CancellationToken) -> u64 {
        let number = self.relayed.fetch_add(1, Ordering::Relaxed);
        self.connections().insert(number, ended);
        number
    }

    /// Who hears the answer to a relayed question of this number.
    pub(crate) fn expect_answer(&self, answer: oneshot::Sender<Vec<u8>>) -> u64 {
        let number = self.relayed.fetch_add(1, Ordering::Relaxed);
        self.waiting().answers.insert(number, answer);
        number
    }

    pub(crate) fn expect_no_answer(&self, number: u64) {
        self.waiting().answers.remove(&number);
    }

    pub(crate) async fn say(&self, message: &ToGateway, descriptors: &[BorrowedFd<'_>]) -> Result<(), GatewayError> {
        let sending = async {
            let _writing = self.writing.lock().await;
            send(&self.stream, message, descriptors).await
        };
        match tokio::time::timeout(PATIENCE, sending).await {
            Ok(sent) => sent.map_err(|_| GatewayError::Gone),
            Err(_) => Err(GatewayError::Silent),
        }
    }
}

async fn read(shared: Arc<Shared>, notices: mpsc::UnboundedSender<Notice>, decider: Option<Arc<dyn Decider>>) {
    let mut inbox = Inbox::default();
    while let Ok(Some((message, _))) = inbox.receive(&shared.stream).await {
        match message {
            FromGateway::Ready { landlock } => answer(shared.waiting().ready.take(), Ok(landlock)),
            FromGateway::Failed(why) => answer(shared.waiting().ready.take(), Err(why)),
            FromGateway::Attached { id, error } => {
                answer(shared.waiting().attached.remove(&id), error.map_or(Ok(()), Err));
            }
            FromGateway::Replaced { id } => answer(shared.waiting().replaced.remove(&id), ()),
            FromGateway::Detached { id, counters } => {
                // First: a caller that has the answer can wait for the notice.
                let _ = notices.send(Notice::Detached(Attachment(id)));
                answer(shared.waiting().detached.remove(&id), counters);
            }
            FromGateway::Record(record) => {
                let _ = notices.send(Notice::Record(record));
            }
            FromGateway::Lost { id, why } => {
                let _ = notices.send(Notice::Lost(Lost { id, why }));
            }
            FromGateway::Ask { ask, sandbox, name } => {
                let (Some(decider), Ok(name)) = (&decider, name.parse()) else { continue };
                let decision = decider.decide(Asked { sandbox, name });
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let allowed = decision.await;
                    let _ = shared.say(&ToGateway::Decided { ask, allowed }, &[]).await;
                });
            }
            FromGateway::Cut { number } => {
                if let Some(ended) = shared.connections().remove(&number) {
                    ended.cancel();
                }
            }
            FromGateway::Answer { number, answer: bytes } => answer(shared.waiting().answers.remove(&number), bytes),
            FromGateway::Reach { ask, id, service, port } => {
                tokio::spawn(reaching::reach(Arc::clone(&shared), ask, id, service, port));
            }
        }
    }
    // Whoever waits for an answer learns that none will come.
    *shared.waiting() = Waiting::default();
    let _ = notices.send(Notice::Gone);
}

fn answer<T>(waiting: Option<oneshot::Sender<T>>, value: T) {
    if let Some(waiting) = waiting {
        // Whoever asked may have given up.
        let _ = waiting.send(value);
    }
}
