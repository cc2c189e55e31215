//! A shell in a terminal of the sandbox: started, typed into, listened to, ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox::{Event, Exec, Input, Outcome, Running, Sandbox, SessionError, User, WindowSize};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::screen::{MARK, Screen, Shown};
use crate::Surroundings;

/// Output that pauses for this long has come to an end, for now.
const IDLE: Duration = Duration::from_millis(500);
/// How long a shell may take to end before the sandbox is taken for dead.
const PATIENCE: Duration = Duration::from_secs(5);
/// With so much unread, nothing more is taken: whatever prints waits, as at a terminal that is stopped.
const MOST_UNREAD: u64 = 64 << 20;
const SIZE: WindowSize = WindowSize { rows: 50, columns: 160 };
/// What is set where the task does not say otherwise: nothing that draws, and no pager that waits for a key.
const SETTINGS: [(&str, &str); 3] = [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat")];

/// How a shell ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Ended(Outcome),
    Gone(SessionError),
}

/// Why a call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// The shell waits for input, its output has paused, or it is over.
    Quiet,
    /// The time is up.
    TimeUp,
}

/// From where on output is an answer, and whether a prompt is owed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    heard: u64,
    pub(super) owed: bool,
}

#[derive(Default)]
struct View {
    screen: Screen,
    /// Bytes heard, ever; and since the last time that the text was taken.
    heard: u64,
    unread: u64,
    /// Lines that were typed and for which no prompt was seen.
    owed: u64,
    end: Option<End>,
}

#[derive(Default)]
struct Terminal {
    view: Mutex<View>,
    news: Notify,
    room: Notify,
}

impl Terminal {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A shell; dropping it ends it with everything that it started.
pub(super) struct Live {
    input: Input,
    terminal: Arc<Terminal>,
    end: DropGuard,
}

impl Live {
    /// Starts one and waits until it takes input; a shell that takes long is usable all the same.
    pub(super) async fn start(
        sandbox: &Sandbox,
        surroundings: &Surroundings,
        timeout: Duration,
    ) -> Result<Self, SessionError> {
        let mut env = surroundings.environment.clone();
        for (name, value) in SETTINGS {
            if !env.iter().any(|(known, _)| known == name) {
                env.push((name.into(), value.into()));
            }
        }
        let running = sandbox.start(Exec {
            argv: ["bash", "--login", "-i"].map(str::to_owned).to_vec(),
            env,
            cwd: surroundings.directory.clone(),
            user: surroundings.user.clone().map_or(User::Default, User::Named),
            pty: Some(SIZE),
            timeout_ms: None,
            max_output: None,
        })?;
        let (terminal, stop) = (Arc::<Terminal>::default(), CancellationToken::new());
        let input = running.input();
        // Ends with the shell, which ends when `end` is dropped.
        tokio::spawn(listen(running, Arc::clone(&terminal), stop.clone()));
        let live = Self { input, terminal, end: stop.drop_guard() };
        // Typed, not in its environment: the profile of a login shell has its own idea of a prompt. No echo: whoever types
        // knows what. No completion: a tab in a text is a tab. No history: `!` is an exclamation mark.
        let settings = format!(
            " stty -echo 2>/dev/null; set +o history +H; bind 'set disable-completion on' 2>/dev/null; \
             unset PROMPT_COMMAND; PS0=; PS2='> '; PS1='\\w\\$ \\[\\e]{MARK}\\a\\]'"
        );
        tokio::time::timeout(timeout, live.prepare(&settings)).await.unwrap_or(Ok(()))?;
        Ok(live)
    }

    async fn prepare(&self, settings: &str) -> Result<(), SessionError> {
        // Refused: the reason comes as the shell's end.
        let _ = self.submit(settings).await;
        while self.ended().is_none() && self.terminal.view().owed > 0 {
            self.terminal.news.notified().await;
        }
        match self.ended() {
            Some(End::Gone(error)) => return Err(error),
            Some(End::Ended(_)) => {}
            // Greetings and the echo of our own settings are nobody's output.
            None => drop(self.take()),
        }
        Ok(())
    }

    /// From where on output counts as an answer: everything that is not read yet, or what comes from now on.
    pub(super) fn since(&self, unread: bool) -> Since {
        let view = self.terminal.view();
        Since { heard: view.heard - if unread { view.unread } else { 0 }, owed: view.owed > 0 }
    }

