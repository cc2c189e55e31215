//! A sandbox: what its users do with it, whoever provides it.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use wire::{Entry, Exec, Host, MAX_FRAME, Outcome, Stat, Stream, WriteMode};

use crate::connection::{Connection, DialError};
use crate::operation::{Event, Running};
use crate::resources::ResourceError;
use crate::session::{Session, SessionError};
use crate::snapshot::{Changes, Snapshot};

/// Time that the guest has to end a command's processes after its timeout. A workload that starves the guest makes this
/// slow; a sandbox in which it takes longer is lost.
const KILL_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a sandbox could not be started. Whose fault: the provider's, unless it says otherwise.
#[derive(Debug, Error)]
pub enum StartError {
    /// The helper process could not be started.
    #[error("cannot start the helper process that creates sandboxes")]
    Helper(#[source] io::Error),
    /// A limit of this process is too low.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The kernel refused.
    #[error("cannot create a sandbox")]
    Create(#[source] jail::zygote::CreateError),
    /// It was told to end, and a process of it or its files are not gone yet. What runs inside can cause that.
    #[error("the sandbox does not end: {0}")]
    NotEnded(String),
    /// Its processes ended too late for its files to be kept. What runs inside can cause that.
    #[error("the sandbox ended too late for its files to be kept")]
    EndedLate,
    /// The provider's disk is full. What runs inside can cause that, where the provider does not bound what is written.
    #[error("the provider has no disk space left: {0}")]
    DiskFull(String),
    /// The guest did not answer.
    #[error("cannot speak with the sandbox")]
    Session(#[from] SessionError),
    /// A mount was asked for that is a way out, or gives keys away: refused, whatever the provider.
    #[error("cannot mount `{path}`: {why}")]
    Mount {
        /// The source.
        path: String,
        /// What is wrong with it.
        why: String,
        /// What to do next.
        hint: Option<&'static str>,
    },
    /// What lies in a mount's source keeps it from being shown inside, though the source was accepted when the run was planned.
    #[error("cannot mount `{path}`: {why}")]
    MountContents {
        /// The source.
        path: String,
        /// What is wrong with what lies in it.
        why: String,
        /// What to do next.
        hint: Option<&'static str>,
    },
    /// A mount's source could not be opened.
    #[error("cannot mount `{path}`")]
    MountSource {
        /// The source.
        path: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A snapshot was asked for of something that has no files of its own.
    #[error("this sandbox has no files of its own to keep")]
    NoFiles,
    /// An engine outside of this crate has a reason of its own.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// A snapshot belongs to the engine that made it.
    #[error("the snapshot is of another engine")]
    OtherEngine,
}

impl From<jail::zygote::CreateError> for StartError {
    fn from(error: jail::zygote::CreateError) -> Self {
        match error {
            jail::zygote::CreateError::NotEnded => Self::NotEnded(error.to_string()),
            error => Self::Create(error),
        }
    }
}

impl StartError {
    /// What to do next, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Mount { hint, .. } | Self::MountContents { hint, .. } => *hint,
            Self::Resources(error) => Some(error.hint()),
            _ => None,
        }
    }
}

/// What to do with output above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Keep the end, and say that the beginning is gone.
    KeepTail,
    /// End the command.
    Kill,
}

/// A command that ended, with its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// How it ended.
    pub outcome: Outcome,
    /// Its standard output, or the end of it.
    pub stdout: Vec<u8>,
    /// Its standard error, or the end of it.
    pub stderr: Vec<u8>,
    /// Whether the beginning of a stream is gone.
    pub truncated: bool,
}

/// Why a file could not be read or written: the session's errors by another name.
pub type ReadError = SessionError;

/// An end that is under way from the first time that it is polled, whether it is awaited or not.
pub type Stopping = Pin<Box<dyn Future<Output = Option<Result<(), StartError>>> + Send>>;

/// Finds out whether a sandbox ran out of memory; on a thread that may wait.
pub type Autopsy = Arc<dyn Fn() -> bool + Send + Sync>;

