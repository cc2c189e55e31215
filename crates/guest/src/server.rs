//! The loop: one poll over the host's stream and everything that commands and transfers wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::process::{WaitOptions, wait};
use wire::{
    Attempt, Decoder, DialFailure, Exec, Guest, Host, MAX_CHUNK, Outcome, PROTOCOL_VERSION, User, Within, WriteMode,
};

use crate::commands::{Command, Company};
use crate::failure::Failure;
use crate::files::{self, Reading, Writing};
use crate::links::{Broken, Link};
use crate::outbox::Outbox;
use crate::pause::Pause;
use crate::relay::Relay;
use crate::spawn::{self, Spare};
use crate::{pause, tree, within};

/// How soon a tree that was killed is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Connections of the host's at the same time.
const MAX_LINKS: usize = 1024;

/// When nothing was to be done for so long, a keeper may be made for the next command. Whoever has a command's end often
/// ends the sandbox next, and should not have to wait for one more process to end.
const IDLE: Duration = Duration::from_millis(3);

/// Why the guest stops.
pub(crate) enum Stop {
    /// The host's stream ended or cannot be understood.
    Stream,
    /// The kernel refused something that cannot be done without.
    Kernel,
}

pub(crate) struct Server {
    control: OwnedFd,
    /// Where the host listens, if that is another descriptor.
    writes: Option<OwnedFd>,
    decoder: Decoder,
    /// For whoever reads something. Not filled with anything: only the pages that are read into become the guest's own.
    buffer: Box<[MaybeUninit<u8>]>,
    outbox: Outbox,
    commands: BTreeMap<u32, Command>,
    readings: BTreeMap<u32, Reading>,
    writings: BTreeMap<u32, Writing>,
    links: BTreeMap<u32, Link>,
    relay: Option<Relay>,
    /// What the last poll had something to say about.
    ready: BTreeSet<RawFd>,
    /// Whether a command was ever begun: then it is too late to be the network.
    ran: bool,
    orphans: bool,
    /// Every keeper that was not reaped yet.
    keepers: BTreeSet<i32>,
    spare: Option<Spare>,
    /// Whether a spare is to be made: tried once for each command, so that one that is refused or killed is not tried
    /// again and again.
    wants_spare: bool,
    /// Every process stands still: none may be added.
    paused: Option<Pause>,
}

impl Server {
    pub(crate) fn new(control: OwnedFd, writes: Option<OwnedFd>) -> Self {
        Self {
            control,
            writes,
            decoder: Decoder::new(),
            buffer: Box::new_uninit_slice(MAX_CHUNK),
            outbox: Outbox::default(),
            commands: BTreeMap::new(),
            readings: BTreeMap::new(),
            writings: BTreeMap::new(),
            links: BTreeMap::new(),
            relay: None,
            ready: BTreeSet::new(),
            ran: false,
            orphans: false,
            keepers: BTreeSet::new(),
            spare: None,
            wants_spare: true,
            paused: None,
        }
    }

