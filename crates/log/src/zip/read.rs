//! Reads a zip: its directory, and one entry as a stream. What it reads may be anybody's file, so everything is bounded.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;

use super::format::{self, Entry};
use crate::place::Part;

/// The largest directory: a million samples and their journal.
const DIRECTORY: u64 = 256 << 20;
/// A zip may end with a comment of this length.
const COMMENT: u64 = 65_535;
const END: usize = 22;

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> io::Result<u64> {
    let bytes = bytes.get(at..at + N).ok_or_else(|| bad("the zip's directory is cut off"))?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The directory; of two entries with the same name the last one counts, so ask from the end.
pub(crate) fn directory(file: &File) -> io::Result<Vec<Entry>> {
    let length = file.metadata()?.len();
    let tail_start = length.saturating_sub(COMMENT + END as u64 + 20);
    let mut tail = vec![0; usize::try_from(length - tail_start).unwrap_or_default()];
    file.read_exact_at(&mut tail, tail_start)?;
    let is_end = |at: &usize| tail[*at..].starts_with(&format::END.to_le_bytes());
    let end = (0..=tail.len().saturating_sub(END)).rev().find(is_end).ok_or_else(|| bad("not a zip"))?;
    let (mut size, mut start) = (number::<4>(&tail, end + 12)?, number::<4>(&tail, end + 16)?);
    if let Some(locator) = end.checked_sub(20)
        && tail[locator..].starts_with(&format::LOCATOR64.to_le_bytes())
    {
        let mut record = [0; 56];
        file.read_exact_at(&mut record, number::<8>(&tail, locator + 8)?)?;
        if number::<4>(&record, 0)? != u64::from(format::END64) {
            return Err(bad("the zip's end is damaged"));
        }
        (size, start) = (number::<8>(&record, 40)?, number::<8>(&record, 48)?);
    }
    if size > DIRECTORY || start.checked_add(size).is_none_or(|end| end > length) {
        return Err(bad("the zip's directory is not inside the file"));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    entries(&bytes, length)
}

fn entries(mut bytes: &[u8], length: u64) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        if number::<4>(bytes, 0)? != u64::from(format::CENTRAL) {
            return Err(bad("the zip's directory is damaged"));
        }
        let lengths = [28, 30, 32].map(|at| number::<2>(bytes, at).unwrap_or_default());
        let [name, extra, comment] = lengths.map(|length| usize::try_from(length).unwrap_or_default());
        let text = bytes.get(46..46 + name).ok_or_else(|| bad("the zip's directory is cut off"))?;
        let mut numbers = [number::<4>(bytes, 24)?, number::<4>(bytes, 20)?, number::<4>(bytes, 42)?];
        widen(&mut numbers, bytes.get(46 + name..46 + name + extra).unwrap_or_default());
        let [size, compressed, offset] = numbers;
        if offset.checked_add(compressed).is_none_or(|end| end > length) {
            return Err(bad("an entry is not inside the file"));
        }
        entries.push(Entry {
            name: String::from_utf8_lossy(text).into_owned(),
            method: u16::try_from(number::<2>(bytes, 10)?).unwrap_or_default(),
            crc: u32::try_from(number::<4>(bytes, 16)?).unwrap_or_default(),
            compressed,
            size,
            offset,
        });
        bytes = bytes.get(46 + name + extra + comment..).ok_or_else(|| bad("the zip's directory is cut off"))?;
    }
    Ok(entries)
}

/// Takes numbers that did not fit from the zip64 field.
fn widen(numbers: &mut [u64], mut extra: &[u8]) {
    while let (Ok(kind), Ok(length)) = (number::<2>(extra, 0), number::<2>(extra, 2)) {
        let end = 4 + usize::try_from(length).unwrap_or_default();
        if kind == 1 {
            let mut at = 4;
            for value in numbers.iter_mut().filter(|value| **value == u64::from(format::ELSEWHERE)) {
                if at + 8 <= end
                    && let Ok(large) = number::<8>(extra, at)
                {
                    *value = large;
                }
                at += 8;
            }
            return;
        }
        extra = extra.get(end..).unwrap_or_default();
    }
}

/// An entry's content. Ends with an error if it is not what the directory says: another length, another checksum.
pub(crate) fn open(file: &File, entry: &Entry) -> io::Result<Box<dyn Read + Send>> {
    let mut header = [0; 30];
    file.read_exact_at(&mut header, entry.offset)?;
    if number::<4>(&header, 0)? != u64::from(format::LOCAL) {
        return Err(bad("an entry is not where the zip's directory says"));
    }
    let start = entry.offset + 30 + number::<2>(&header, 26)? + number::<2>(&header, 28)?;
    let part = Part::new(file.try_clone()?, start, entry.compressed);
    let content: Box<dyn Read + Send> = match entry.method {
        format::STORED => Box::new(part),
        format::DEFLATE => Box::new(flate2::read::DeflateDecoder::new(part)),
        format::ZSTD => Box::new(zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(1 << 16, part))?),
        _ => return Err(bad("an entry is compressed in a way that is not supported")),
    };
    Ok(Box::new(Checked { content, left: entry.size, crc: crc32fast::Hasher::new(), expected: entry.crc }))
}

struct Checked {
    content: Box<dyn Read + Send>,
    left: u64,
    crc: crc32fast::Hasher,
    expected: u32,
}

impl Read for Checked {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let count = self.content.read(bytes)?;
        self.crc.update(&bytes[..count]);
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| bad("an entry is longer than it says"))?;
        if count == 0 && (self.left > 0 || self.crc.clone().finalize() != self.expected) {
            return Err(bad("an entry is damaged"));
        }
        Ok(count)
    }
}
