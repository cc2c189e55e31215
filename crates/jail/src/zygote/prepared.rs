//! Sandboxes that were begun before anybody asked for them: whichever image comes, everything else is there.
//!
//! Each is used once, by one sandbox; nothing ever ran in it.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::create::{Blank, Kind, Sandbox, begin, discard};
use super::home::Home;

/// The most that are kept, whatever is asked for.
const MOST: u32 = 64;

/// Those that wait, and how many there should be.
#[derive(Default)]
pub(super) struct Prepared {
    wanted: Option<(Kind, String, u32)>,
    waiting: VecDeque<Blank>,
    made: u32,
}

impl Prepared {
    /// From now on, so many of this kind, and none of another.
    pub(super) fn want(&mut self, home: &Home, kind: Kind, name: String, count: u32) {
        let (kept, others): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(|blank| blank.kind == kind);
        self.waiting = kept;
        for blank in others {
            discard(home, &blank.sandbox);
        }
        self.wanted = Some((kind, name, count.min(MOST)));
    }

    /// Whether there are fewer than there should be.
    pub(super) fn is_short(&self) -> bool {
        self.wanted.as_ref().is_some_and(|(kind, _, count)| {
            let waiting = self.waiting.iter().filter(|blank| blank.kind == *kind).count();
            u32::try_from(waiting).unwrap_or(u32::MAX) < *count
        })
    }

    /// Begins one more.
    pub(super) fn add(&mut self, home: &mut Home) {
        let Some((kind, name, _)) = &self.wanted else { return };
        self.made = self.made.wrapping_add(1);
        match begin(home, kind, &format!("{name}-{}", self.made)) {
            Ok(blank) => self.waiting.push_back(blank),
            // Whoever asks for a sandbox will hear why; trying again and again would help nobody.
            Err(_) => self.wanted = None,
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
        self.wanted = None;
        std::mem::take(&mut self.waiting).into_iter().map(|blank| blank.sandbox).collect()
    }
}

fn is_alive(sandbox: &Sandbox) -> bool {
    let mut ended = [PollFd::from_borrowed_fd(sandbox.pidfd.as_fd(), PollFlags::IN)];
    poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count == 0)
}
