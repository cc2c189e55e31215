//! A command's streams to and from ours, until it ends.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use sandbox::{Event, Exec, Outcome, Running, Sandbox, SessionError, Stream};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::run::{TIMED_OUT, exit_of};
use super::terminal::{self, Raw};
use crate::exit::Exit;

/// Time that the guest has to end a command's processes after its timeout or after our kill. The caller then ends the
/// whole sandbox from outside, so that a workload that starves the guest cannot change how the command is reported.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a command's streams were not carried to its end.
#[derive(Debug, Error)]
pub(super) enum StreamError {
    /// The sandbox failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Our own output cannot be written: the disk is full, for example.
    #[error("cannot write to {stream}; the command was ended")]
    Output { stream: &'static str, source: io::Error },
}

impl StreamError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Session(error) => exit_of(error),
            Self::Output { .. } => Exit::Failed,
        }
    }
}

/// Runs `exec` with our own streams as its own. The caller must end the sandbox afterwards where `exec` has a timeout:
/// processes that the guest could not end in time may still be there.
pub(super) async fn to_the_end(sandbox: &Sandbox, exec: Exec) -> Result<Exit, StreamError> {
    // Held while the command has our terminal; restores it afterwards.
    let raw = exec.pty.is_some().then(Raw::enter).flatten();
    let deadline =
        exec.timeout_ms.map_or(Duration::MAX, |millis| Duration::from_millis(millis).saturating_add(KILL_TIMEOUT));
    let mut running = sandbox.start(exec)?;
    let feeding = tokio::spawn(feed(running.input()));
    let result = match tokio::time::timeout(deadline, pump(&mut running, raw.is_some())).await {
        Ok(result) => result,
        // The cause is the timeout, whatever keeps the guest from ending the processes.
        Err(_) => Ok(TIMED_OUT),
    };
    feeding.abort();
    result
}

/// Our standard input to the command's, to its end.
async fn feed(input: sandbox::Input) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stdin.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            // The command reads no more: neither do we.
            Ok(count) if input.write(&buffer[..count]).await.is_err() => return,
            Ok(_) => {}
        }
    }
    input.end().await;
}

async fn pump(running: &mut Running, has_terminal: bool) -> Result<Exit, StreamError> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let mut clean_out = Cleaner::new(!has_terminal && io::stdout().is_terminal());
    let mut clean_err = Cleaner::new(!has_terminal && io::stderr().is_terminal());
    let mut signals = Signals::new();
    let mut killed: Option<Killed> = None;
    loop {
        let kill_deadline = killed.as_ref().map(|killed| killed.deadline);
        tokio::select! {
            event = running.next() => match event {
                Event::Output(stream, bytes) => {
                    let written = match stream {
                        _ if killed.as_ref().is_some_and(|killed| killed.why.closes(stream)) => Ok(()),
                        Stream::Out => write(&mut stdout, &clean_out.clean(bytes)).await,
                        Stream::Err => write(&mut stderr, &clean_err.clean(bytes)).await,
                    };
                    let why = match (written, stream) {
                        (Ok(()), _) => continue,
                        (Err(error), Stream::Out) if error.kind() == io::ErrorKind::BrokenPipe => Why::ReaderGone,
                        // Messages that no process reads are not worth the command.
                        (Err(error), Stream::Err) if error.kind() == io::ErrorKind::BrokenPipe => continue,
                        (Err(error), stream) => Why::Unwritable(stream, error),
                    };
                    running.kill();
                    killed.get_or_insert(Killed::new(why));
                }
                Event::Ended(outcome) => return killed.map_or_else(|| Ok(exit(outcome)), |killed| killed.why.exit()),
                Event::Gone(error) => return Err(error.into()),
                _ => {
                    let why = "its guest answered a command with something else";
                    return Err(SessionError::Died(why.into()).into());
                }
            },
            signal = signals.next() => match signal {
                Arrived::End => {
                    running.kill();
                    killed.get_or_insert(Killed::new(Why::Interrupted));
                }
                Arrived::Resize if has_terminal => running.resize(terminal::size()),
                Arrived::Resize => {}
            },
            () = until(kill_deadline) => {
                return killed.map_or(Ok(Exit::Interrupted), |killed| killed.why.exit());
            }
        }
    }
}

