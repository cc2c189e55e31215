//! Limits on what is held of a log while it is read: bytes of text, and memory of the values made of it.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use bounded::{Budget, allowance};

/// Limits for a log file of a given length: together they stay within the file's [`allowance`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of the text of one document, summary or sample, as far as it is held.
    pub(super) text: u64,
    /// Bytes of memory of the values made of it.
    pub(super) values: u64,
}

impl Bounds {
    pub(super) fn of(length: u64) -> Self {
        let all = allowance(length);
        Self { text: all / 4, values: all / 2 }
    }

    pub(super) fn budget(self) -> Budget {
        Budget::new(self.values)
    }
}

/// Bytes of text that may still be held, and whether the text being read now is held.
pub(super) struct Meter {
    most: u64,
    left: Cell<u64>,
    held: Cell<bool>,
}

impl Meter {
    pub(super) fn new(bounds: Bounds) -> Rc<Self> {
        Rc::new(Self { most: bounds.text, left: Cell::new(bounds.text), held: Cell::new(true) })
    }

    /// The text read from here on is held, or passed over.
    pub(super) fn hold(&self, held: bool) {
        self.held.set(held);
    }

    /// What was held before is gone.
    pub(super) fn reset(&self) {
        self.left.set(self.most);
    }
}

/// A text that is read no further than its meter says.
pub(super) struct Metered<R> {
    content: BufReader<R>,
    meter: Rc<Meter>,
}

impl<R: Read> Metered<R> {
    pub(super) fn new(content: R, meter: &Rc<Meter>) -> Self {
        Self { content: BufReader::with_capacity(1 << 16, content), meter: Rc::clone(meter) }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(bytes)?;
        if self.meter.held.get() {
            let left = self.meter.left.get().checked_sub(count as u64);
            let why = || format!("more than {} bytes in one piece", self.meter.most);
            self.meter.left.set(left.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, why()))?);
        }
        Ok(count)
    }
}
