//! Places in files, read and written without a position that others could move.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileExt as _;

/// A part of a file.
pub(crate) struct Part {
    file: File,
    offset: u64,
    left: u64,
}

impl Part {
    pub(crate) fn new(file: File, offset: u64, left: u64) -> Self {
        Self { file, offset, left }
    }
}

impl Read for Part {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut bytes[..most], self.offset)?;
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Writes from a place on.
pub(crate) struct At<'a> {
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
}

impl Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies a part of a file to a place in another.
pub(crate) fn copy(from: &File, from_offset: u64, count: u64, to: &File, to_offset: u64) -> io::Result<()> {
    let mut from = Part::new(from.try_clone()?, from_offset, count);
    let mut to = BufWriter::with_capacity(1 << 18, At { file: to, offset: to_offset });
    if io::copy(&mut from, &mut to)? != count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    to.flush()
}
