//! Finds the places of a text at which a token or a telling name may be, by a few bytes.

use super::bytes::{self, NAME_END};
use super::tokens::{RULES, Rest};

/// Which rules may begin with three bytes: a bit for each, and one for `:` and `=`. A fourth byte decides among
/// those that are left.
pub(super) struct Triggers([[u64; 256]; 4]);

/// The bit of `:` and `=`.
pub(super) const SEPARATOR: u64 = 1 << 63;

pub(super) static TRIGGERS: Triggers = triggers();

const fn triggers() -> Triggers {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        tables[1][byte] |= SEPARATOR;
        tables[2][byte] |= SEPARATOR;
        tables[3][byte] |= SEPARATOR;
        byte += 1;
    }
    tables[0][b':' as usize] |= SEPARATOR;
    tables[0][b'=' as usize] |= SEPARATOR;
    let mut rule = 0;
    while rule < RULES.len() {
        let prefix = RULES[rule].0.as_bytes();
        let mut place = 0;
        while place < 3 {
            tables[place][prefix[place] as usize] |= 1 << rule;
            place += 1;
        }
        let mut byte = 0;
        while byte < 256 {
            if prefix.len() == 3 || prefix[3] as usize == byte {
                tables[3][byte] |= 1 << rule;
            }
            byte += 1;
        }
        rule += 1;
    }
    Triggers(tables)
}

impl Triggers {
    /// The next place of `from..to` at which something may begin, and what.
    pub(super) fn next(&self, text: &[u8], from: usize, to: usize) -> Option<(usize, u64)> {
        let [first, second, third, fourth] = &self.0;
        let allowed = |at: usize, mask: u64| match at.checked_sub(1).map(|before| text[before]) {
            Some(before) if mask & SEPARATOR != 0 && !bytes::is(before, NAME_END) => mask & !SEPARATOR,
            Some(_) if mask & !ANYWHERE != 0 && !bytes::begins(text, at) => mask & ANYWHERE,
            _ => mask,
        };
        let whole = &text[from..text.len().min(to + 2)];
        for (at, [one, two, three]) in (from..).zip(whole.array_windows()) {
            let mask = first[usize::from(*one)] & second[usize::from(*two)] & third[usize::from(*three)];
            if mask != 0 {
                let mask = mask & text.get(at + 3).map_or(u64::MAX, |byte| fourth[usize::from(*byte)]);
                let mask = allowed(at, mask);
                if mask != 0 {
                    return Some((at, mask));
                }
            }
        }
        // The last two bytes may be the beginning of more.
        let rest = from + whole.len().saturating_sub(2);
        (rest..to).find_map(|at| {
            let mask =
                first[usize::from(text[at])] & text.get(at + 1).map_or(u64::MAX, |byte| second[usize::from(*byte)]);
            let mask = allowed(at, mask);
            (mask != 0).then_some((at, mask))
        })
    }
}

/// The rules that need not stand where a word begins.
const ANYWHERE: u64 = anywhere();

const fn anywhere() -> u64 {
    let mut mask = SEPARATOR;
    let mut rule = 0;
    while rule < RULES.len() {
        if matches!(RULES[rule].1, Rest::PrivateKey | Rest::UrlPassword) {
            mask |= 1 << rule;
        }
        rule += 1;
    }
    mask
}
