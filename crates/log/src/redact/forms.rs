//! All the ways in which a secret may be written: as it is, and as programs encode it.
//!
//! Long secrets are looked for in pieces, each on its own: what is held back of a stream stays small, and a part of a secret
//! is found too.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::fold::UNFOLDED;

/// Shorter values would be found everywhere; every form has at least as many bytes.
pub(super) const SHORTEST: usize = 6;
/// Of longer values the first so many bytes are looked for.
const LONGEST: usize = 1 << 16;
/// Bytes of a piece: 64 letters of base 64, so that few ends of lines fall into it.
const PIECE: usize = 48;
/// Pieces overlap, because base 64 shares its letters with what stands before and behind.
const OVERLAP: usize = 3;
/// Parts of a long value with fewer different bytes (a line of dashes) are no secret.
const VARIETY: usize = 8;
/// Beyond so many pieces, the end of a line in the first letters of an encoding is not looked for: it takes a hundred forms each.
const WRAPPED: usize = 500;

/// Every form of these values, sorted.
pub(super) fn all(values: &BTreeSet<String>) -> BTreeSet<String> {
    let pieces: BTreeSet<&str> = values.iter().flat_map(|value| pieces(value)).collect();
    let mut forms = BTreeSet::new();
    for piece in &pieces {
        forms.extend(texts(piece));
        forms.extend(bytes(piece.as_bytes()));
        forms.extend(base64(piece.as_bytes()));
        if pieces.len() <= WRAPPED {
            forms.extend(wrapped(piece.as_bytes()));
        }
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn pieces(value: &str) -> Vec<&str> {
    let value = &value[..floor(value, value.len().min(LONGEST))];
    let mut pieces = Vec::new();
    let mut start = 0;
    while value.len() - start > PIECE {
        let end = floor(value, start + PIECE);
        pieces.push(&value[start..end]);
        start = floor(value, end - OVERLAP);
    }
    if pieces.is_empty() {
        return vec![value];
    }
    pieces.push(&value[floor(value, value.len() - PIECE)..]);
    let varied = |piece: &&str| piece.bytes().collect::<BTreeSet<u8>>().len() >= VARIETY;
    if pieces.iter().any(varied) {
        pieces.retain(varied);
    }
    pieces
}

/// As texts have it: JSON in the manners of several languages and once more inside JSON, HTML, URLs, Python's bytes.
fn texts(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    let plain = escaped(value);
    let manners = [
        plain.clone(),
        plain.replace('/', "\\/"),
        ascii(&plain),
        ascii(&plain).replace('/', "\\/"),
        plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"),
    ];
    forms.extend(manners.iter().map(|manner| escaped(manner)));
    forms.extend(manners);
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for double in ["\"", "&quot;", "&#34;"] {
        for single in ["'", "&#39;", "&#x27;", "&apos;"] {
            forms.push(html.replace('"', double).replace('\'', single));
        }
    }
    // Everything but what no URL encodes; some programs leave more as it is, some write small letters, some `+` for a space.
    for kept in ["-_.~", "-_.~!*'()", "-_.~/", "-_.~:/?#[]@!$&'()*+,;="] {
        let percent = percent(value, kept);
        for form in [percent.replace("%20", "+"), percent] {
            forms.push(lower_escapes(&form));
            forms.push(form);
        }
    }
    let python = value.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
        out
    });
    forms.push(escaped(&python));
    forms.push(python);
    forms
}

/// As dumps have them: `6a6b`, `6a 6b`, `6a:6b`, `\x6a\x6b`, in small and in capital letters.
fn bytes(value: &[u8]) -> Vec<String> {
    let digits = |before: &str, between: &str| {
        value.iter().enumerate().fold(String::new(), |mut out, (index, byte)| {
            out.push_str(if index == 0 { "" } else { between });
            let _ = write!(out, "{before}{byte:02x}");
            out
        })
    };
    let mut forms = Vec::new();
    for (before, between) in [("", ""), ("", " "), ("", ":"), ("\\x", ""), ("\\\\x", "")] {
        let small = digits(before, between);
        forms.push(small.to_uppercase().replace('X', "x"));
        forms.push(small);
    }
    forms
}

/// Base 64 at each of its three places in a longer text.
fn base64(value: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for lead in 0..3 {
        let standard = aligned(value, lead, &STANDARD_NO_PAD);
        forms.push(standard.replace('/', "\\/"));
        let percent = standard.replace('+', "%2B").replace('/', "%2F");
        forms.push(lower_escapes(&percent));
        forms.push(percent);
        forms.push(standard);
        forms.push(aligned(value, lead, &URL_SAFE_NO_PAD));
    }
    forms
}

/// The letters that are this value's alone: the first ones are those of what stands before, the last may be that of what
/// stands behind.
fn aligned(value: &[u8], lead: usize, alphabet: &impl base64::Engine) -> String {
    let mut bytes = vec![0; lead];
    bytes.extend(value);
    let encoded = alphabet.encode(&bytes);
    let end = encoded.len() - usize::from(!bytes.len().is_multiple_of(3));
    encoded[[0, 2, 3][lead.min(2)]..end].to_owned()
}

/// Base 64 and hexadecimal digits with the end of a line near the beginning; further ends are left out of the text.
fn wrapped(value: &[u8]) -> Vec<String> {
    let mut texts: Vec<String> = (0..3).map(|lead| aligned(value, lead, &STANDARD_NO_PAD)).collect();
    texts.push(crate::hex(value));
    let mut forms = Vec::new();
    for text in texts {
        for end in ["\n", "\r\n", "\\n"] {
            forms.extend((1..UNFOLDED.min(text.len())).map(|at| format!("{}{end}{}", &text[..at], &text[at..])));
        }
    }
    forms
}

fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// What is not ASCII as `\u00e9`.
fn ascii(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        out
    })
}

pub(super) fn percent(value: &str, kept: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn lower_escapes(percent: &str) -> String {
    let mut out = String::new();
    let mut small = 0;
    for c in percent.chars() {
        out.push(if small > 0 { c.to_ascii_lowercase() } else { c });
        small = if c == '%' { 2 } else { small.max(1) - 1 };
    }
    out
}
