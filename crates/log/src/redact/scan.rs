//! One pass over a text in parts: values and patterns are found independently, and what either finds is left out.
//!
//! Every decision depends on the text alone, never on where its parts begin: at most [`CONTEXT`] bytes before a place, and
//! as many behind it as the decision takes. So a text in parts comes out like the whole.

use super::keyed::Source;
use super::tail::{Eaten, Tail};
use super::tokens::{self, Found};
use super::triggers::{SEPARATOR, TRIGGERS};
use super::{REDACTED, Redactor, add};

/// Bytes before a place that may be looked at.
pub(super) const CONTEXT: usize = 64;
/// Bytes between two times of handing out.
const BLOCK: usize = 1 << 16;

/// What was found out about a text so far. Places are counted from the beginning of the part at hand.
pub(super) struct Scan {
    source: Source,
    /// Values that begin before this place are known.
    values: usize,
    /// The same for patterns.
    patterns: usize,
    /// A pattern that goes on at that place.
    tail: Option<Tail>,
    /// Where the last value ends.
    value_end: usize,
    /// What was found and is not yet handed out, sorted.
    found_values: Vec<(usize, usize)>,
    found_patterns: Vec<(usize, usize)>,
    /// The text before this place is handed out.
    done: usize,
    /// The mark was the last thing that was handed out.
    marked: bool,
    /// Whether anything was taken out at all.
    pub(super) changed: bool,
}

impl Scan {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            values: 0,
            patterns: 0,
            tail: None,
            value_end: 0,
            found_values: Vec::new(),
            found_patterns: Vec::new(),
            done: 0,
            marked: false,
            changed: false,
        }
    }

    /// Reads on in a text that begins as it did before. What is certain is added to `out`; if `lazy`, only as far as something
    /// was taken out.
    pub(super) fn read(&mut self, redactor: &Redactor, text: &[u8], last: bool, lazy: bool, out: &mut Vec<u8>) {
        loop {
            let to = text.len().min(self.values.min(self.patterns) + BLOCK);
            self.find_values(redactor, text, to, last);
            self.find_patterns(redactor, text, to, last);
            let certain = self.values.min(self.patterns).min(text.len());
            self.hand_out(text, certain, out);
            if to == text.len() {
                if !lazy && certain > self.done {
                    self.copy(text, certain, out);
                }
                return;
            }
        }
    }

    /// Where secrets stand in a whole text, in no order.
    pub(super) fn places(mut self, redactor: &Redactor, text: &[u8]) -> Vec<(usize, usize)> {
        loop {
            let to = text.len().min(self.values.min(self.patterns) + BLOCK);
            self.find_values(redactor, text, to, true);
            self.find_patterns(redactor, text, to, true);
            if to == text.len() {
                self.found_values.append(&mut self.found_patterns);
                return self.found_values;
            }
        }
    }

    /// What is left when nothing more comes.
    pub(super) fn finish(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if self.done < text.len() {
            self.copy(text, text.len(), out);
        }
    }

    /// The place before which nothing is needed any more.
    pub(super) fn needed(&self) -> usize {
        self.values.min(self.patterns).saturating_sub(CONTEXT).min(self.done)
    }

    /// So many bytes at the beginning are gone.
    pub(super) fn forget(&mut self, count: usize) {
        self.values -= count;
        self.patterns -= count;
        self.done -= count;
        self.value_end = self.value_end.saturating_sub(count);
        for (start, end) in self.found_values.iter_mut().chain(&mut self.found_patterns) {
            *start -= count;
            *end -= count;
        }
    }

    fn find_values(&mut self, redactor: &Redactor, text: &[u8], to: usize, last: bool) {
        let Some(values) = &redactor.values else {
            self.values = self.values.max(to);
            return;
        };
        let known = self.found_values.len();
        self.values = values.scan(text, self.values, to.max(self.values), last, &mut self.found_values);
        for (start, end) in &self.found_values[known..] {
            if *start >= self.value_end {
                add(&redactor.tally.values);
            }
            self.value_end = self.value_end.max(*end);
        }
    }

    fn find_patterns(&mut self, redactor: &Redactor, text: &[u8], to: usize, last: bool) {
        loop {
            if let Some(tail) = &mut self.tail {
                let (eaten, ended) = match tail.eat(&text[self.patterns..], last) {
                    Eaten::All(eaten) => (eaten, true),
                    Eaten::Part(eaten) => (eaten, false),
                };
                if eaten > 0 {
                    self.found_patterns.push((self.patterns, self.patterns + eaten));
                    self.patterns += eaten;
                }
                if !ended {
                    return;
                }
                self.tail = None;
            }
            if self.patterns >= to {
                return;
            }
            let Some((at, mask)) = TRIGGERS.next(text, self.patterns, to) else {
                self.patterns = to;
                return;
            };
            self.patterns = at;
            let keyed = match (mask & SEPARATOR, self.source) {
                (0, _) | (_, Source::Executed | Source::Seen) => Found::Nothing,
                (_, source) => redactor.keys.judge(text, at, last, source),
            };
            let mask = if self.source == Source::Seen { mask & !*tokens::HIDING } else { mask };
            let (found, tally) = match keyed {
                Found::Nothing => (tokens::judge(text, at, mask, last), &redactor.tally.patterns),
                keyed => (keyed, &redactor.tally.keys),
            };
            match found {
                Found::Nothing => self.patterns += 1,
                Found::Open => return,
                Found::Secret { start, sure, tail } => {
                    add(tally);
                    if sure > start {
                        self.found_patterns.push((start, sure));
                    }
                    self.patterns = sure;
                    self.tail = Some(tail);
                }
            }
        }
    }

    /// Leaves out what was found before a place.
    fn hand_out(&mut self, text: &[u8], certain: usize, out: &mut Vec<u8>) {
        let (mut values, mut patterns) = (0, 0);
        loop {
            let value = self.found_values.get(values).filter(|(start, _)| *start < certain);
            let pattern = self.found_patterns.get(patterns).filter(|(start, _)| *start < certain);
            let (start, end) = match (value, pattern) {
                (Some(value), Some(pattern)) if value.0 <= pattern.0 => (values += 1, *value).1,
                (_, Some(pattern)) => (patterns += 1, *pattern).1,
                (Some(value), None) => (values += 1, *value).1,
                (None, None) => break,
            };
            if start > self.done {
                self.copy(text, start, out);
            }
            if end > self.done {
                self.changed = true;
                if !self.marked {
                    out.extend_from_slice(REDACTED.as_bytes());
                    self.marked = true;
                }
                self.done = end;
            }
        }
        self.found_values.drain(..values);
        self.found_patterns.drain(..patterns);
    }

    fn copy(&mut self, text: &[u8], to: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&text[self.done..to]);
        self.done = to;
        self.marked = false;
    }
}
