//! A command's streams to and from ours, until it ends.

use std::io::IsTerminal as _;
use std::time::Duration;

use sandbox::{Event, Exec, Outcome, Running, Sandbox, SessionError, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};

use super::run::TIMED_OUT;
use super::terminal::{self, Raw};
use crate::exit::Exit;

/// How much longer than its timeout a command may take before the sandbox is taken for dead.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `exec` with our own streams as its own.
pub(super) async fn to_the_end(sandbox: &Sandbox, exec: Exec) -> Result<Exit, SessionError> {
    // Held while the command has our terminal; restores it afterwards.
    let raw = exec.pty.is_some().then(Raw::enter).flatten();
    // The guest ends the command in time; if it cannot, because the workload starves it, we do not wait for it.
    let patience =
        exec.timeout_ms.map_or(Duration::MAX, |millis| Duration::from_millis(millis).saturating_add(PATIENCE));
    let mut running = sandbox.start(exec)?;
    let feeding = tokio::spawn(feed(running.input()));
    let result = match tokio::time::timeout(patience, pump(&mut running, raw.is_some())).await {
        Ok(result) => result,
        Err(_) => Err(SessionError::Died("its guest did not end a command whose time was up".into())),
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

async fn pump(running: &mut Running, has_terminal: bool) -> Result<Exit, SessionError> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let mut clean_out = Cleaner::new(!has_terminal && std::io::stdout().is_terminal());
    let mut clean_err = Cleaner::new(!has_terminal && std::io::stderr().is_terminal());
    let mut signals = Signals::new();
    let mut interrupted = false;
    loop {
        tokio::select! {
            event = running.next() => match event {
                Event::Output(Stream::Out, bytes) => {
                    // Whoever closed the pipe has seen enough: the command ends as in a shell's pipeline.
                    if write(&mut stdout, &clean_out.clean(bytes)).await.is_err() {
                        running.kill();
                    }
                }
                Event::Output(Stream::Err, bytes) => {
                    let _ = write(&mut stderr, &clean_err.clean(bytes)).await;
                }
                Event::Ended(_) if interrupted => return Ok(Exit::Interrupted),
                Event::Ended(outcome) => return Ok(exit(outcome)),
                Event::Gone(error) => return Err(error),
                _ => return Err(SessionError::Died("its guest answered a command with something else".into())),
            },
            signal = signals.next() => match signal {
                Arrived::End => {
                    interrupted = true;
                    running.kill();
                }
                Arrived::Resize if has_terminal => running.resize(terminal::size()),
                Arrived::Resize => {}
            },
        }
    }
}

async fn write(to: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

fn exit(outcome: Outcome) -> Exit {
    let code = |value: i32| Exit::Command(u8::try_from(value & 0xff).unwrap_or(u8::MAX));
    match outcome {
        Outcome::Exited(value) => code(value),
        Outcome::Signalled(signal) => code(128 + signal),
        Outcome::TimedOut => TIMED_OUT,
        // Only ended by us: the reader of our output is gone.
        Outcome::Killed | Outcome::OutputLimit(_) => Exit::Done,
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