    /// Serves until the host says so or is gone. As pid 1, our end is the end of everything in the sandbox.
    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        for stream in [Some(&self.control), self.writes.as_ref()].into_iter().flatten() {
            fcntl_setfl(stream, OFlags::NONBLOCK).map_err(|_| Stop::Kernel)?;
        }
        self.outbox.urgent(&Guest::Hello { version: PROTOCOL_VERSION });
        self.outbox.flush(self.writes.as_ref().unwrap_or(&self.control)).map_err(|_| Stop::Stream)?;
        // While the host learns that we are here.
        self.make_spare();
        loop {
            self.outbox.flush(self.writes.as_ref().unwrap_or(&self.control)).map_err(|_| Stop::Stream)?;
            self.wait()?;
            if self.receive()? {
                return Ok(());
            }
            self.serve()?;
        }
    }

    /// Ends every command's tree. As pid 1 our own end does that; elsewhere it is this.
    pub(crate) fn end_all(&mut self) {
        if rustix::process::getpid().is_init() {
            return;
        }
        for command in self.commands.values_mut() {
            command.kill(Outcome::Killed, Company::Others);
        }
        tree::kill_orphans(&BTreeSet::new());
    }

    /// Ends every process, and with it every command and connection.
    fn end_everything(&mut self, id: u32) -> Result<(), Failure> {
        pause::end_all()?;
        self.keepers.clear();
        self.spare = None;
        self.wants_spare = true;
        for command in std::mem::take(&mut self.commands).into_keys() {
            self.outbox.in_order(&Guest::Ended { id: command, outcome: Outcome::Killed });
        }
        for (link, open) in std::mem::take(&mut self.links) {
            self.outbox.in_order(&Guest::Done { id: link, bytes: open.received() });
        }
        self.outbox.in_order(&Guest::Done { id, bytes: 0 });
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Stop> {
        let full = self.outbox.is_full();
        let (mut readable, mut writable) = (vec![&self.control], Vec::new());
        if !self.outbox.is_empty() {
            writable.push(self.writes.as_ref().unwrap_or(&self.control));
        }
        for command in self.commands.values() {
            command.waits(full, &mut readable, &mut writable);
        }
        for link in self.links.values() {
            link.waits(full, &mut readable, &mut writable);
        }
        if let Some(relay) = self.relay.as_ref().filter(|_| !full) {
            relay.waits(self.links.len(), &mut readable);
        }
        let mut set: Vec<PollFd<'_>> =
            readable.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        set.extend(writable.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT)));
        let timeout = self.timeout(full);
        let timeout = timeout.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        match poll(&mut set, timeout.as_ref()) {
            Ok(0) => {
                drop(set);
                self.ready.clear();
                self.make_spare();
                Ok(())
            }
            Ok(_) | Err(Errno::INTR) => {
                let woken = set.iter().filter(|fd| !fd.revents().is_empty());
                let ready = woken.map(|fd| fd.as_fd().as_raw_fd()).collect();
                drop(set);
                self.ready = ready;
                Ok(())
            }
            Err(_) => Err(Stop::Kernel),
        }
    }

    /// Makes a spare keeper, if there is to be one.
    fn make_spare(&mut self) {
        if self.may_make_spare() && std::mem::take(&mut self.wants_spare) && self.spare.is_none() {
            // Where it cannot be made, the next command is started without, or says why not.
            self.spare = Spare::make().ok();
            self.keepers.extend(self.spare.as_ref().map(|spare| spare.keeper().as_raw_nonzero().get()));
        }
    }

    /// Not among processes that are being killed or stand still.
    fn may_make_spare(&self) -> bool {
        self.wants_spare && !self.is_killing() && self.paused.is_none()
    }

    /// How long to wait at most: not at all while a file can be sent on, until the next deadline otherwise.
    fn timeout(&self, full: bool) -> Option<Duration> {
        if !full && self.readings.values().any(Reading::can_go_on) {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let deadlines = self.commands.values().filter_map(Command::deadline);
        let deadlines = deadlines.chain(self.links.values().filter_map(Link::deadline));
        let deadlines = deadlines.chain(self.relay.as_ref().and_then(Relay::deadline));
        let deadlines = deadlines.map(|deadline| deadline.saturating_duration_since(now));
        deadlines.chain(self.is_killing().then_some(LOOK_AGAIN)).chain(self.may_make_spare().then_some(IDLE)).min()
    }

    /// Whether something that was killed may not be gone yet.
    fn is_killing(&self) -> bool {
        self.orphans || self.commands.values().any(Command::is_dying)
    }

    /// Takes what the host sent; true when it says that this is the end.
    fn receive(&mut self) -> Result<bool, Stop> {
        match read(&self.control, &mut *self.buffer) {
            Ok(([], _)) => return Err(Stop::Stream),
            Ok((bytes, _)) => self.decoder.push(bytes),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(_) => return Err(Stop::Stream),
        }
        while let Some(message) = self.decoder.take::<Host>().map_err(|_| Stop::Stream)? {
            if matches!(message, Host::Shutdown) {
                return Ok(true);
            }
            self.obey(message)?;
        }
        Ok(false)
    }

    fn obey(&mut self, message: Host) -> Result<(), Stop> {
        match message {
            Host::Hello { version } if version != PROTOCOL_VERSION => return Err(Stop::Stream),
            Host::Hello { .. } | Host::Shutdown => {}
            Host::Exec { id, exec } => self.answer(id, |server| server.exec(id, &exec)),
            Host::Attempt { id, attempt, user, timeout_ms } => {
                self.answer(id, |server| server.attempt(id, attempt, user, timeout_ms));
            }
            Host::Input { id, bytes } => {
                if let Some(command) = self.commands.get_mut(&id) {
                    command.take_input(&bytes);
                } else if let Some(link) = self.links.get_mut(&id) {
                    link.take_input(&bytes);
                } else {
                    self.answer(id, |server| server.write_on(id, &bytes));
                }
            }
            Host::InputEnd { id } => {
                if let Some(command) = self.commands.get_mut(&id) {
                    command.end_input();
                } else if let Some(link) = self.links.get_mut(&id) {
                    link.end_input();
                } else if let Some(writing) = self.writings.remove(&id) {
                    self.answer(id, |server| writing.finish(&mut server.outbox));
                }
            }
            Host::Resize { id, size } => {
                if let Some(command) = self.commands.get(&id) {
                    command.resize(size);
                }
            }
            Host::Kill { id } => self.kill(id),
            Host::Credit { id, stream, bytes } => {
                if let Some(command) = self.commands.get_mut(&id) {
                    command.grant(stream, bytes);
                } else if let Some(link) = self.links.get_mut(&id) {
                    link.grant(bytes);
                } else if let Some(reading) = self.readings.get_mut(&id) {
                    reading.grant(bytes);
                }
            }
            Host::Read { id, path, limit } => self.answer(id, |server| server.read(id, &path, limit)),
            Host::Write { id, path, mode, permissions } => {
                self.answer(id, |server| server.write(id, &path, mode, permissions));
            }
            Host::Stat { id, path } => self.answer(id, |server| {
                let stat = files::stat(&path)?;
                server.outbox.urgent(&Guest::Stat { id, stat });
                Ok(())
            }),
            Host::List { id, path } => self.answer(id, |server| files::list(id, &path, &mut server.outbox)),
            Host::Ping { id } => self.outbox.urgent(&Guest::Pong { id }),
            Host::Pause { id } => self.answer(id, |server| {
                server.paused = Some(Pause::begin()?);
                server.outbox.urgent(&Guest::Done { id, bytes: 0 });
                Ok(())
            }),
            Host::Resume { id } => self.answer(id, |server| {
                server.paused.take().map_or_else(pause::resume, Pause::end)?;
                server.outbox.urgent(&Guest::Done { id, bytes: 0 });
                Ok(())
            }),
            Host::EndAll { id } => self.answer(id, |server| server.end_everything(id)),
            Host::ReadWithin { id, within, limit } => self.answer(id, |server| server.read_within(id, &within, limit)),
            Host::WriteWithin { id, within, permissions } => {
                self.answer(id, |server| server.write_within(id, &within, permissions));
            }
            Host::LookWithin { id, within, look } => {
                self.answer(id, |server| within::look(id, &within, look, &mut server.outbox));
            }
            Host::Save { id } => self.answer(id, |_| Err(Failure::invalid("only who holds the sandbox can do that"))),
            Host::Dial { id, host, port, timeout_ms, window } => {
                let link = Link::new(id, &host, port, timeout_ms, window);
                if let Err(Broken { why, message }) = link.and_then(|link| self.dial(id, link)) {
                    self.outbox.in_order(&Guest::DialFailed { id, why, message });
                }
            }
            Host::Relay { id, tcp, udp } => self.answer(id, |server| server.relay(id, tcp, udp)),
            Host::Accept { id, window } => {
                self.answer(id, |server| server.relayed(id).and_then(|relay| relay.accept(id, window)));
            }
            Host::Query { id } => self.answer(id, |server| server.relayed(id).and_then(|relay| relay.query(id))),
            Host::Answer { id, answer } => {
                if let Some(relay) = &mut self.relay {
                    relay.answer(id, &answer);
                }
            }
        }
        Ok(())
    }

    fn kill(&mut self, id: u32) {
        let company = self.company();
        if let Some(command) = self.commands.get_mut(&id) {
            command.kill(Outcome::Killed, company);
            self.forget_spare(company);
        }
        self.readings.remove(&id);
        self.writings.remove(&id);
        if let Some(link) = self.links.remove(&id) {
            link.break_off();
            self.outbox.in_order(&Guest::Done { id, bytes: link.received() });
        }
        if let Some(relay) = &mut self.relay {
            relay.forget(id);
            if relay.id() == id {
                self.relay = None;
                self.outbox.in_order(&Guest::Done { id, bytes: 0 });
            }
        }
    }

    /// Becomes the sandbox's network, unless something may have been before us.
    fn relay(&mut self, id: u32, tcp: u16, udp: u16) -> Result<(), Failure> {
        if self.is_known(id) || self.relay.is_some() {
            return Err(Failure::invalid("this id is in use, or there is a network already"));
        }
        if self.ran {
            return Err(Failure::invalid("a command has run: it may hold what the network needs"));
        }
        self.relay = Some(Relay::open(id, tcp, udp)?);
        self.outbox.in_order(&Guest::Connected { id });
        Ok(())
    }

    fn relayed(&mut self, id: u32) -> Result<&mut Relay, Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.relay.as_mut().ok_or_else(|| Failure::invalid("there is no network to relay"))
    }

    fn dial(&mut self, id: u32, link: Link) -> Result<(), Broken> {
        let refused = |why, message: &str| Err(Broken { why, message: message.to_owned() });
        if self.is_known(id) {
            return refused(DialFailure::Invalid, "this id is in use");
        }
        if self.links.values().filter(|link| link.is_dialled()).count() >= MAX_LINKS {
            return refused(DialFailure::Exhausted, "there are too many connections");
        }
        self.links.insert(id, link);
        Ok(())
    }

    /// Does something, or says why not.
    fn answer(&mut self, id: u32, action: impl FnOnce(&mut Self) -> Result<(), Failure>) {
        if let Err(Failure { kind, message }) = action(self) {
            self.outbox.in_order(&Guest::Failed { id, kind, message });
        }
    }

    fn is_known(&self, id: u32) -> bool {
        self.commands.contains_key(&id)
            || self.readings.contains_key(&id)
            || self.writings.contains_key(&id)
            || self.links.contains_key(&id)
            || self.relay.as_ref().is_some_and(|relay| relay.is_known(id))
    }

    fn exec(&mut self, id: u32, exec: &Exec) -> Result<(), Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.wants_spare = true;
        self.ran = true;
        let started = spawn::start(exec, &mut self.spare)?;
        self.keepers.insert(started.keeper.as_raw_nonzero().get());
        self.commands.insert(id, Command::new(id, started, exec.timeout_ms, exec.max_output));
        Ok(())
    }

    fn attempt(&mut self, id: u32, attempt: Attempt, user: User, timeout_ms: u64) -> Result<(), Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.wants_spare = true;
        self.ran = true;
        let started = spawn::start_attempt(attempt, user, &mut self.spare)?;
        self.keepers.insert(started.keeper.as_raw_nonzero().get());
        self.commands.insert(id, Command::new(id, started, Some(timeout_ms), None));
        Ok(())
    }

    fn read(&mut self, id: u32, path: &str, limit: u64) -> Result<(), Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.readings.insert(id, Reading::open(id, path, limit)?);
        Ok(())
    }

    fn write(&mut self, id: u32, path: &str, mode: WriteMode, permissions: u32) -> Result<(), Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.writings.insert(id, Writing::open(id, path, mode, permissions)?);
        Ok(())
    }

    fn read_within(&mut self, id: u32, within: &Within, limit: u64) -> Result<(), Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.readings.insert(id, within::read(id, within, limit)?);
        Ok(())
    }

    fn write_within(&mut self, id: u32, within: &Within, permissions: u32) -> Result<(), Failure> {
        if self.is_known(id) {
            return Err(Failure::invalid("this id is in use"));
        }
        self.writings.insert(id, within::write(id, within, permissions)?);
        Ok(())
    }

    fn write_on(&mut self, id: u32, bytes: &[u8]) -> Result<(), Failure> {
        let Some(writing) = self.writings.get_mut(&id) else { return Ok(()) };
        let result = writing.take(bytes, &mut self.outbox);
        if result.is_err() {
            // What follows under this id is not answered again.
            self.writings.remove(&id);
        }
        result
    }

    /// Whether the only command is the only one whose processes are there.
    fn company(&self) -> Company {
        let mut commands = self.commands.values();
        let (Some(only), None) = (commands.next(), commands.next()) else { return Company::Others };
        let is_own = |keeper: i32| {
            let known = [Some(only.keeper), self.spare.as_ref().map(Spare::keeper)];
            known.into_iter().flatten().any(|known| known.as_raw_nonzero().get() == keeper)
        };
        if self.keepers.iter().all(|&keeper| is_own(keeper)) { Company::Alone } else { Company::Others }
    }

    /// The spare keeper was killed along with everything else.
    fn forget_spare(&mut self, company: Company) {
        if company == Company::Alone && self.spare.take().is_some() {
            self.wants_spare = true;
        }
    }

    fn serve(&mut self) -> Result<(), Stop> {
        self.reap();
        let (company, was_killing) = (self.company(), self.is_killing());
        let Self { outbox, commands, readings, links, relay, ready, orphans, buffer, .. } = self;
        commands.retain(|&id, command| {
            if let Err(Failure { kind, message }) = command.serve(outbox, (!*orphans, company), buffer) {
                outbox.in_order(&Guest::Failed { id, kind, message });
                return false;
            }
            !command.is_finished()
        });
        links.retain(|&id, link| {
            let last = match link.serve(ready, outbox) {
                Ok(false) => return true,
                Ok(true) => Guest::Done { id, bytes: link.received() },
                Err(Broken { why, message }) => Guest::DialFailed { id, why, message },
            };
            outbox.in_order(&last);
            false
        });
        readings.retain(|&id, reading| {
            if outbox.is_full() || !reading.can_go_on() {
                return true;
            }
            match reading.serve(outbox) {
                Ok(done) => !done,
                Err(Failure { kind, message }) => {
                    outbox.in_order(&Guest::Failed { id, kind, message });
                    false
                }
            }
        });
        let relayed = match relay {
            Some(relay) if !outbox.is_full() => relay.serve(links, outbox),
            _ => Ok(()),
        };
        if !was_killing && self.is_killing() {
            self.forget_spare(company);
        }
        relayed
    }

    /// Reaps keepers that ended, and ends orphans of keepers that were killed.
    fn reap(&mut self) {
        let mut untidy = false;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            // A keeper that ends well has nobody left to leave behind.
            let was_keeper = self.keepers.remove(&pid.as_raw_nonzero().get());
            untidy |= !was_keeper || status.exit_status() != Some(0);
        }
        if untidy || self.is_killing() {
            self.orphans = tree::kill_orphans(&self.keepers);
        }
    }
}
