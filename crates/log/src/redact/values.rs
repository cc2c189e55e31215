//! Finds known values: at each place of a text the longest form that begins there.
//!
//! The first six bytes at a place are looked up in a small table of bits, which says no almost always. Where it says
//! perhaps, forms that begin so are searched by halving. So a byte costs a constant, and what it costs at most depends on
//! the logarithm of the number of forms and the length of one, never on how many of them match.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use super::forms::SHORTEST;

/// Six bytes of eight.
const WINDOW: u64 = (1 << (8 * SHORTEST)) - 1;
const NONE: u32 = u32::MAX;

/// What is known of a place.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The longest form that begins here, if any.
    Known(Option<usize>),
    /// What comes next decides.
    Open,
}

/// Forms that begin with the same six bytes.
#[derive(Clone, Copy)]
struct Group {
    window: u64,
    from: u32,
    to: u32,
}

/// All forms of all values.
pub(super) struct Values {
    bytes: Vec<u8>,
    /// Where each form ends; they are sorted.
    ends: Vec<usize>,
    /// The longest form that this one begins with.
    parents: Vec<u32>,
    longest: usize,
    groups: Vec<Group>,
    group_shift: u32,
    bits: Vec<u64>,
    bit_shift: u32,
    /// Nobody who writes a text knows it, so nobody can write one of which the table always says perhaps.
    factor: u64,
}

impl Values {
    /// Nothing to look for is none.
    pub(super) fn new(forms: &BTreeSet<String>) -> Option<Self> {
        // Four thousand million forms are not held in any memory.
        let count = u32::try_from(forms.len()).ok().filter(|count| *count > 0)?;
        let mut values = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(forms.len()),
            parents: Vec::with_capacity(forms.len()),
            longest: forms.iter().map(String::len).max().unwrap_or_default(),
            groups: Vec::new(),
            group_shift: 0,
            bits: Vec::new(),
            bit_shift: 0,
            factor: RandomState::new().hash_one(0) | 1,
        };
        let mut windows: Vec<Group> = Vec::new();
        for (index, form) in (0..count).zip(forms) {
            values.bytes.extend(form.as_bytes());
            values.ends.push(values.bytes.len());
            // Sorted: whatever this one begins with is the one before, or what that one begins with.
            let mut parent = index.checked_sub(1).unwrap_or(NONE);
            while parent != NONE && !form.as_bytes().starts_with(values.form(parent)) {
                parent = values.parents[parent as usize];
            }
            values.parents.push(parent);
            let window = window(form.as_bytes());
            match windows.last_mut() {
                Some(last) if last.window == window => last.to = index + 1,
                _ => windows.push(Group { window, from: index, to: index + 1 }),
            }
        }
        let slots = (windows.len() * 2).next_power_of_two().max(2);
        values.group_shift = 64 - slots.trailing_zeros();
        values.groups = vec![Group { window: 0, from: 0, to: 0 }; slots];
        let bits = (windows.len() * 32).next_power_of_two().clamp(1 << 15, 1 << 23);
        values.bit_shift = 64 - bits.trailing_zeros();
        values.bits = vec![0; bits / 64];
        for group in windows {
            let bit = group.window.wrapping_mul(values.factor) >> values.bit_shift;
            values.bits[(bit / 64) as usize] |= 1 << (bit % 64);
            let mut slot = values.slot(group.window);
            while values.groups[slot].to != 0 {
                slot = (slot + 1) % slots;
            }
            values.groups[slot] = group;
        }
        Some(values)
    }

    fn form(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let from = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[from..self.ends[index]]
    }

    /// Looks at the places `from..to` of a text, of which more may come unless this is its last part. What begins at each is
    /// added to `found`. Gives back the first place that is not decided.
    pub(super) fn scan(
        &self,
        text: &[u8],
        from: usize,
        to: usize,
        last: bool,
        found: &mut Vec<(usize, usize)>,
    ) -> usize {
        let mut at = from;
        while at < to {
            at += self.skip(&text[at..text.len().min(to + 7)]);
            if at >= to {
                break;
            }
            match self.judge(&text[at..], last) {
                Verdict::Known(None) => {}
                Verdict::Known(Some(length)) => found.push((at, at + length)),
                Verdict::Open => return at,
            }
            at += 1;
        }
        to.max(from)
    }

    /// How many places of this text have nothing, but for its last seven.
    fn skip(&self, text: &[u8]) -> usize {
        let perhaps = |eight: &[u8; 8]| {
            let bit = (u64::from_le_bytes(*eight) & WINDOW).wrapping_mul(self.factor) >> self.bit_shift;
            self.bits[(bit / 64) as usize] >> (bit % 64) & 1 == 1
        };
        text.array_windows::<8>().position(perhaps).unwrap_or(text.len().saturating_sub(7))
    }

    fn judge(&self, rest: &[u8], last: bool) -> Verdict {
        let rest = &rest[..rest.len().min(self.longest)];
        let (from, to) = if rest.len() >= SHORTEST {
            match self.group(window(rest)) {
                Some(group) => (group.from, group.to),
                None => return Verdict::Known(None),
            }
        } else if last {
            return Verdict::Known(None);
        } else {
            (0, u32::try_from(self.ends.len()).unwrap_or(NONE))
        };
        // The first form that comes after the rest, in the order of bytes.
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low.midpoint(high);
            if self.form(middle) <= rest { low = middle + 1 } else { high = middle }
        }
        if !last && low < to && self.form(low).starts_with(rest) {
            return Verdict::Open;
        }
        // Whatever the rest begins with, the form before that place begins with too.
        let mut index = if low > from { low - 1 } else { return Verdict::Known(None) };
        let form = self.form(index);
        if rest.starts_with(form) {
            return Verdict::Known(Some(form.len()));
        }
        let common = form.iter().zip(rest).take_while(|(one, other)| one == other).count();
        while index != NONE && self.form(index).len() > common {
            index = self.parents[index as usize];
        }
        Verdict::Known((index != NONE).then(|| self.form(index).len()))
    }

    /// Where a group is, or one of the next places.
    fn slot(&self, window: u64) -> usize {
        usize::try_from(window.wrapping_mul(self.factor) >> self.group_shift).unwrap_or_default()
    }

    fn group(&self, window: u64) -> Option<Group> {
        let mut slot = self.slot(window);
        loop {
            match self.groups[slot] {
                Group { to: 0, .. } => return None,
                group if group.window == window => return Some(group),
                _ => slot = (slot + 1) % self.groups.len(),
            }
        }
    }
}

fn window(bytes: &[u8]) -> u64 {
    bytes.iter().take(SHORTEST).rev().fold(0, |window, byte| window << 8 | u64::from(*byte))
}
