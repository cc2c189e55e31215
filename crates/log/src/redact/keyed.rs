//! Secrets by the name before them, in texts: `"api_key": "…"`, `password = '…'`, `?token=…`, `Authorization: Bearer …`.
//!
//! It starts at each `:` and `=` and looks at a few bytes to either side.

use super::bytes::{self, QUERY, WORD};
use super::tail::{Eaten, Tail};
use super::tokens::Found;

/// Longer names are none of ours.
const LONGEST: usize = 32;
/// What a file or a message is made of: not secret by itself, and named so in every log.
const BODIES: [&str; 2] = ["content", "file_text"];
/// Words that also have other meanings; a text behind one is a secret only if it is long and has no space.
const VAGUE: [(&str, usize); 3] = [("token", 16), ("secret", 8), ("cookie", 8)];
const SCHEMES: [&str; 8] = ["basic", "bearer", "token", "apikey", "bot", "negotiate", "aws4-hmac-sha256", "digest"];

/// Whether a text is one of a log, or what a model wrote as arguments and nobody could read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Text,
    Arguments,
    /// What an agent runs: nothing is taken out by the name before it, since that would hide whatever follows.
    Executed,
    /// What somebody must see before they say yes to it: only values that are known, and tokens that are letters alone.
    Seen,
}

/// The names that are looked for: small letters, `_`.
pub(super) struct Keys {
    names: Vec<String>,
    /// Bits of the lengths that there are.
    lengths: u64,
}

/// A name as it is compared.
pub(super) fn plain(key: &str) -> String {
    key.to_lowercase().replace('-', "_")
}

impl Keys {
    pub(super) fn new(keys: impl Iterator<Item = String>) -> Self {
        let names: Vec<String> = keys.map(|key| plain(&key)).collect();
        let lengths = names.iter().filter(|name| name.len() <= LONGEST).fold(0, |bits, name| bits | 1 << name.len());
        Self { names, lengths }
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.names.contains(&plain(key))
    }

    fn named(&self, key: &[u8], source: Source) -> Option<&str> {
        if key.len() > LONGEST || self.lengths >> key.len() & 1 == 0 {
            return None;
        }
        let same = |one: u8, other: u8| one.to_ascii_lowercase() == other || (one == b'-' && other == b'_');
        let name = self.names.iter().find(|name| {
            name.len() == key.len() && key.iter().zip(name.bytes()).all(|(one, other)| same(*one, other))
        })?;
        (source == Source::Arguments || !BODIES.contains(&name.as_str())).then_some(name)
    }

    /// Judges the `:` or `=` at this place.
    pub(super) fn judge(&self, text: &[u8], at: usize, last: bool, source: Source) -> Found {
        match before(text, at).and_then(|(key, sign)| Some((self.named(key, source)?, sign))) {
            Some((name, sign)) => behind(text, at, name, sign, last, source),
            None => Found::Nothing,
        }
    }
}

/// The name before a separator, and the byte before that.
fn before(text: &[u8], at: usize) -> Option<(&[u8], u8)> {
    let text = &text[at.saturating_sub(48)..at];
    let spaces = text.iter().rev().take(2).take_while(|byte| **byte == b' ').count();
    let text = &text[..text.len() - spaces];
    let (text, quote) = match text {
        [text @ .., quote @ (b'"' | b'\'')] => (text, Some(*quote)),
        _ => (text, None),
    };
    let slashes = text.iter().rev().take(7).take_while(|byte| **byte == b'\\').count();
    let text = &text[..text.len() - if quote.is_some() { slashes } else { 0 }];
    let length = text.iter().rev().take(LONGEST + 3).take_while(|byte| bytes::is(**byte, WORD)).count();
    let (rest, mut key) = text.split_at(text.len() - length);
    let sign = rest.last().copied().unwrap_or(b'\n');
    if quote.is_some_and(|quote| quote != sign) {
        return None;
    }
    // The option of a command, and the end of a line in a text inside another.
    while let [b'-', name @ ..] = key {
        key = name;
    }
    if let ([b'n' | b'r' | b't', name @ ..], b'\\') = (key, sign) {
        key = name;
    }
    (!key.is_empty()).then_some((key, sign))
}

