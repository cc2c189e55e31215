//! Whether a zip is exactly what [`super::archive`] writes: one byte more, fewer or other is found.
//!
//! Readers of zips forgive much: bytes before and behind, entries that the directory does not list, two of one name, other
//! headers at the entries than in the directory. Each of these shows different readers different logs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;

use super::format::{self, Entry};
use super::read::{bad, directory, number, open, widen};
use crate::place::Part;

/// Walks from the first byte to the last. Contents are unpacked and thrown away.
pub(crate) fn check(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let entries = directory(file)?;
    let by_name: HashMap<&str, u64> = entries.iter().map(|entry| (entry.name.as_str(), entry.offset)).collect();
    let by_offset: HashMap<u64, &Entry> = entries.iter().map(|entry| (entry.offset, entry)).collect();
    if by_name.len() < entries.len() || by_offset.len() < entries.len() {
        return Err(bad("the zip's directory lists an entry twice"));
    }
    let (mut at, mut found) = (0, 0);
    while let Some(entry) = local(file, at)? {
        match by_offset.get(&at) {
            Some(listed) if **listed == entry => found += 1,
            Some(_) => return Err(bad("an entry is not what the zip's directory says")),
            // A sample that was recorded again took the place of this one.
            None if by_name.get(entry.name.as_str()).is_some_and(|later| *later > at) => {}
            None => return Err(bad("the zip's directory does not list one of its entries")),
        }
        io::copy(&mut open(file, &entry)?, &mut io::sink())?;
        let next = (at + format::local_header(&entry).len() as u64).checked_add(entry.compressed);
        at = next.filter(|next| *next <= length).ok_or_else(|| bad("an entry is not inside the file"))?;
    }
    if found < entries.len() {
        return Err(bad("an entry is not where the zip's directory says"));
    }
    let mut rest = BufReader::with_capacity(1 << 16, Part::new(file.try_clone()?, at, length - at));
    let mut size = 0;
    for entry in &entries {
        let line = format::central_header(entry);
        size += line.len() as u64;
        expect(&mut rest, &line)?;
    }
    expect(&mut rest, &format::end(entries.len() as u64, at, size))?;
    if rest.read(&mut [0])? > 0 { Err(bad("something stands behind the zip")) } else { Ok(()) }
}

fn expect(rest: &mut impl io::Read, bytes: &[u8]) -> io::Result<()> {
    let mut found = vec![0; bytes.len()];
    rest.read_exact(&mut found)?;
    if found == bytes { Ok(()) } else { Err(bad("the zip's directory is not as it was written")) }
}

/// The entry whose header begins here; nothing where the entries end.
fn local(file: &File, at: u64) -> io::Result<Option<Entry>> {
    let mut head = [0; 30];
    // A zip ends with more bytes than an entry's header may lack: what cannot be read is no entry, and then no directory.
    let count = file.read_at(&mut head, at)?;
    if count < head.len() || number::<4>(&head, 0)? != u64::from(format::LOCAL) {
        return Ok(None);
    }
    let [name, extra] = [26, 28].map(|field| number::<2>(&head, field).unwrap_or_default());
    let mut text = vec![0; usize::try_from(name + extra).unwrap_or_default()];
    file.read_exact_at(&mut text, at + 30)?;
    let (name, extra) = text.split_at(usize::try_from(name).unwrap_or_default());
    let mut sizes = [number::<4>(&head, 22)?, number::<4>(&head, 18)?];
    widen(&mut sizes, extra);
    let entry = Entry {
        name: String::from_utf8(name.to_vec()).map_err(|_| bad("an entry's name is no text"))?,
        method: u16::try_from(number::<2>(&head, 8)?).unwrap_or_default(),
        crc: u32::try_from(number::<4>(&head, 14)?).unwrap_or_default(),
        compressed: sizes[1],
        size: sizes[0],
        offset: at,
    };
    if format::local_header(&entry) == [&head[..], &text].concat() {
        return Ok(Some(entry));
    }
    Err(bad("an entry's header is not as it was written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, offset: u64, text: &[u8]) -> Entry {
        let size = text.len() as u64;
        Entry { name: name.into(), method: format::STORED, crc: crc32fast::hash(text), compressed: size, size, offset }
    }

    /// A zip of entries, of which the directory lists some.
    fn zip(texts: &[(&str, &[u8])], listed: &[usize]) -> Vec<u8> {
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for (name, text) in texts {
            let entry = entry(name, bytes.len() as u64, text);
            bytes.extend(format::local_header(&entry));
            bytes.extend(*text);
            entries.push(entry);
        }
        let start = bytes.len() as u64;
        bytes.extend(listed.iter().flat_map(|index| format::central_header(&entries[*index])));
        let size = bytes.len() as u64 - start;
        bytes.extend(format::end(listed.len() as u64, start, size));
        bytes
    }

    fn checked(bytes: &[u8]) -> io::Result<()> {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        check(&file)
    }

    #[test]
    fn every_changed_added_or_missing_byte_of_a_zip_is_found() {
        let good = zip(&[("a", b"some"), ("b/c", b""), ("d", b"text")], &[0, 1, 2]);
        checked(&good).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(checked(&bad).is_err(), "byte {at}, bit {bit}");
            }
            assert!(checked(&good[..at]).is_err(), "cut at {at}");
        }
        assert!(checked(&[&good[..], b"\n"].concat()).is_err());
        assert!(checked(&[b"\n", &good[..]].concat()).is_err());
        assert!(checked(&[&good[..], &good].concat()).is_err());
    }

    #[test]
    fn entries_that_nobody_lists_are_found_unless_a_later_one_took_their_place() {
        let texts: [(&str, &[u8]); 2] = [("a", b"old"), ("a", b"new")];
        checked(&zip(&texts, &[1])).unwrap();
        assert!(checked(&zip(&texts, &[0])).is_err(), "a later one that nobody lists");
        assert!(checked(&zip(&texts, &[0, 1])).is_err(), "two of one name");
        assert!(checked(&zip(&[("a", b"x"), ("b", b"y")], &[0])).is_err());
    }
}
