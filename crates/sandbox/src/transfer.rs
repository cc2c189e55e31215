//! Files by the chunk: never whole in memory, and with the rights of whoever they belong to.
//!
//! The guest itself reads and writes as root inside. For anybody else it has a child do it, as it has a child try what a
//! probe asks for (`guest/src/attempt/files.rs`): then the kernel says what that user may.

use wire::{Attempt, Entry, FailureKind, Host, Outcome, Stat, Stream, TransferFailure, User, WriteMode};

use crate::operation::{Event, Input, Running};
use crate::sandbox::Sandbox;
use crate::session::SessionError;

/// The most that is kept of what a child says of its failure.
const MAX_MESSAGE: usize = 1024;
/// The most entries of a directory, and bytes that they may be together: a name of 255 bytes and what is there, each.
const MAX_ENTRIES: usize = 100_000;
const MAX_LISTING: u64 = 32 << 20;

impl Sandbox {
    /// Reads a regular file of at most `limit` bytes, a chunk at a time.
    pub fn open_file(&self, path: &str, limit: u64, user: User) -> Result<Reading, SessionError> {
        let path = path.to_owned();
        let running = self.session().begin(|id| match user {
            User::Default => Host::Read { id, path, limit },
            user @ User::Named(_) => {
                Host::Attempt { id, attempt: Attempt::SendFile { path, limit }, user, timeout_ms: u64::MAX }
            }
        })?;
        Ok(Reading::new(running, limit, Excess::Lies))
    }

    /// Writes a file, making its parents, a chunk at a time. What is there is replaced.
    pub fn create_file(&self, path: &str, permissions: u32, user: User) -> Result<Writing, SessionError> {
        let path = path.to_owned();
        let running = self.session().begin(|id| match user {
            User::Default => Host::Write { id, path, mode: WriteMode::Replace, permissions },
            user @ User::Named(_) => {
                Host::Attempt { id, attempt: Attempt::TakeFile { path, permissions }, user, timeout_ms: u64::MAX }
            }
        })?;
        Ok(Writing::of(running))
    }

    /// What is in a directory, with the rights of a user.
    pub async fn list_as(&self, path: &str, user: User) -> Result<Vec<Entry>, SessionError> {
        if user == User::Default {
            return self.list(path).await;
        }
        let said = self.said_by(Attempt::ListFiles { path: path.to_owned() }, user, MAX_LISTING).await?;
        Entry::decode_all(&said, MAX_ENTRIES).ok_or_else(something_else)
    }

