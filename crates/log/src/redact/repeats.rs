//! Texts that repeat themselves every few bytes: what was found out once is not found out again.
//!
//! Only such texts begin like a form at almost every place (`aaaa…`, for a secret of that sort).

use super::fold;

/// Longer repetitions are not noticed.
const LONGEST: usize = 8;

/// What was found at the last places.
pub(super) struct Repeats {
    /// Each with the place behind it, so that zero is none; of what was found the length, or zero.
    last: [(usize, usize); LONGEST],
    latest: usize,
    period: usize,
    /// Up to here each byte is the one a period before.
    end: usize,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self { last: [(0, 0); LONGEST], latest: 0, period: 0, end: 0 }
    }

    pub(super) fn note(&mut self, at: usize, found: usize) {
        self.last[at % LONGEST] = (at + 1, found);
        self.latest = at;
    }

    /// The period at this place, and how many bytes from here on repeat it.
    pub(super) fn run(&self, at: usize) -> Option<(usize, usize)> {
        self.end.checked_sub(at).filter(|length| *length > 0).map(|length| (self.period, length))
    }

    /// What was found a period before, if the next bytes, so many, are the same as there.
    pub(super) fn recall(&mut self, text: &[u8], at: usize, reach: usize) -> Option<usize> {
        if at > self.latest + LONGEST {
            return None;
        }
        // What is known of a repetition is not searched for again: every byte is compared once.
        if at >= self.end {
            let here: &[u8; LONGEST] = text.get(at..)?.first_chunk()?;
            let near = &text[at - LONGEST.min(at)..at + LONGEST];
            let before = near.array_windows::<LONGEST>().rev().skip(1);
            let period = before.zip(1..).find(|(before, _)| *before == here)?.1;
            self.period = period;
            self.end = at + fold::same(&text[at - period..], &text[at..]);
        }
        let (place, found) = self.last[(at - self.period) % LONGEST];
        (at + reach <= self.end && place == at - self.period + 1).then_some(found)
    }
}
