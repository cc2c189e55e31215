//! How far an image is on its way, for whoever wants to know.

use std::io::{self, Read};

/// What is done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An archive is read: which layers are in it is known at its end.
    Reading,
    /// One of so many layers comes from its registry.
    Fetching(usize, usize),
    /// One of so many layers is checked and unpacked.
    Unpacking(usize, usize),
}

/// Whoever wants to know how far an import is.
pub trait Progress {
    /// A step begins, of so many bytes; `None` where nobody can know.
    fn begin(&self, step: Step, bytes: Option<u64>);
    /// So many bytes of the step are done.
    fn done(&self, bytes: u64);
}

/// Nobody wants to know.
impl Progress for () {
    fn begin(&self, _: Step, _: Option<u64>) {}
    fn done(&self, _: u64) {}
}

/// Reads, and says how far it is.
pub(crate) struct Watched<'a, R> {
    inner: R,
    progress: &'a dyn Progress,
    done: u64,
}

impl<'a, R> Watched<'a, R> {
    pub(crate) fn new(inner: R, progress: &'a dyn Progress) -> Self {
        Self { inner, progress, done: 0 }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done = self.done.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        self.progress.done(self.done);
        Ok(count)
    }
}