    /// Types a text; an error means that nobody reads any more.
    pub(super) async fn type_in(&self, text: &str) -> Result<(), SessionError> {
        let lines = text.matches(['\n', '\r']).count();
        self.terminal.view().owed += u64::try_from(lines).unwrap_or(u64::MAX);
        self.input.write(text.as_bytes()).await
    }

    /// Types a text and Enter.
    pub(super) async fn submit(&self, text: &str) -> Result<(), SessionError> {
        self.type_in(&format!("{text}\r")).await
    }

    /// Ctrl-C. What was typed ahead is forgotten by the terminal.
    pub(super) async fn interrupt(&self) -> Result<(), SessionError> {
        self.terminal.view().owed = 1;
        self.input.write(b"\x03").await
    }

    /// Waits for output and its pause, or for the prompt that is owed; at most `timeout`, and for the first of it at most
    /// `first`.
    pub(super) async fn settle(&self, since: Since, first: Duration, timeout: Duration) -> Settled {
        let start = Instant::now();
        let (deadline, mut until) = (start + timeout, start + first.min(timeout));
        let mut heard = since.heard;
        loop {
            {
                let mut view = self.terminal.view();
                let prompted = view.screen.at_mark() && view.heard > since.heard;
                if view.end.is_some() || (since.owed && view.owed == 0 && prompted) {
                    return Settled::Quiet;
                }
                if view.heard > heard {
                    heard = view.heard;
                    until = deadline.min(Instant::now() + IDLE);
                }
                if Instant::now() >= until {
                    // A prompt, then a pause: whatever else was typed was no line for the shell.
                    if prompted {
                        view.owed = 0;
                    }
                    return if until < deadline { Settled::Quiet } else { Settled::TimeUp };
                }
            }
            let _ = tokio::time::timeout_at(until, self.terminal.news.notified()).await;
        }
    }

    /// What was printed since the last time.
    pub(super) fn take(&self) -> Shown {
        let mut view = self.terminal.view();
        view.unread = 0;
        self.terminal.room.notify_one();
        view.screen.take()
    }

    pub(super) fn ended(&self) -> Option<End> {
        self.terminal.view().end.clone()
    }

    /// Ends it with everything that it started, and waits for that.
    pub(super) async fn stop(self) -> Result<(), SessionError> {
        let Self { terminal, end, .. } = self;
        drop(end);
        let gone = async {
            while terminal.view().end.is_none() {
                terminal.news.notified().await;
            }
        };
        match tokio::time::timeout(PATIENCE, gone).await {
            Ok(()) => Ok(()),
            Err(_) => Err(SessionError::Unresponsive("its guest did not end a shell".into())),
        }
    }
}

/// Hears what a shell prints, until its end.
async fn listen(mut running: Running, terminal: Arc<Terminal>, stop: CancellationToken) {
    let (mut stopped, mut full) = (false, false);
    loop {
        let event = tokio::select! {
            () = stop.cancelled(), if !stopped => {
                stopped = true;
                running.kill();
                continue;
            }
            () = terminal.room.notified(), if full && !stopped => {
                full = false;
                continue;
            }
            event = running.next(), if !full || stopped => event,
        };
        let mut view = terminal.view();
        match event {
            Event::Output(_, bytes) if !stopped => {
                let before = view.screen.marks();
                view.screen.push(&bytes);
                view.owed = view.owed.saturating_sub(view.screen.marks() - before);
                let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                view.heard += count;
                view.unread += count;
                full = view.unread > MOST_UNREAD;
            }
            Event::Output(..) => {}
            Event::Ended(outcome) => view.end = Some(End::Ended(outcome)),
            Event::Gone(error) => view.end = Some(End::Gone(error)),
            Event::Done(_)
            | Event::Stat(_)
            | Event::Entries(..)
            | Event::Pong
            | Event::Connected
            | Event::OutputEnd
            | Event::DialFailed(..)
            | Event::Accepted(_)
            | Event::Asked(_) => {
                let why = "its guest answered a shell with something else".into();
                view.end = Some(End::Gone(SessionError::Died(why)));
            }
        }
        let over = view.end.is_some();
        drop(view);
        terminal.news.notify_one();
        if over {
            return;
        }
    }
}
