//! Finds known values: at each place of a text the longest form that begins there.
//!
//! The first six bytes at a place are looked up in a small table of bits, which says no almost always. Where it says
//! perhaps, the text is compared with what all forms that begin so have in common, and then they are searched by halving.
//! So a byte costs a constant: at most the logarithm of the number of forms and the length of one, however many match.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use super::fold::{self, Folded};
use super::forms::SHORTEST;
use super::repeats::Repeats;

/// Six bytes of eight.
const WINDOW: u64 = (1 << (8 * SHORTEST)) - 1;
const NONE: u32 = u32::MAX;

/// What is known of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The longest form that begins here, if any.
    Known(Option<usize>),
    /// What comes next decides.
    Open,
}

const NOTHING: Verdict = Verdict::Known(None);

/// Forms that begin with the same six bytes.
#[derive(Clone, Copy)]
struct Group {
    window: u64,
    from: u32,
    to: u32,
    /// How many bytes all of them have in common.
    common: usize,
    /// Bits of the bytes behind those; all bits if a form ends there.
    next: u64,
    /// What they have in common repeats itself after so many bytes; not at all if zero.
    period: usize,
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
    /// Places of groups, by a product of their windows.
    slots: Vec<u32>,
    slot_shift: u32,
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
            slots: Vec::new(),
            slot_shift: 0,
            bits: Vec::new(),
            bit_shift: 0,
            factor: RandomState::new().hash_one(0) | 1,
        };
        let mut groups: Vec<Group> = Vec::new();
        for (index, form) in (0..count).zip(forms) {
            let form = form.as_bytes();
            values.bytes.extend(form);
            values.ends.push(values.bytes.len());
            // Sorted: whatever this one begins with is the one before, or what that one begins with.
            let mut parent = index.checked_sub(1).unwrap_or(NONE);
            while parent != NONE && !form.starts_with(values.form(parent)) {
                parent = values.parents[parent as usize];
            }
            values.parents.push(parent);
            let window = window(form);
            match groups.last_mut() {
                Some(group) if group.window == window => {
                    group.to = index + 1;
                    group.common = group.common.min(fold::same(values.form(group.from), form));
                }
                _ => groups.push(Group { window, from: index, to: index + 1, common: form.len(), next: 0, period: 0 }),
            }
        }
        values.index(groups);
        Some(values)
    }

    fn index(&mut self, mut groups: Vec<Group>) {
        let slots = (groups.len() * 2).next_power_of_two().max(2);
        self.slot_shift = 64 - slots.trailing_zeros();
        self.slots = vec![NONE; slots];
        let bits = (groups.len() * 32).next_power_of_two().clamp(1 << 15, 1 << 23);
        self.bit_shift = 64 - bits.trailing_zeros();
        self.bits = vec![0; bits / 64];
        for (number, group) in (0..).zip(&mut groups) {
            group.next = (group.from..group.to).fold(0, |next, index| {
                next | self.form(index).get(group.common).map_or(u64::MAX, |byte| 1 << (byte % 64))
            });
            let common = &self.form(group.from)[..group.common];
            let repeats = |period: &usize| fold::same(common, &common[*period..]) == common.len() - period;
            group.period = (1..=SHORTEST).find(repeats).unwrap_or_default();
            let bit = group.window.wrapping_mul(self.factor) >> self.bit_shift;
            self.bits[(bit / 64) as usize] |= 1 << (bit % 64);
            let mut slot = self.slot(group.window);
            while self.slots[slot] != NONE {
                slot = (slot + 1) % slots;
            }
            self.slots[slot] = number;
        }
        self.groups = groups;
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
        let mut repeats = Repeats::new();
        // A verdict depends on no more than this.
        let reach = self.longest + 2 * SHORTEST;
        let near = &text[..text.len().min(to + reach)];
        while at < to {
            at += self.skip(&text[at..text.len().min(to + 7)]);
            if at >= to {
                break;
            }
            let length = match repeats.recall(near, at, reach) {
                Some(length) => length,
                None => match self.judge(&text[at..], repeats.run(at), last) {
                    Verdict::Known(length) => length.unwrap_or_default(),
                    Verdict::Open => return at,
                },
            };
            repeats.note(at, length);
            if length > 0 {
                found.push((at, at + length));
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

    fn judge(&self, rest: &[u8], run: Option<(usize, usize)>, last: bool) -> Verdict {
        if rest.len() < SHORTEST {
            let forms = 0..u32::try_from(self.ends.len()).unwrap_or(NONE);
            return if last { NOTHING } else { self.search(forms, 0, rest, last).0 };
        }
        let Some(group) = self.group(window(rest)) else { return NOTHING };
        // How far both repeat themselves is how much they have in common: no need to compare.
        if let Some((period, length)) = run
            && period == group.period
            && length < group.common
            && rest.get(length).is_some_and(|byte| !fold::may_begin(*byte))
        {
            return NOTHING;
        }
        // Almost always one look at what the group has in common is enough.
        let common = &self.form(group.from)[..group.common];
        let same = fold::same(common, rest);
        if same < common.len() {
            return match rest.get(same) {
                None if last => NOTHING,
                None => Verdict::Open,
                Some(byte) if fold::may_begin(*byte) && fold::begins_so(common, rest) => self.folded(group, rest, last),
                Some(_) => NOTHING,
            };
        }
        match rest.get(same) {
            Some(byte) if group.next >> (byte % 64) & 1 == 0 && !fold::may_begin(*byte) => return NOTHING,
            _ => {}
        }
        let (verdict, same) = self.search(group.from..group.to, same, rest, last);
        match rest.get(same) {
            Some(byte) if verdict == NOTHING && fold::may_begin(*byte) => self.folded(group, rest, last),
            _ => verdict,
        }
    }

    /// The longest of these forms that a text begins with, and how much of it the nearest ones have. All of them have its
    /// first bytes, so many.
    fn search(&self, forms: Range<u32>, known: usize, rest: &[u8], last: bool) -> (Verdict, usize) {
        let rest = &rest[..rest.len().min(self.longest)];
        // The first form that comes after the text, in the order of bytes.
        let (mut low, mut high) = (forms.start, forms.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.form(middle)[known..] <= rest[known..] { low = middle + 1 } else { high = middle }
        }
        let mut most = 0;
        if low < forms.end {
            most = known + fold::same(&self.form(low)[known..], &rest[known..]);
            if most == rest.len() && !last {
                return (Verdict::Open, most);
            }
        }
        if low == forms.start {
            return (NOTHING, most);
        }
        // Whatever the text begins with, the form before that place begins with too.
        let mut index = low - 1;
        let same = known + fold::same(&self.form(index)[known..], &rest[known..]);
        while index != NONE && self.form(index).len() > same {
            index = self.parents[index as usize];
        }
        (Verdict::Known((index != NONE).then(|| self.form(index).len())), most.max(same))
    }

    /// The same, as if lines did not end.
    fn folded(&self, group: Group, rest: &[u8], last: bool) -> Verdict {
        let folded = Folded::new(rest, self.longest, last);
        match self.search(group.from..group.to, SHORTEST, folded.text(), last || !folded.is_open()).0 {
            Verdict::Known(Some(length)) => Verdict::Known(Some(folded.before(length))),
            verdict => verdict,
        }
    }

    /// Where a group's number is, or one of the next places.
    fn slot(&self, window: u64) -> usize {
        usize::try_from(window.wrapping_mul(self.factor) >> self.slot_shift).unwrap_or_default()
    }

    fn group(&self, window: u64) -> Option<Group> {
        let mut slot = self.slot(window);
        // Half of the slots are free.
        loop {
            match self.slots[slot] {
                NONE => return None,
                number if self.groups[number as usize].window == window => return Some(self.groups[number as usize]),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }
}

fn window(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight) & WINDOW,
        None => bytes.iter().take(SHORTEST).rev().fold(0, |window, byte| window << 8 | u64::from(*byte)),
    }
}
