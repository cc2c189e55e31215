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
/// The largest window of a zstd frame, as a power of two: 16 MiB. Level 19 has half of it; a frame may ask for gigabytes.
const WINDOW: u32 = 24;
/// All entries together may be this large, unpacked, or a thousand times the file, whichever is more.
const UNPACKED: u64 = 16 << 30;
const RATIO: u64 = 1000;

pub(super) fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> io::Result<u64> {
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

/// Refuses directories that make a small file a large log: entries that share bytes, or too much when all is unpacked.
pub(crate) fn refuse_bombs(entries: &[Entry], length: u64) -> io::Result<()> {
    let all = entries.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.size));
    if all > UNPACKED.max(length.saturating_mul(RATIO)) {
        return Err(bad("the zip's entries are too large for it when they are unpacked"));
    }
    // At least the fixed part of its header stands before an entry's bytes.
    let end = |entry: &Entry| entry.offset.saturating_add(30).saturating_add(entry.compressed);
    let mut places: Vec<(u64, u64)> = entries.iter().map(|entry| (entry.offset, end(entry))).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(bad("entries of the zip overlap"));
    }
    Ok(())
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
pub(super) fn widen(numbers: &mut [u64], mut extra: &[u8]) {
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
        format::ZSTD => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(1 << 16, part))?;
            decoder.window_log_max(WINDOW)?;
            Box::new(decoder)
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str, offset: u64, size: u64) -> Entry {
        Entry { name: name.into(), method: format::ZSTD, crc: 7, compressed: size / 2, size, offset }
    }

    /// A sparse file that has a directory at its end.
    fn with_directory(entries: &[Entry], start: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        let lines: Vec<u8> = entries.iter().flat_map(format::central_header).collect();
        file.write_all_at(&lines, start).unwrap();
        let end = format::end(entries.len() as u64, start, lines.len() as u64);
        file.write_all_at(&end, start + lines.len() as u64).unwrap();
        file
    }

    #[test]
    fn large_numbers_come_back() {
        let large = 6 << 30;
        let entries = [
            entry("small", 0, 10),
            entry("large size", 100, 5 << 30),
            entry("all large", 5 << 30, 10 << 30),
            entry("far", u64::from(u32::MAX), 0),
            entry("just not", u64::from(u32::MAX) - 1, 0),
        ];
        let length = 11 << 30;
        assert_eq!(directory(&with_directory(&entries, length)).unwrap(), entries);
        assert_eq!(directory(&with_directory(&entries[..1], large)).unwrap(), entries[..1]);
    }

    #[test]
    fn many_entries_come_back() {
        let entries: Vec<Entry> = (0..70_000).map(|number| entry(&number.to_string(), number, 0)).collect();
        assert_eq!(directory(&with_directory(&entries, 100_000)).unwrap(), entries);
    }

    #[test]
    fn local_headers_have_both_sizes_or_none() {
        let small = format::local_header(&entry("x", 0, 10));
        let large = format::local_header(&entry("x", 0, 5 << 30));
        assert_eq!((small.len(), large.len()), (31, 51));
        assert_eq!(large[18..26], [0xff; 8]);
        assert_eq!(number::<8>(&large, 35).unwrap(), 5 << 30);
    }

    fn zip() -> Vec<u8> {
        let text = b"some text ".repeat(20);
        let mut bytes = Vec::new();
        let mut lines = Vec::new();
        for (name, method) in [("stored", format::STORED), ("zstd", format::ZSTD)] {
            let content = if method == format::ZSTD { zstd::encode_all(&text[..], 3).unwrap() } else { text.clone() };
            let entry = Entry {
                name: name.into(),
                method,
                crc: crc32fast::hash(&text),
                compressed: content.len() as u64,
                size: text.len() as u64,
                offset: bytes.len() as u64,
            };
            bytes.extend(format::local_header(&entry));
            bytes.extend(content);
            lines.extend(format::central_header(&entry));
        }
        let start = bytes.len() as u64;
        bytes.extend(&lines);
        bytes.extend(format::end(2, start, lines.len() as u64));
        bytes
    }

    fn read_all(bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let file = tempfile::tempfile()?;
        file.write_all_at(bytes, 0)?;
        directory(&file)?
            .iter()
            .map(|entry| {
                let mut text = Vec::new();
                open(&file, entry)?.take(1 << 20).read_to_end(&mut text)?;
                Ok(text)
            })
            .collect()
    }

    #[test]
    fn contents_come_back() {
        assert_eq!(read_all(&zip()).unwrap(), [b"some text ".repeat(20), b"some text ".repeat(20)]);
    }

    proptest! {
        #[test]
        fn damaged_zips_are_errors_or_the_same_texts(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = zip();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Ok(texts) = read_all(&bytes) {
                let right = b"some text ".repeat(20);
                prop_assert!(texts.iter().all(|text| *text == right));
            }
        }
    }
}
