//! The gateway's own process: without the runner's environment and descriptors, without rights, files or programs, with
//! limits of its own. As root it becomes nobody; as a plain user it stays that user. What it may ask of the kernel is the
//! same for both ([`sandbox::confine_process`]).

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use profile::Egress;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Gid, Uid};
use sandbox::ConfinedProcess;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::gateway::{Gateway, Inlet, Lost};
use crate::lines::Lines;
use crate::link::{Asking, Comes, FromGateway, Inbox, ToGateway, send};
use crate::outside::HostResolver;
use crate::record::Record;
use crate::served::{Asked, Decider};
use crate::services::Reach;

/// The name by which a program that is this process knows it.
pub(crate) const PROCESS: &str = "ringfence-gateway";
/// Who has nothing on a Linux system.
const NOBODY: u32 = 65_534;
/// Worker threads.
const WORKERS: usize = 2;
/// Records that wait for the runner.
const RECORDS: usize = 4096;

/// Executes this very program as a gateway, in the place of this process; returns only if that failed.
pub fn execute_gateway() -> std::io::Error {
    use std::os::unix::process::CommandExt as _;
    std::process::Command::new("/proc/self/exe").arg0(PROCESS).exec()
}

/// Becomes the gateway if this process was started as one. Every program that starts gateways calls this first.
pub fn become_gateway() -> Option<ExitCode> {
    let asked = std::env::args_os().next().is_some_and(|name| name == PROCESS);
    asked.then(|| match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(70),
    })
}

fn serve() -> std::io::Result<()> {
    // Ctrl-C is for the runner; we end when it does.
    let _ = rustix::process::setsid();
    let stream = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    // The last file that is read; behind the confinement there are none.
    let resolver = HostResolver::read();
    give_up_rights()?;
    // tokio panics where it cannot start a worker, and the runner would only learn that we are gone.
    if let Err(error) = sandbox::check_tasks(WORKERS) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), |why| format!("{error}: {why}"));
        return runtime.block_on(refuse(stream, why));
    }
    let confined = sandbox::confine_process().map_err(|error| format!("it cannot confine itself: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(work(stream, confined, resolver))
}

/// Tells the runner why there is no gateway.
async fn refuse(stream: OwnedFd, why: String) -> std::io::Result<()> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    // An end with something unread would be an error to the runner, which could hide the answer.
    let _: Option<(ToGateway, _)> = Inbox::default().receive(&stream).await?;
    send(&stream, &FromGateway::Failed(why), &[]).await
}

/// While there is one thread: ids are a thread's.
fn give_up_rights() -> std::io::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        // In a user namespace with a single id there is nobody to become.
        if rustix::thread::set_thread_res_gid(gid, gid, gid).is_ok() {
            // The order matters: without the user's rights the groups could not be given up.
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        }
    }
    Ok(())
}

type Outgoing = mpsc::UnboundedSender<FromGateway>;

/// Serves the runner. A process that is not confined only says so, and ends.
async fn work(
    stream: OwnedFd,
    confined: Result<ConfinedProcess, String>,
    resolver: HostResolver,
) -> std::io::Result<()> {
    let stream = std::os::unix::net::UnixStream::from(stream);
    stream.set_nonblocking(true)?;
    let stream = Arc::new(UnixStream::from_std(stream)?);
    let (out, outgoing) = mpsc::unbounded_channel();
    let (record_sender, records) = mpsc::channel(RECORDS);
    let (lost_sender, lost) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(Arc::clone(&stream), outgoing, records, lost));
    let mut inbox = Inbox::default();
    let Some((ToGateway::Configure(settings, asking), _)) = inbox.receive(&stream).await? else { return Ok(()) };
    let runner = Arc::new(Runner { out: out.clone(), next: AtomicU32::new(1), waiting: Mutex::default() });
    let decider = (asking == Asking::Wanted).then(|| Arc::clone(&runner) as Arc<dyn Decider>);
    let lines = Arc::new(Lines::new(out.clone()));
    let reach = Some(Arc::clone(&lines) as Arc<dyn Reach>);
    let gateway = confined.and_then(|confined| {
        let gateway = Gateway::new(&settings, &resolver, decider, reach, record_sender, lost_sender);
        gateway.map(|gateway| (Arc::new(gateway), confined)).map_err(|error| error.to_string())
    });
    let (gateway, confined) = match gateway {
        Ok(started) => started,
        Err(error) => {
            let _ = out.send(FromGateway::Failed(error));
            drop(out);
            drop((runner, lines));
            let _ = writer.await;
            return Ok(());
        }
    };
    let _ = out.send(FromGateway::Ready { landlock: confined.landlock });
    while let Some((message, descriptors)) = inbox.receive(&stream).await? {
        match message {
            ToGateway::Reached { ask, error } => lines.reached(ask, error, descriptors.into_iter().next()),
            ToGateway::Cut { ask } => lines.cut(ask),
            message => handle(&gateway, &runner, &out, message, descriptors),
        }
    }
    // The runner is gone, and with it every sandbox: nothing is left to serve.
    Ok(())
}

