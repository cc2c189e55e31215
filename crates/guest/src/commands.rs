//! One command's streams, clock and end.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, read, write};
use rustix::process::Pid;
use wire::{Guest, MAX_CHUNK, Outcome, Stream, WINDOW, WindowSize};

use crate::failure::Failure;
use crate::outbox::Outbox;
use crate::spawn::{self, REPORT, REPORT_EXITED, REPORT_NOT_STARTED, REPORT_SIGNALLED, Started};
use crate::tree;

/// What a terminal reads as the end of its input.
const END_OF_INPUT: u8 = 4;

/// One output stream of a command.
struct Output {
    stream: Stream,
    fd: Option<OwnedFd>,
    credit: u32,
    seen: u64,
}

/// A command that runs, or whose keeper still has children.
pub(crate) struct Command {
    id: u32,
    pub(crate) keeper: Pid,
    report: OwnedFd,
    outputs: Vec<Output>,
    input: Option<OwnedFd>,
    waiting_input: VecDeque<u8>,
    /// Bytes that the host sent and was not yet given credit for.
    owed: usize,
    input_ended: bool,
    kind: Kind,
    deadline: Option<Instant>,
    max_output: Option<u64>,
    /// How it ended, once that is known; it is told when the outputs are drained.
    outcome: Option<Outcome>,
    life: Life,
    keeper_gone: bool,
}

/// How far a command has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    /// Its tree was killed: its end is told when nothing of it is left.
    Dying,
    /// The host knows its end. Its keeper may still have children.
    Told,
}

/// Whether processes of other commands run beside a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// Every process but the guest is of this command, or waits to be of the next one.
    Alone,
    Others,
}

/// What a command's streams are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pipes,
    Terminal,
}

