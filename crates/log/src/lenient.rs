//! JSON with Python's additions, made plain JSON as it is read: `NaN` and the infinities become `null`.
//!
//! The same as [`crate::raw::lenient`], for texts that are not held in memory.

use std::io::{self, BufRead, BufReader, Read};

/// A reader of plain JSON.
pub(crate) struct Lenient<R> {
    input: BufReader<R>,
    state: State,
    /// Bytes that are still to be handed out before the input's.
    waiting: &'static [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between texts.
    Plain,
    /// Behind a minus, which is not handed out yet.
    Minus,
    /// In a text.
    Text,
    /// In a text, behind a backslash.
    Escape,
}

impl<R: Read> Lenient<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(1 << 16, input), state: State::Plain, waiting: b"" }
    }

    /// Passes over a word; says what stands for it.
    fn word(&mut self) -> io::Result<&'static [u8]> {
        let mut word = [0; 9];
        let mut length = 0;
        while let Some(byte) = self.input.fill_buf()?.first().copied().filter(u8::is_ascii_alphabetic) {
            self.input.consume(1);
            if let Some(place) = word.get_mut(length) {
                *place = byte;
                length += 1;
            }
        }
        // Any other word is left a mistake.
        Ok(if matches!(&word[..length], b"NaN" | b"Infinity") { b"null" } else { b"?" })
    }
}

impl<R: Read> Read for Lenient<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < out.len() {
            if let Some((first, rest)) = self.waiting.split_first() {
                out[count] = *first;
                count += 1;
                self.waiting = rest;
                continue;
            }
            // What is there is handed out before more is waited for.
            if count > 0 && self.input.buffer().is_empty() {
                break;
            }
            let Some(byte) = self.input.fill_buf()?.first().copied() else {
                if self.state != State::Minus {
                    break;
                }
                self.state = State::Plain;
                self.waiting = b"-";
                continue;
            };
            self.state = match (self.state, byte) {
                (State::Plain, b'N' | b'I') | (State::Minus, b'I') => {
                    self.waiting = self.word()?;
                    self.state = State::Plain;
                    continue;
                }
                (State::Minus, _) => {
                    self.state = State::Plain;
                    self.waiting = b"-";
                    continue;
                }
                (State::Plain, b'-') => {
                    self.input.consume(1);
                    self.state = State::Minus;
                    continue;
                }
                (State::Plain, b'"') | (State::Escape, _) => State::Text,
                (State::Text, b'"') | (State::Plain, _) => State::Plain,
                (State::Text, b'\\') => State::Escape,
                (State::Text, _) => State::Text,
            };
            self.input.consume(1);
            out[count] = byte;
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn read(text: &[u8], most: usize) -> Vec<u8> {
        /// Hands out a few bytes at a time.
        struct Slow<'a>(&'a [u8], usize);
        impl Read for Slow<'_> {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let most = self.1.min(out.len());
                self.0.read(&mut out[..most])
            }
        }
        let mut out = Vec::new();
        Lenient::new(Slow(text, most)).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        let text = br#"{"v": NaN, "s": "NaN -Infinity \" NaN", "l": [-Infinity, Infinity, -1, -0.5]}"#;
        for most in [1, 2, 3, 7, 1000] {
            assert_eq!(
                String::from_utf8(read(text, most)).unwrap(),
                r#"{"v": null, "s": "NaN -Infinity \" NaN", "l": [null, null, -1, -0.5]}"#
            );
        }
        for wrong in [&b"[NaNa]"[..], b"[Nul]", b"-", b"[--1]", b"[-NaN]", b"[Infinity1]"] {
            assert!(serde_json::from_slice::<Value>(&read(wrong, 3)).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }

    proptest! {
        #[test]
        fn it_is_what_the_other_one_reads(text in "[-\\[\\]{}\",:a1NI \\\\]{0,60}|[\\[\\], -]{0,4}(NaN|-Infinity|Infinity|\"a\")[\\], ]{0,4}", most in 1_usize..9) {
            let streamed = serde_json::from_slice::<Value>(&read(text.as_bytes(), most)).ok();
            let whole = serde_json::from_slice::<Value>(&crate::raw::lenient(text.as_bytes())).ok();
            prop_assert_eq!(streamed, whole);
        }
    }
}