fn handle(gateway: &Arc<Gateway>, runner: &Runner, out: &Outgoing, message: ToGateway, descriptors: Vec<OwnedFd>) {
    match message {
        ToGateway::Configure(..) | ToGateway::Reached { .. } | ToGateway::Cut { .. } => {}
        ToGateway::Attach { id, comes, name, rules, neighbours } => {
            let attached = Egress::try_from(rules).and_then(|egress| {
                let inlet = match comes {
                    Comes::ByListeners => Inlet::Listeners(descriptors),
                    Comes::ByRunner => Inlet::Runner,
                };
                gateway.attach(id, &name, egress, neighbours, inlet).map_err(|error| error.to_string())
            });
            let _ = out.send(FromGateway::Attached { id, error: attached.err() });
        }
        ToGateway::Replace { id, rules, decisions } => {
            // Rules that cannot be read allow nothing.
            gateway.put(id, Egress::try_from(rules).unwrap_or(Egress::Nothing), decisions);
            let _ = out.send(FromGateway::Replaced { id });
        }
        ToGateway::Detach { id } => {
            let (gateway, out) = (Arc::clone(gateway), out.clone());
            tokio::spawn(async move {
                let counters = gateway.detach(id).await.unwrap_or_default();
                let _ = out.send(FromGateway::Detached { id, counters });
            });
        }
        ToGateway::Incoming { id, number, to } => {
            if let Some(socket) = descriptors.into_iter().next() {
                let out = out.clone();
                gateway.incoming(id, to, socket, move || drop(out.send(FromGateway::Cut { number })));
            }
        }
        ToGateway::Question { id, number, question } => {
            let (gateway, out) = (Arc::clone(gateway), out.clone());
            tokio::spawn(async move {
                let answer = gateway.question(id, &question).await.unwrap_or_default();
                let _ = out.send(FromGateway::Answer { number, answer });
            });
        }
        ToGateway::Decided { ask, allowed } => runner.decided(ask, allowed),
    }
}

/// Records go first: an answer that a sandbox is gone comes after all its records.
async fn write(
    stream: Arc<UnixStream>,
    mut outgoing: mpsc::UnboundedReceiver<FromGateway>,
    mut records: mpsc::Receiver<Record>,
    mut lost: mpsc::UnboundedReceiver<Lost>,
) {
    loop {
        let message = tokio::select! {
            biased;
            Some(Lost { id, why }) = lost.recv() => FromGateway::Lost { id, why },
            Some(record) = records.recv() => FromGateway::Record(record),
            message = outgoing.recv() => match message {
                Some(message) => message,
                None => return,
            },
        };
        if send(&stream, &message, &[]).await.is_err() {
            return;
        }
    }
}

/// The runner as somebody who is asked.
struct Runner {
    out: Outgoing,
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, oneshot::Sender<bool>>>,
}

impl Runner {
    fn decided(&self, ask: u32, allowed: bool) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&ask);
        if let Some(waiting) = waiting {
            let _ = waiting.send(allowed);
        }
    }
}

impl Decider for Runner {
    fn decide(&self, asked: Asked) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let ask = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            // Those whose time was up.
            waiting.retain(|_, sender| !sender.is_closed());
            waiting.insert(ask, sender);
        }
        let _ = self.out.send(FromGateway::Ask { ask, sandbox: asked.sandbox, name: asked.name.to_string() });
        Box::pin(async move { answer.await.unwrap_or(false) })
    }
}
