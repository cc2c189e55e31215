//! Sorts of bytes, and what may stand before a secret.

pub(super) const ALPHANUMERIC: u16 = 1;
/// Letters, digits, `_` and `-`.
pub(super) const WORD: u16 = 2;
/// What keys of AWS consist of.
pub(super) const CAPITAL: u16 = 4;
/// A value in a URL's query.
pub(super) const QUERY: u16 = 8;
/// Keys between their BEGIN and END: base 64, line ends in any encoding, a few headers.
pub(super) const ARMOUR: u16 = 16;
/// Base 64 of either alphabet, without ends of lines.
pub(super) const BASE64: u16 = 32;
/// User names and passwords in URLs.
pub(super) const USERINFO: u16 = 64;
/// What ends a header's value, in a text of its own or in a string of a program.
pub(super) const LINE_END: u16 = 128;
/// What a name may end with, a quote and a space included.
pub(super) const NAME_END: u16 = 256;

static SORTS: [u16; 256] = sorts();

const fn sorts() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte: u8 = 0;
    loop {
        let mut sort = 0;
        if byte.is_ascii_alphanumeric() {
            sort |= ALPHANUMERIC | WORD | ARMOUR | BASE64;
        }
        if byte.is_ascii_uppercase() || byte.is_ascii_digit() {
            sort |= CAPITAL;
        }
        if matches!(byte, b'_' | b'-') {
            sort |= WORD | ARMOUR | BASE64;
        }
        if matches!(byte, b'+' | b'/' | b'=') {
            sort |= ARMOUR | BASE64;
        }
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'\\' | b':' | b',' | b'.' | b'%') {
            sort |= ARMOUR;
        }
        if byte > b' ' && !matches!(byte, b'&' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | b')' | 0x7f) {
            sort |= QUERY;
        }
        if byte > b' ' && !matches!(byte, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | 0x7f) {
            sort |= USERINFO;
        }
        if matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\' | b'`' | b'<') {
            sort |= LINE_END;
        }
        if sort & WORD != 0 || matches!(byte, b'"' | b'\'' | b' ') {
            sort |= NAME_END;
        }
        table[byte as usize] = sort;
        if byte == 255 {
            return table;
        }
        byte += 1;
    }
}

pub(super) fn is(byte: u8, sort: u16) -> bool {
    SORTS[usize::from(byte)] & sort != 0
}

/// How many bytes of this sort a text begins with, at most so many.
pub(super) fn run(text: &[u8], sort: u16, most: usize) -> usize {
    let text = &text[..text.len().min(most)];
    text.iter().position(|byte| !is(*byte, sort)).unwrap_or(text.len())
}

/// How many bytes of a text belong to a character that began before it: none is cut in two.
pub(super) fn inner(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// Whether a word may begin here. Behind a letter it may not, unless that letter belongs to something else: `\n`, `%3D`, or a
/// colour of a terminal. At most twelve bytes before are looked at.
pub(super) fn begins(text: &[u8], at: usize) -> bool {
    match &text[at.saturating_sub(12)..at] {
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., byte] if !is(*byte, WORD) => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [colour @ .., b'm'] => {
            let codes = colour.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            colour[..colour.len() - codes].ends_with(b"\x1b[")
        }
        _ => false,
    }
}
