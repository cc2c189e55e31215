//! Sandboxes that were begun before anybody asked for them: whichever image comes, everything else is there.
//!
//! Each is used once, by one sandbox; nothing ever ran in it. Unless somebody says how many there should be, there is one
//! of the kind that was asked for twice in a row, until nobody has asked for a while.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::create::{Blank, Kind, Sandbox, begin, discard};
use super::home::Home;

/// The most that are kept, whatever is asked for.
const MOST: u32 = 64;

/// When nobody has asked for so long, somebody may be prepared. Whoever creates a sandbox often destroys one next, and
/// should not have to wait for a third.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
/// When nobody has asked for so long, nobody will soon.
const FORGOTTEN: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// What is to be kept.
struct Wanted {
    kind: Kind,
    /// Part of the names of their groups.
    name: String,
    count: u32,
}

/// Those that wait, and how many there should be.
#[derive(Default)]
pub(super) struct Prepared {
    /// Somebody said so. Even "none" is an answer.
    asked: Option<Wanted>,
    /// What was created last may be created again: once that has happened, one is kept.
    habit: Option<Wanted>,
    waiting: VecDeque<Blank>,
    made: u32,
}

impl Prepared {
    /// From now on, so many of this kind, and none of another.
    pub(super) fn want(&mut self, home: &Home, kind: Kind, name: String, count: u32) {
        self.habit = None;
        self.keep(home, |blank| blank.kind == kind);
        self.asked = Some(Wanted { kind, name, count: count.min(MOST) });
    }

    /// One of this kind was created for the sandbox `name`.
    pub(super) fn note(&mut self, kind: &Kind, name: &str) {
        if self.asked.is_some() {
            return;
        }
        match &mut self.habit {
            Some(habit) if habit.kind == *kind => habit.count = 1,
            habit => *habit = Some(Wanted { kind: kind.clone(), name: format!("{name}-next"), count: 0 }),
        }
    }

    fn wanted(&self) -> Option<&Wanted> {
        self.asked.as_ref().or(self.habit.as_ref())
    }

    /// How long nobody has to ask until there is something to do.
    pub(super) fn patience(&self) -> Option<&'static Timespec> {
        if self.is_short() {
            Some(&IDLE)
        } else {
            (self.asked.is_none() && !self.waiting.is_empty()).then_some(&FORGOTTEN)
        }
    }

    /// Whether there are fewer than there should be.
    fn is_short(&self) -> bool {
        self.wanted().is_some_and(|Wanted { kind, count, .. }| {
            let waiting = self.waiting.iter().filter(|blank| blank.kind == *kind).count();
            u32::try_from(waiting).unwrap_or(u32::MAX) < *count
        })
    }

    /// Nobody has asked for as long as that: begins one more, or lets go of one that nobody wanted.
    pub(super) fn idle(&mut self, home: &mut Home) {
        if !self.is_short() {
            self.habit = None;
            self.keep(home, |_| false);
            return;
        }
        self.made = self.made.wrapping_add(1);
        let Some(Wanted { kind, name, .. }) = self.wanted() else { return };
        let (kind, name) = (kind.clone(), format!("{name}-{}", self.made));
        self.keep(home, |blank| blank.kind == kind);
        if let Ok(blank) = begin(home, &kind, &name, None) {
            self.waiting.push_back(blank);
        } else {
            // Whoever asks for a sandbox will hear why; trying again and again would help nobody.
            (self.asked, self.habit) = (None, None);
        }
    }

    fn keep(&mut self, home: &Home, kept: impl Fn(&Blank) -> bool) {
        let (kept, others) = self.waiting.drain(..).partition(kept);
        self.waiting = kept;
        for Blank { sandbox, .. } in others {
            discard(home, &sandbox);
        }
    }

    /// One of this kind that still lives.
    pub(super) fn take(&mut self, home: &Home, kind: &Kind) -> Option<Blank> {
        while let Some(at) = self.waiting.iter().position(|blank| blank.kind == *kind) {
            let blank = self.waiting.remove(at)?;
            if is_alive(&blank.sandbox) {
                return Some(blank);
            }
            discard(home, &blank.sandbox);
        }
        None
    }

    /// All of them, to be ended.
    pub(super) fn leave(&mut self) -> Vec<Sandbox> {
        (self.asked, self.habit) = (None, None);
        std::mem::take(&mut self.waiting).into_iter().map(|blank| blank.sandbox).collect()
    }
}

fn is_alive(sandbox: &Sandbox) -> bool {
    let mut ended = [PollFd::from_borrowed_fd(sandbox.pidfd.as_fd(), PollFlags::IN)];
    poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count == 0)
}
