//! A stream that is hashed while it is read or written.

use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

/// Hashes every byte that passes through it.
pub(crate) struct Hashed<'a, T> {
    pub(crate) inner: T,
    pub(crate) hash: &'a mut Sha256,
}

impl<W: Write> Write for Hashed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }
}
