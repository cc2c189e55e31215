//! Bytes that arrive in chunks: the output of a process, a terminal.

use std::borrow::Borrow;

use super::Redactor;
use super::keyed::Source;
use super::scan::Scan;

/// Takes secrets out of a stream; they are found wherever it is split, and what comes out is what [`Redactor::text`] gives for
/// the whole.
///
/// What may become a secret is held back until more has come: rarely more than a few bytes, about a thousand at most. What
/// has become one is not remembered, so nothing grows with its length.
pub struct Stream<R> {
    redactor: R,
    scan: Scan,
    /// A little of what was handed out, and everything that was not.
    held: Vec<u8>,
}

impl<R: Borrow<Redactor>> Stream<R> {
    /// A stream that begins here; a reference to a redactor or a shared one will do.
    pub fn new(redactor: R) -> Self {
        Self { redactor, scan: Scan::new(Source::Text), held: Vec::new() }
    }

    /// Takes a chunk, and adds to `out` what is certain.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        self.scan.read(self.redactor.borrow(), &self.held, false, false, out);
        let count = self.scan.needed();
        self.held.drain(..count);
        self.scan.forget(count);
    }

    /// Nothing more comes: adds what was held back. The next chunk begins another stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.scan.read(self.redactor.borrow(), &self.held, true, false, out);
        self.scan.finish(&self.held, out);
        self.held.clear();
        self.scan = Scan::new(Source::Text);
    }

    /// How many bytes are held in memory.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}