fn behind(text: &[u8], at: usize, name: &str, sign: u8, last: bool, source: Source) -> Found {
    let start = at + 1 + text[at + 1..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = &text[start..];
    let slashes = rest.iter().take(7).take_while(|byte| **byte == b'\\').count();
    match rest.get(slashes) {
        None if last => Found::Nothing,
        None => Found::Open,
        Some(quote @ (b'"' | b'\'')) if matches!(slashes, 0 | 1 | 3 | 7) => {
            let start = start + slashes + 1;
            let tail = Tail::string(*quote, slashes, source == Source::Arguments);
            let vague = VAGUE.iter().find(|(vague, _)| *vague == name && source == Source::Text);
            string(text, start, vague.map(|(_, needed)| *needed), tail, last)
        }
        Some(_) if text[at] == b'=' && matches!(sign, b'?' | b'&') => {
            enough(text, start, bytes::run(rest, QUERY, 4), 4, Tail::Run(QUERY), last)
        }
        Some(_) if text[at] == b':' => header(text, start, name, last),
        Some(_) => Found::Nothing,
    }
}

/// A secret, if enough of it is there.
fn enough(text: &[u8], start: usize, length: usize, needed: usize, tail: Tail, last: bool) -> Found {
    if length >= needed {
        Found::Secret { start, sure: start, tail }
    } else if start + length == text.len() && !last {
        Found::Open
    } else {
        Found::Nothing
    }
}

fn string(text: &[u8], start: usize, visible: Option<usize>, mut tail: Tail, last: bool) -> Found {
    let rest = &text[start..];
    if let Some(count) = visible {
        let is_visible = |byte: &&u8| **byte > b' ' && !matches!(**byte, b'"' | b'\'' | b'\\');
        let length = rest.iter().take(count).take_while(is_visible).count();
        return enough(text, start, length, count, tail, last);
    }
    let secret = Found::Secret { start, sure: start, tail };
    let first = &rest[..rest.len().min(8)];
    // A string that is empty, or that goes on behind the backslashes that may close it.
    match tail.eat(first, last || first.len() < rest.len()) {
        Eaten::All(0) => Found::Nothing,
        Eaten::Part(0) => Found::Open,
        Eaten::All(_) | Eaten::Part(_) => secret,
    }
}

/// The value of a header that stands as such.
fn header(text: &[u8], start: usize, name: &str, last: bool) -> Found {
    let rest = &text[start..];
    match name {
        "authorization" | "proxy_authorization" => {
            let scheme = bytes::run(rest, WORD, 20);
            let known = SCHEMES.iter().any(|known| rest[..scheme].eq_ignore_ascii_case(known.as_bytes()));
            match rest.get(scheme) {
                Some(b' ') if known => {
                    let visible = rest[scheme + 1..].iter().take(6).take_while(|byte| byte.is_ascii_graphic()).count();
                    enough(text, start + scheme + 1, visible, 6, Tail::line(), last)
                }
                None if !last => Found::Open,
                _ => bare(text, start, last),
            }
        }
        "cookie" | "set_cookie" => {
            let word = bytes::run(rest, WORD, 64);
            match rest.get(word) {
                Some(b'=') if word > 0 => Found::Secret { start, sure: start, tail: Tail::line() },
                None if !last => Found::Open,
                _ => Found::Nothing,
            }
        }
        "api_key" | "x_api_key" => bare(text, start, last),
        _ => Found::Nothing,
    }
}

/// Sixteen letters without a space, a digit among them.
fn bare(text: &[u8], start: usize, last: bool) -> Found {
    let rest = &text[start..];
    let length = rest
        .iter()
        .take(16)
        .take_while(|byte| bytes::is(**byte, WORD) || matches!(byte, b'.' | b'+' | b'/' | b'='))
        .count();
    if length == 16 && !rest[..16].iter().any(u8::is_ascii_digit) {
        return Found::Nothing;
    }
    enough(text, start, length, 16, Tail::line(), last)
}