/// A command that we ended, and until when the guest has to confirm that.
struct Killed {
    why: Why,
    deadline: Instant,
}

impl Killed {
    fn new(why: Why) -> Self {
        Self { why, deadline: Instant::now() + KILL_TIMEOUT }
    }
}

/// Why we ended the command.
enum Why {
    Interrupted,
    /// Our standard output is a pipe that its reader has closed: the command ends as in a shell's pipeline.
    ReaderGone,
    Unwritable(Stream, io::Error),
}

impl Why {
    /// Whether nothing more is written to this stream.
    fn closes(&self, stream: Stream) -> bool {
        match self {
            Self::Interrupted => false,
            Self::ReaderGone => stream == Stream::Out,
            Self::Unwritable(failed, _) => *failed == stream,
        }
    }

    fn exit(self) -> Result<Exit, StreamError> {
        match self {
            Self::Interrupted => Ok(Exit::Interrupted),
            Self::ReaderGone => Ok(Exit::Done),
            Self::Unwritable(stream, source) => {
                let stream = if stream == Stream::Out { "standard output" } else { "standard error" };
                Err(StreamError::Output { stream, source })
            }
        }
    }
}

/// Resolves at `deadline`; without one, never.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn write(to: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

fn exit(outcome: Outcome) -> Exit {
    let code = |value: i32| Exit::Command(u8::try_from(value & 0xff).unwrap_or(u8::MAX));
    match outcome {
        Outcome::Exited(value) => code(value),
        Outcome::Signalled(signal) => code(128 + signal),
        Outcome::TimedOut => TIMED_OUT,
        // Only ended by another client of the same sandbox: we have not asked for it.
        Outcome::Killed | Outcome::OutputLimit(_) => code(128 + 9),
    }
}

/// Signals that we pass on. Where one cannot be had, it has its usual effect.
struct Signals {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
    resize: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    fn new() -> Self {
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            resize: signal(SignalKind::window_change()).ok(),
        }
    }

    async fn next(&mut self) -> Arrived {
        tokio::select! {
            () = next(&mut self.interrupt) => Arrived::End,
            () = next(&mut self.terminate) => Arrived::End,
            () = next(&mut self.resize) => Arrived::Resize,
        }
    }
}

/// What a signal asks for.
enum Arrived {
    End,
    Resize,
}

async fn next(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Makes visible what would speak to our terminal, byte by byte: a chunk may end within a character.
struct Cleaner {
    active: bool,
    /// The first byte of U+0080 to U+00BF was seen; the next decides.
    held: bool,
}

impl Cleaner {
    fn new(active: bool) -> Self {
        Self { active, held: false }
    }

    fn clean(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        const FIRST: u8 = 0xc2;
        if !self.active {
            return bytes;
        }
        let mut clean = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let held = std::mem::take(&mut self.held);
            match byte {
                // U+0080 to U+009F: control characters in two bytes.
                0x80..=0x9f if held => clean.extend(format!("\\u{{{byte:x}}}").bytes()),
                _ if held => {
                    clean.push(FIRST);
                    self.push(byte, &mut clean);
                }
                _ => self.push(byte, &mut clean),
            }
        }
        clean
    }

    fn push(&mut self, byte: u8, clean: &mut Vec<u8>) {
        match byte {
            0xc2 => self.held = true,
            b'\n' | b'\r' | b'\t' => clean.push(byte),
            0..=0x1f | 0x7f => clean.extend(format!("\\x{byte:02x}").bytes()),
            _ => clean.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_cannot_speak_to_the_terminal() {
        let mut cleaner = Cleaner::new(true);
        let pieces = ["a\u{1b}[31m\tb\r\n\u{7f}".as_bytes(), &[0xc2], &[0x9b], "é\u{a0}".as_bytes()];
        let clean: Vec<u8> = pieces.iter().flat_map(|piece| cleaner.clean(piece.to_vec())).collect();
        assert_eq!(String::from_utf8(clean).unwrap(), "a\\x1b[31m\tb\r\n\\x7f\\u{9b}é\u{a0}");
        assert_eq!(Cleaner::new(false).clean(b"\x1b".to_vec()), b"\x1b");
    }
}