impl Command {
    pub(crate) fn new(id: u32, started: Started, timeout_ms: Option<u64>, max_output: Option<u64>) -> Self {
        let Started { keeper, report, input, out, err, kind } = started;
        let output = |stream, fd| Output { stream, fd, credit: WINDOW, seen: 0 };
        Self {
            id,
            keeper,
            report,
            outputs: vec![output(Stream::Out, Some(out)), output(Stream::Err, err)],
            input: Some(input),
            waiting_input: VecDeque::new(),
            owed: 0,
            input_ended: false,
            kind,
            deadline: timeout_ms.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis))),
            max_output,
            outcome: None,
            life: Life::Running,
            keeper_gone: false,
        }
    }

    /// Nothing left to serve: told, and no background process either.
    pub(crate) fn is_finished(&self) -> bool {
        self.life == Life::Told && self.keeper_gone
    }

    /// Whether its tree was killed and its end is not told yet.
    pub(crate) fn is_dying(&self) -> bool {
        self.life == Life::Dying
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.filter(|_| self.outcome.is_none())
    }

    /// The descriptors that it waits for: report, outputs with credit, input with something to write.
    pub(crate) fn waits<'a>(
        &'a self,
        outbox_full: bool,
        readable: &mut Vec<&'a OwnedFd>,
        writable: &mut Vec<&'a OwnedFd>,
    ) {
        if !self.keeper_gone {
            readable.push(&self.report);
        }
        if self.life == Life::Told {
            return;
        }
        if !outbox_full {
            readable
                .extend(self.outputs.iter().filter(|output| output.credit > 0).filter_map(|output| output.fd.as_ref()));
        }
        if !self.waiting_input.is_empty() {
            writable.extend(&self.input);
        }
    }

    pub(crate) fn grant(&mut self, stream: Stream, bytes: u32) {
        for output in self.outputs.iter_mut().filter(|output| output.stream == stream) {
            output.credit = output.credit.saturating_add(bytes).min(WINDOW);
        }
    }

    pub(crate) fn take_input(&mut self, bytes: &[u8]) {
        self.owed += bytes.len();
        if !self.input_ended {
            self.waiting_input.extend(bytes);
        }
    }

    pub(crate) fn end_input(&mut self) {
        if self.kind == Kind::Terminal && !self.input_ended {
            self.waiting_input.push_back(END_OF_INPUT);
        }
        self.input_ended = true;
    }

    pub(crate) fn resize(&self, size: WindowSize) {
        if let (Kind::Terminal, Some(terminal)) = (self.kind, &self.input) {
            // A terminal whose command is gone has no size to set.
            let _ = spawn::set_size(terminal, size);
        }
    }

    /// Ends the tree; `outcome` is what the host is told.
    pub(crate) fn kill(&mut self, outcome: Outcome, company: Company) {
        if !self.keeper_gone {
            let all_killed = company == Company::Alone && tree::kill_all();
            if !all_killed {
                tree::kill(self.keeper);
            }
        }
        if self.life == Life::Running {
            self.life = Life::Dying;
        }
        self.outcome.get_or_insert(outcome);
    }

    /// Does whatever can be done without waiting. `settled`: no orphan of a killed tree is left in the sandbox. `buffer` is
    /// for whoever reads something.
    pub(crate) fn serve(
        &mut self,
        outbox: &mut Outbox,
        (settled, company): (bool, Company),
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<(), Failure> {
        self.write_input(outbox);
        // First the report, then the outputs: what a command wrote before its end is there when its end is known.
        self.read_report()?;
        if self.life == Life::Told {
            return Ok(());
        }
        if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.kill(Outcome::TimedOut, company);
        }
        let drained = self.read_outputs(outbox, company, buffer);
        let gone = self.life != Life::Dying || (self.keeper_gone && settled);
        if let (Some(outcome), true, true) = (self.outcome, drained, gone) {
            outbox.in_order(&Guest::Ended { id: self.id, outcome });
            self.life = Life::Told;
            self.outputs.clear();
            self.input = None;
            self.waiting_input.clear();
        }
        Ok(())
    }

    fn write_input(&mut self, outbox: &mut Outbox) {
        let mut written = 0;
        while let (Some(input), false) = (&self.input, self.waiting_input.is_empty()) {
            let (bytes, _) = self.waiting_input.as_slices();
            match write(input, bytes) {
                Ok(count) => {
                    self.waiting_input.drain(..count);
                    written += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // Nobody reads any more: the rest is dropped, and the host is not kept waiting for it.
                    self.input = None;
                }
            }
        }
        if self.input.is_none() {
            written += self.waiting_input.len();
            self.waiting_input.clear();
        }
        if self.input_ended && self.waiting_input.is_empty() && self.kind == Kind::Pipes {
            self.input = None;
        }
        // The end of a terminal's input is a byte of ours, for which no credit is due.
        let credit = written.min(self.owed);
        self.owed -= credit;
        if credit > 0 {
            outbox.urgent(&Guest::Credit { id: self.id, bytes: u32::try_from(credit).unwrap_or(u32::MAX) });
        }
    }

    fn read_report(&mut self) -> Result<(), Failure> {
        while !self.keeper_gone {
            let mut message = [0; REPORT];
            match read(&self.report, &mut message) {
                Ok(REPORT) => {
                    let [what, number @ ..] = message;
                    let number = i32::from_ne_bytes(number);
                    match what {
                        REPORT_EXITED => self.outcome = self.outcome.or(Some(Outcome::Exited(number))),
                        REPORT_SIGNALLED => self.outcome = self.outcome.or(Some(Outcome::Signalled(number))),
                        // The command may have been told already; the first report is the one that counts.
                        REPORT_NOT_STARTED if self.outcome.is_none() => {
                            return Err(Failure::from_errno(
                                Errno::from_raw_os_error(number),
                                "cannot run the command",
                            ));
                        }
                        _ => {}
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The keeper is gone. Without a report the workload killed it: its tree is ended by the server.
                Ok(_) | Err(_) => {
                    self.keeper_gone = true;
                    self.outcome.get_or_insert(Outcome::Signalled(libc::SIGKILL));
                }
            }
        }
        Ok(())
    }

    /// Reads what is there and may be sent; true when nothing is left that must be sent before the end.
    fn read_outputs(&mut self, outbox: &mut Outbox, company: Company, buffer: &mut [MaybeUninit<u8>]) -> bool {
        let mut drained = true;
        let mut exceeded = None;
        for output in &mut self.outputs {
            while let Some(fd) = &output.fd {
                if output.credit == 0 || outbox.is_full() {
                    drained = false;
                    break;
                }
                let most = buffer.len().min(usize::try_from(output.credit).unwrap_or(MAX_CHUNK));
                match read(fd.as_fd(), &mut buffer[..most]) {
                    // A terminal without its other side answers with an error.
                    Ok(([], _)) | Err(Errno::IO) => output.fd = None,
                    Ok((bytes, _)) => {
                        let taken = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                        output.credit = output.credit.saturating_sub(taken);
                        output.seen += u64::from(taken);
                        let bytes = bytes.to_vec();
                        outbox.in_order(&Guest::Output { id: self.id, stream: output.stream, bytes });
                        if self.max_output.is_some_and(|limit| output.seen > limit) {
                            exceeded = Some(output.stream);
                            break;
                        }
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => output.fd = None,
                }
            }
        }
        if let (Some(stream), None) = (exceeded, self.outcome) {
            self.kill(Outcome::OutputLimit(stream), company);
            return true;
        }
        drained || matches!(self.outcome, Some(Outcome::OutputLimit(_)))
    }
}
