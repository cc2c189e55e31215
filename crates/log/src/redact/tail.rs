//! How a secret goes on once it is certain that it is one: to its end, however long it is, without remembering it.

use super::bytes::{self, ARMOUR, LINE_END, WORD};

/// Nobody may hide the rest of a log by beginning a key, a string or a line.
const LONGEST_ARMOUR: usize = 1 << 14;
const LONGEST_LINE: usize = 1 << 13;
const LONGEST_STRING: usize = 1 << 16;
/// Of more backslashes in a row nobody keeps count.
const SLASHES: usize = 64;

/// The rest of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Bytes of one sort.
    Run(u16),
    /// Words with so many more dots between them.
    Dotted { dots: u8 },
    /// To the quote that closes, which has as many backslashes as the one that opened.
    String { quote: u8, slashes: usize, lines: bool, left: usize },
    /// To the end of a header.
    Line { left: usize },
    /// To five dashes.
    Armour { left: usize },
    /// To a place that is known.
    Known { left: usize },
}

/// Where a text stands behind its tail, as far as it is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Eaten {
    /// So many bytes, and no more.
    All(usize),
    /// So many bytes; what comes next decides.
    Part(usize),
}

impl Tail {
    pub(super) fn line() -> Self {
        Self::Line { left: LONGEST_LINE }
    }

    pub(super) fn armour() -> Self {
        Self::Armour { left: LONGEST_ARMOUR }
    }

    /// In arguments that are not JSON, a string may have many lines and is as long as it is.
    pub(super) fn string(quote: u8, slashes: usize, lines: bool) -> Self {
        Self::String { quote, slashes, lines, left: if lines { usize::MAX } else { LONGEST_STRING } }
    }

    /// Eats of a text, of which more may come unless this is its last part.
    pub(super) fn eat(&mut self, text: &[u8], last: bool) -> Eaten {
        let open = |eaten: usize| if last { Eaten::All(eaten) } else { Eaten::Part(eaten) };
        let ended = |eaten: usize| if eaten == text.len() { open(eaten) } else { Eaten::All(eaten) };
        match self {
            Self::Run(sort) => ended(bytes::run(text, *sort, usize::MAX)),
            Self::Dotted { dots } => {
                let mut eaten = bytes::run(text, WORD, usize::MAX);
                while *dots > 0 && text.get(eaten) == Some(&b'.') {
                    *dots -= 1;
                    eaten += 1 + bytes::run(&text[eaten + 1..], WORD, usize::MAX);
                }
                ended(eaten)
            }
            Self::Line { left } => {
                let most = text.len().min(*left);
                let eaten = text[..most].iter().position(|byte| bytes::is(*byte, LINE_END)).unwrap_or(most);
                *left -= eaten;
                if eaten < most { Eaten::All(eaten) } else { ended(eaten + bytes::inner(&text[eaten..])) }
            }
            Self::Known { left } => {
                let eaten = text.len().min(*left);
                *left -= eaten;
                if *left == 0 { Eaten::All(eaten) } else { open(eaten) }
            }
            Self::Armour { left } => {
                let mut eaten = 0;
                while *left > 0 {
                    let rest = &text[eaten..];
                    match rest.first() {
                        None => return open(eaten),
                        Some(b'-') if rest.starts_with(b"-----") => return Eaten::All(eaten),
                        Some(b'-') if !last && rest.len() < 5 && b"-----".starts_with(rest) => {
                            return Eaten::Part(eaten);
                        }
                        Some(byte) if !bytes::is(*byte, ARMOUR) => return Eaten::All(eaten),
                        Some(_) => {}
                    }
                    eaten += 1;
                    *left -= 1;
                }
                Eaten::All(eaten)
            }
            Self::String { quote, slashes, lines, left } => eat_string(text, last, *quote, *slashes, *lines, left),
        }
    }
}

fn eat_string(text: &[u8], last: bool, quote: u8, slashes: usize, lines: bool, left: &mut usize) -> Eaten {
    let open = |eaten: usize| if last { Eaten::All(eaten) } else { Eaten::Part(eaten) };
    let mut eaten = 0;
    while *left > 0 {
        let rest = &text[eaten..];
        let step = match rest.first() {
            None => return open(eaten),
            Some(b'\\') => {
                let count = rest.iter().take(SLASHES).take_while(|byte| **byte == b'\\').count();
                match rest.get(count) {
                    None if last => count,
                    // The end decides whether these are the string's or its quote's.
                    None => return Eaten::Part(eaten),
                    Some(byte) if *byte == quote && count < SLASHES => {
                        // Each level of JSON doubles the backslashes and adds one: those of a quote that is not escaped once more.
                        if count >= slashes && (count - slashes).is_multiple_of(2 * (slashes + 1)) {
                            return Eaten::All(eaten + count - slashes);
                        }
                        count + 1
                    }
                    Some(_) => count,
                }
            }
            Some(byte) if *byte == quote || (*byte == b'\n' && !lines) => return Eaten::All(eaten),
            Some(_) => 1,
        };
        eaten += step;
        *left = left.saturating_sub(step);
    }
    eaten += bytes::inner(&text[eaten..]);
    if eaten == text.len() { open(eaten) } else { Eaten::All(eaten) }
}