    /// What is at a path, a link itself, with the rights of a user; `None` where there is nothing.
    pub async fn stat_as(&self, path: &str, user: User) -> Result<Option<Stat>, SessionError> {
        if user == User::Default {
            return self.stat(path).await;
        }
        match self.said_by(Attempt::StatFile { path: path.to_owned() }, user, 64).await {
            Ok(said) => Stat::decode(&said).map(Some).ok_or_else(something_else),
            Err(SessionError::Failed { kind: FailureKind::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Everything that a child of this user says, which is never more than `limit` bytes.
    async fn said_by(&self, attempt: Attempt, user: User, limit: u64) -> Result<Vec<u8>, SessionError> {
        let running = self.session().begin(|id| Host::Attempt { id, attempt, user, timeout_ms: u64::MAX })?;
        let mut reading = Reading::new(running, limit, Excess::Lies);
        let mut all = Vec::new();
        while let Some(bytes) = reading.next().await? {
            all.extend(bytes);
        }
        Ok(all)
    }
}

/// How a child's end is told.
fn failure(outcome: Outcome, said: &[u8]) -> SessionError {
    let message = String::from_utf8_lossy(said).trim().to_owned();
    let kind = match outcome {
        Outcome::Exited(code) => TransferFailure::kind(code),
        _ => FailureKind::Other,
    };
    let message = if message.is_empty() { format!("the transfer ended early: {outcome:?}") } else { message };
    SessionError::Failed { kind, message }
}

fn note(said: &mut Vec<u8>, bytes: &[u8]) {
    let room = MAX_MESSAGE.saturating_sub(said.len());
    said.extend(bytes.iter().take(room));
}

fn something_else() -> SessionError {
    SessionError::Died("its guest answered a transfer with something else".into())
}

/// A file that is read. Dropping it ends that.
#[derive(Debug)]
pub struct Reading {
    running: Running,
    left: u64,
    excess: Excess,
    said: Vec<u8>,
}

/// What more bytes than the limit mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// The guest was to keep to the limit, and did not.
    Lies,
    /// There is too much of it.
    TooMuch,
}

impl Reading {
    fn new(running: Running, limit: u64, excess: Excess) -> Self {
        Self { running, left: limit, excess, said: Vec::new() }
    }

    /// Something that the guest does not count: more than `limit` bytes of it are an error.
    pub(crate) fn limited(running: Running, limit: u64) -> Self {
        Self::new(running, limit, Excess::TooMuch)
    }

    /// The next bytes; `None` is the end of the file.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        loop {
            match self.running.next().await {
                Event::Output(Stream::Out, bytes) => {
                    // The guest's word for it is not enough.
                    let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    self.left = self.left.checked_sub(count).ok_or_else(|| match self.excess {
                        Excess::Lies => SessionError::Died("its guest sent more of a file than it may have".into()),
                        Excess::TooMuch => SessionError::Failed {
                            kind: FailureKind::TooLarge,
                            message: "the files are larger than the limit".into(),
                        },
                    })?;
                    return Ok(Some(bytes));
                }
                Event::Output(Stream::Err, bytes) => note(&mut self.said, &bytes),
                Event::Done(_) | Event::Ended(Outcome::Exited(0)) => return Ok(None),
                Event::Ended(outcome) => return Err(failure(outcome, &self.said)),
                Event::Gone(error) => return Err(error),
                _ => return Err(something_else()),
            }
        }
    }
}

/// A file that is written. Dropping it before [`Writing::finish`] leaves what was written until then.
pub struct Writing {
    input: Input,
    running: Running,
    sent: u64,
    said: Vec<u8>,
}

impl std::fmt::Debug for Writing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writing").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Writing {
    pub(crate) fn of(running: Running) -> Self {
        Self { input: running.input(), running, sent: 0, said: Vec::new() }
    }

    /// Sends bytes; waits while they are not taken. An error is why the file cannot be written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let input = self.input.clone();
        tokio::select! {
            biased;
            ended = self.ended() => Err(match ended {
                Ok(_) => something_else(),
                Err(error) => error,
            }),
            sent = input.write(bytes) => match sent {
                Ok(()) => {
                    self.sent += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                    Ok(())
                }
                // It reads no more; why, is what it says last.
                Err(error) => Err(self.ended().await.err().unwrap_or(error)),
            },
        }
    }

    /// Ends the file, and waits until it is written.
    pub async fn finish(mut self) -> Result<u64, SessionError> {
        self.input.end().await;
        match self.ended().await? {
            Some(count) if count != self.sent => {
                Err(SessionError::Died(format!("its guest wrote {count} of {} bytes", self.sent)))
            }
            _ => Ok(self.sent),
        }
    }

    /// Waits for the end; how many bytes were written, where somebody counted.
    async fn ended(&mut self) -> Result<Option<u64>, SessionError> {
        loop {
            match self.running.next().await {
                Event::Output(Stream::Err, bytes) => note(&mut self.said, &bytes),
                Event::Done(count) => return Ok(Some(count)),
                Event::Ended(Outcome::Exited(0)) => return Ok(None),
                Event::Ended(outcome) => return Err(failure(outcome, &self.said)),
                Event::Gone(error) => return Err(error),
                _ => return Err(something_else()),
            }
        }
    }
}
