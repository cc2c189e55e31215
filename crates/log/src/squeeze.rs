//! Compresses: into memory as long as it is little, and then into a file without a name, so that memory stays the same
//! however much comes. Most samples are little, and a file takes longer than they do.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A frame takes at most this much: Inspect's viewer has a decoder that fails on frames of 256 MiB.
const FRAME: u64 = 128 << 20;
/// zstd's own choice between speed and size.
const LEVEL: i32 = 3;

/// So many compressed bytes are little.
const LITTLE: usize = 256 << 10;

/// Where compressed bytes are.
pub(crate) enum Kept {
    Memory(Vec<u8>),
    /// From the beginning of this file.
    File(File),
}

/// Something compressed, and what a zip says about it.
pub(crate) struct Squeezed {
    /// The compressed bytes.
    pub(crate) kept: Kept,
    /// How many they are.
    pub(crate) compressed: u64,
    /// How many they were.
    pub(crate) size: u64,
    /// CRC-32 of what they were.
    pub(crate) crc: u32,
}

/// Takes bytes, one zstd frame after the other.
pub(crate) struct Squeeze {
    /// Only absent while a frame is being changed for another.
    encoder: Option<zstd::stream::write::Encoder<'static, BufWriter<Counted>>>,
    in_frame: u64,
    most: u64,
    size: u64,
    crc: crc32fast::Hasher,
}

struct Counted {
    directory: PathBuf,
    kept: Kept,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &mut self.kept {
            Kept::Memory(memory) if memory.len() + bytes.len() <= LITTLE => {
                memory.extend_from_slice(bytes);
                bytes.len()
            }
            Kept::Memory(memory) => {
                let mut file = tempfile::tempfile_in(&self.directory)?;
                file.write_all(memory)?;
                let count = file.write(bytes)?;
                self.kept = Kept::File(file);
                count
            }
            Kept::File(file) => file.write(bytes)?,
        };
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kept {
            Kept::Memory(_) => Ok(()),
            Kept::File(file) => file.flush(),
        }
    }
}

impl Squeeze {
    /// Begins. A file has no name, so a killed writer leaves nothing.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        Self::with_frames_of(FRAME, directory)
    }

    fn with_frames_of(most: u64, directory: &Path) -> io::Result<Self> {
        let kept = Kept::Memory(Vec::new());
        let out = BufWriter::new(Counted { directory: directory.to_path_buf(), kept, bytes: 0 });
        let encoder = Some(zstd::stream::write::Encoder::new(out, LEVEL)?);
        Ok(Self { encoder, in_frame: 0, most, size: 0, crc: crc32fast::Hasher::new() })
    }

    /// Compresses all of it.
    pub(crate) fn all(directory: &Path, bytes: &[u8]) -> io::Result<Squeezed> {
        let mut squeeze = Self::new(directory)?;
        squeeze.write_all(bytes)?;
        squeeze.finish()
    }

    /// Ends.
    pub(crate) fn finish(mut self) -> io::Result<Squeezed> {
        let out = self.encoder.take().ok_or(io::ErrorKind::BrokenPipe)?.finish()?;
        let counted = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Squeezed { kept: counted.kept, compressed: counted.bytes, size: self.size, crc: self.crc.finalize() })
    }
}

impl Write for Squeeze {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.in_frame >= self.most {
            let out = self.encoder.take().ok_or(io::ErrorKind::BrokenPipe)?.finish()?;
            self.encoder = Some(zstd::stream::write::Encoder::new(out, LEVEL)?);
            self.in_frame = 0;
        }
        let room = usize::try_from(self.most - self.in_frame).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        // An encoder that failed to change frames is gone: every later write says so.
        let count = self.encoder.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes)?;
        self.in_frame += count as u64;
        self.size += count as u64;
        self.crc.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn bytes(kept: Kept) -> Vec<u8> {
        match kept {
            Kept::Memory(bytes) => bytes,
            Kept::File(mut file) => {
                let mut bytes = Vec::new();
                file.rewind().unwrap();
                file.read_to_end(&mut bytes).unwrap();
                bytes
            }
        }
    }

    #[test]
    fn what_is_much_goes_into_a_file() {
        let directory = tempfile::tempdir().unwrap();
        // Numbers that do not compress: a generator's.
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let noise: Vec<u8> = noise.take(3 * LITTLE).collect();
        for (length, in_memory) in [(0, true), (LITTLE / 2, true), (3 * LITTLE, false)] {
            let squeezed = Squeeze::all(directory.path(), &noise[..length]).unwrap();
            assert_eq!(matches!(squeezed.kept, Kept::Memory(_)), in_memory, "{length}");
            let compressed = bytes(squeezed.kept);
            assert_eq!(compressed.len() as u64, squeezed.compressed);
            assert!(zstd::decode_all(compressed.as_slice()).unwrap() == noise[..length], "{length}");
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn frames_follow_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let mut squeeze = Squeeze::with_frames_of(1000, directory.path()).unwrap();
        let text: Vec<u8> = (0..4321u32).flat_map(u32::to_le_bytes).collect();
        squeeze.write_all(&text).unwrap();
        let squeezed = squeeze.finish().unwrap();
        assert_eq!((squeezed.size, squeezed.crc), (text.len() as u64, crc32fast::hash(&text)));
        let compressed = bytes(squeezed.kept);
        assert_eq!(compressed.len() as u64, squeezed.compressed);
        assert_eq!(zstd::decode_all(compressed.as_slice()).unwrap(), text);
        let frames = compressed.windows(4).filter(|bytes| *bytes == [0x28, 0xb5, 0x2f, 0xfd]).count();
        assert_eq!(frames, 18, "17284 bytes in frames of 1000");
    }
}