/// How a sandbox is ended; dropping it ends it too.
pub trait Backing: Send + Sync {
    /// Ends it and everything in it, and waits for that. On a thread that may wait.
    fn stop(&mut self) -> Result<(), StartError>;

    /// The same without a thread that waits, where there is a way; it resolves to `None` if that way is taken just now,
    /// or if its processes need time to end: then [`Self::stop`] waits for them.
    fn stop_at_once(&mut self) -> Option<Stopping> {
        None
    }

    /// Finds out whether a sandbox that is gone ran out of memory, where that can be found out.
    fn autopsy(&self) -> Option<Autopsy> {
        None
    }

    /// The same where nobody can be told, and perhaps on a thread that must not wait for long.
    fn abandon(&mut self) {
        let _ = self.stop();
    }

    /// What whoever provides it calls it, where that can be looked up from outside.
    fn name(&self) -> Option<&str> {
        None
    }

    /// The host directory that a sandbox without isolation works in; it is new, and removed with the sandbox.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }

    /// Ends it and keeps its files.
    fn freeze(&mut self) -> Result<Snapshot, StartError> {
        Err(StartError::NoFiles)
    }

    /// What it changed of its image, if it has one.
    fn changes(&self) -> Option<Changes> {
        None
    }
}

/// A running sandbox.
pub struct Sandbox {
    session: Session,
    backing: Option<Box<dyn Backing>>,
    autopsy: Option<Autopsy>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

/// The last `limit` bytes of a stream.
struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    truncated: bool,
}

impl Tail {
    fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, truncated: false }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend(chunk);
        let over = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..over);
        self.truncated |= over > 0;
    }
}

impl Sandbox {
    /// A sandbox whose guest an engine has started.
    pub fn new(session: Session, backing: Box<dyn Backing>) -> Self {
        let autopsy = backing.autopsy();
        Self { session, backing: Some(backing), autopsy }
    }

    /// Works in a sandbox that another process of this user holds and shares.
    pub async fn join(socket: &std::path::Path) -> Result<Self, StartError> {
        let stream = tokio::net::UnixStream::connect(socket).await.map_err(StartError::Helper)?;
        Ok(Self { session: Session::open(stream).await?, backing: None, autopsy: None })
    }

    /// A second hold on it, for whoever works in it and does not end it: dropping this changes nothing.
    #[must_use]
    pub fn hold(&self) -> Self {
        Self { session: self.session.clone(), backing: None, autopsy: self.autopsy.clone() }
    }

    /// What whoever provides it calls it, where that can be looked up from outside.
    pub fn name(&self) -> Option<&str> {
        self.backing.as_ref()?.name()
    }

    /// The host directory that a sandbox without isolation works in; `None` where it has a root of its own.
    pub fn directory(&self) -> Option<&std::path::Path> {
        self.backing.as_ref()?.directory()
    }

    /// The conversation with its guest.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Starts a command and streams.
    pub fn start(&self, exec: Exec) -> Result<Running, SessionError> {
        let size: usize = exec.argv.iter().map(String::len).sum::<usize>()
            + exec.env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if size > MAX_FRAME / 2 {
            let message = format!("arguments and environment of {size} bytes are too long");
            return Err(SessionError::Failed { kind: wire::FailureKind::TooLarge, message });
        }
        self.session.begin(|id| Host::Exec { id, exec })
    }

    /// Runs a command to its end with `input` as its standard input. `limit` is of each stream.
    pub async fn exec(
        &self,
        mut exec: Exec,
        input: &[u8],
        limit: usize,
        overflow: Overflow,
    ) -> Result<Completed, SessionError> {
        if overflow == Overflow::Kill {
            exec.max_output = Some(u64::try_from(limit).unwrap_or(u64::MAX));
        }
        let patience = exec.timeout_ms.map(|millis| Duration::from_millis(millis).saturating_add(KILL_TIMEOUT));
        let mut running = self.start(exec)?;
        let stdin = running.input();
        let feed = async {
            // A command that does not want its input, or ends before it has read it, is no error.
            if stdin.write(input).await.is_ok() {
                stdin.end().await;
            }
            std::future::pending().await
        };
        let (mut out, mut err) = (Tail::new(limit), Tail::new(limit));
        let collect = async {
            loop {
                match running.next().await {
                    Event::Output(Stream::Out, bytes) => out.push(&bytes),
                    Event::Output(Stream::Err, bytes) => err.push(&bytes),
                    Event::Ended(outcome) => return Ok(outcome),
                    Event::Gone(error) => return Err(error),
                    _ => return Err(SessionError::Died("its guest answered a command with something else".into())),
                }
            }
        };
        let both = async {
            tokio::select! {
                completed = collect => completed,
                never = feed => never,
            }
        };
        let outcome = match patience {
            None => both.await?,
            Some(patience) => {
                if let Ok(ended) = tokio::time::timeout(patience, both).await {
                    ended?
                } else {
                    // The command's end is its timeout. What is left of it makes the sandbox useless for the next one.
                    self.session.give_up("its guest did not end a command whose time was up");
                    Outcome::TimedOut
                }
            }
        };
        let truncated = out.truncated || err.truncated;
        Ok(Completed { outcome, stdout: out.bytes.into(), stderr: err.bytes.into(), truncated })
    }

    /// Reads a regular file of at most `limit` bytes.
    pub async fn read_file(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let running = self.session.begin(|id| Host::Read { id, path: path.to_owned(), limit })?;
        contents(running, limit).await
    }

    /// Writes a file, making its parents.
    pub async fn write_file(&self, path: &str, contents: &[u8], permissions: u32) -> Result<(), SessionError> {
        let mode = WriteMode::Replace;
        let running = self.session.begin(|id| Host::Write { id, path: path.to_owned(), mode, permissions })?;
        write_out(running, contents).await
    }

    /// What is at a path; a link itself, not what it leads to.
    pub async fn stat(&self, path: &str) -> Result<Option<Stat>, SessionError> {
        found(self.session.begin(|id| Host::Stat { id, path: path.to_owned() })?).await
    }

    /// What is in a directory.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, SessionError> {
        entries(self.session.begin(|id| Host::List { id, path: path.to_owned() })?).await
    }

    /// Opens a TCP connection from inside, by the sandbox's own resolver and network. `deadline` is for its opening.
    pub async fn dial(&self, host: &str, port: u16, deadline: Duration) -> Result<Connection, DialError> {
        self.session.dial(host, port, deadline).await
    }

    /// Ends every process of the sandbox and keeps its files, as they are then, to begin others with. Nothing is copied.
    pub async fn freeze(mut self) -> Result<Snapshot, StartError> {
        let Some(mut backing) = self.backing.take() else { return Err(StartError::NoFiles) };
        let frozen = tokio::task::spawn_blocking(move || {
            backing.freeze().map_err(|error| {
                // What cannot be kept is ended all the same: nothing holds it any more.
                match (error, backing.stop()) {
                    (StartError::NotEnded(_), Ok(())) => StartError::EndedLate,
                    (error, _) => error,
                }
            })
        });
        frozen.await.unwrap_or_else(|error| Err(StartError::Helper(io::Error::other(error))))
    }

    /// Whether a sandbox that is gone ran out of memory, so that its guest was killed. What runs inside can cause that, with memory
    /// that outlives processes: files, shared memory. False where it cannot be found out.
    pub async fn ran_out_of_memory(&self) -> bool {
        let Some(autopsy) = self.autopsy.clone() else { return false };
        tokio::task::spawn_blocking(move || autopsy()).await.unwrap_or(false)
    }

    /// What it changed of its image; `None` where its files are not its own, or another process holds it.
    pub fn changes(&self) -> Option<Changes> {
        self.backing.as_ref()?.changes()
    }

    /// Writes what a sandbox changed of its image, as one layer's archive, while its processes are paused. For a sandbox
    /// that another process holds.
    pub async fn save(&self, to: &mut (dyn io::Write + Send)) -> Result<u64, SessionError> {
        let mut running = self.session.begin(|id| Host::Save { id })?;
        let mut written = 0_u64;
        loop {
            match running.next().await {
                Event::Output(Stream::Out, bytes) => {
                    written += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    to.write_all(&bytes).map_err(|error| SessionError::Failed {
                        kind: wire::FailureKind::Exhausted,
                        message: error.to_string(),
                    })?;
                }
                Event::Done(all) if all == written => return Ok(written),
                Event::Gone(error) => return Err(error),
                _ => return Err(SessionError::Died("it was saved only in part".into())),
            }
        }
    }

    /// Ends the sandbox and everything in it.
    pub async fn stop(mut self) -> Result<(), StartError> {
        self.session.shutdown();
        match self.backing.take() {
            // Another process holds it: its guest was told, and the stream ends with it.
            None => {
                self.session.gone().await;
                Ok(())
            }
            Some(mut backing) => {
                if let Some(stopping) = backing.stop_at_once()
                    && let Some(stopped) = stopping.await
                {
                    return stopped;
                }
                let stopped = tokio::task::spawn_blocking(move || backing.stop()).await;
                stopped.unwrap_or_else(|error| Err(StartError::Helper(io::Error::other(error))))
            }
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(mut backing) = self.backing.take() {
            // The safety net: `stop` is the way.
            backing.abandon();
        }
    }
}

/// What a read gives.
pub(crate) async fn contents(mut running: Running, limit: u64) -> Result<Vec<u8>, SessionError> {
    let mut contents = Vec::new();
    loop {
        match running.next().await {
            Event::Output(Stream::Out, bytes) => {
                contents.extend_from_slice(&bytes);
                // The guest's word for it is not enough.
                if u64::try_from(contents.len()).unwrap_or(u64::MAX) > limit {
                    return Err(SessionError::Died("its guest sent more of a file than it may have".into()));
                }
            }
            Event::Done(_) => return Ok(contents),
            Event::Gone(error) => return Err(error),
            _ => return Err(SessionError::Died("its guest answered a read with something else".into())),
        }
    }
}

/// Sends what is to be written.
pub(crate) async fn write_out(mut running: Running, contents: &[u8]) -> Result<(), SessionError> {
    let input = running.input();
    let written = async {
        // Refused halfway: the reason comes as an event.
        if input.write(contents).await.is_ok() {
            input.end().await;
        }
    };
    let answer = async {
        match running.next().await {
            Event::Done(count) if count == u64::try_from(contents.len()).unwrap_or(u64::MAX) => Ok(()),
            Event::Done(count) => {
                Err(SessionError::Died(format!("its guest wrote {count} of {} bytes", contents.len())))
            }
            Event::Gone(error) => Err(error),
            _ => Err(SessionError::Died("its guest answered a write with something else".into())),
        }
    };
    let ((), answer) = tokio::join!(written, answer);
    answer
}

/// The answer to a stat.
pub(crate) async fn found(mut running: Running) -> Result<Option<Stat>, SessionError> {
    match running.next().await {
        Event::Stat(stat) => Ok(stat),
        Event::Gone(error) => Err(error),
        _ => Err(SessionError::Died("its guest answered a question with something else".into())),
    }
}

/// The answer to a list.
pub(crate) async fn entries(mut running: Running) -> Result<Vec<Entry>, SessionError> {
    // The session has counted them.
    let mut all = Vec::new();
    loop {
        match running.next().await {
            Event::Entries(entries, last) => {
                all.extend(entries);
                if last {
                    return Ok(all);
                }
            }
            Event::Gone(error) => return Err(error),
            _ => return Err(SessionError::Died("its guest answered a question with something else".into())),
        }
    }
}
