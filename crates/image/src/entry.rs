//! The entries of a tar file, with long names and attributes put together. Everything is bounded: the file is a stranger's.

use std::io::{self, Read};

use tar::EntryType;

/// The longest name or link, and the largest extended header.
const MAX_NAME: u64 = 4096;
const MAX_EXTENDED: u64 = 1 << 20;

/// What an entry makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
    /// To a name of the same layer.
    HardLink(Vec<u8>),
    Fifo,
    /// A device: never made.
    Device,
}

/// One entry, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    /// Seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    pub(crate) attributes: Vec<(String, Vec<u8>)>,
    pub(crate) size: u64,
}

/// What extended headers said about the next entry.
#[derive(Debug, Default, Clone)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    fields: Vec<(String, Vec<u8>)>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn bounded(reader: &mut impl Read, size: u64, limit: u64) -> io::Result<Vec<u8>> {
    if size > limit {
        return Err(invalid("a header of the archive is too long"));
    }
    let mut bytes = Vec::new();
    reader.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn without_end(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// Reads a whole archive; `visit` is given each entry and its content. The reader is left where the archive ends.
pub(crate) fn read_all(
    reader: impl Read,
    mut visit: impl FnMut(&Entry, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(reader);
    let mut extended = Extended::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let size = entry.size();
        match entry.header().entry_type() {
            EntryType::GNULongName => extended.name = Some(without_end(bounded(&mut entry, size, MAX_NAME)?)),
            EntryType::GNULongLink => extended.link = Some(without_end(bounded(&mut entry, size, MAX_NAME)?)),
            EntryType::XHeader => extended.fields = fields(&bounded(&mut entry, size, MAX_EXTENDED)?)?,
            // For all entries that follow; nothing that we keep is ever said there.
            EntryType::XGlobalHeader => {}
            _ => {
                let put_together = together(entry.header(), &std::mem::take(&mut extended), size)?;
                if put_together.size != size {
                    return Err(invalid("an entry has two sizes"));
                }
                visit(&put_together, &mut entry)?;
            }
        }
    }
    Ok(())
}

/// `LENGTH KEY=VALUE\n`, again and again (pax(1)).
fn fields(mut bytes: &[u8]) -> io::Result<Vec<(String, Vec<u8>)>> {
    let odd = || invalid("an extended header of the archive is malformed");
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|&byte| byte == b' ').filter(|at| *at <= 10).ok_or_else(odd)?;
        let length: usize =
            std::str::from_utf8(&bytes[..space]).ok().and_then(|text| text.parse().ok()).ok_or_else(odd)?;
        let record = bytes.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(odd)?;
        let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(odd)?;
        let key = std::str::from_utf8(&record[..equals]).map_err(|_| odd())?;
        found.push((key.to_owned(), record[equals + 1..].to_vec()));
        bytes = &bytes[length..];
    }
    Ok(found)
}

fn together(header: &tar::Header, extended: &Extended, size: u64) -> io::Result<Entry> {
    let field =
        |key: &str| extended.fields.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    let number = |key: &str| -> io::Result<Option<u64>> {
        let Some(value) = field(key) else { return Ok(None) };
        let text = std::str::from_utf8(&value).unwrap_or_default();
        text.parse().map(Some).map_err(|_| invalid("a number in the archive is none"))
    };
    let name = field("path").or_else(|| extended.name.clone()).unwrap_or_else(|| header.path_bytes().into_owned());
    let link = field("linkpath")
        .or_else(|| extended.link.clone())
        .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
        .unwrap_or_default();
    if name.len() > 4096 || link.len() > 4096 || name.contains(&0) || link.contains(&0) {
        return Err(invalid("a name in the archive is too long, or has a zero in it"));
    }
    let kind = match header.entry_type() {
        EntryType::Directory => Kind::Directory,
        EntryType::Symlink => Kind::Symlink(link),
        EntryType::Link => Kind::HardLink(link),
        EntryType::Fifo => Kind::Fifo,
        EntryType::Char | EntryType::Block => Kind::Device,
        EntryType::Regular | EntryType::Continuous => Kind::File,
        other => return Err(invalid(&format!("the archive has an entry of the unknown kind {:?}", other.as_byte()))),
    };
    let attributes = extended
        .fields
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("SCHILY.xattr.")?.to_owned(), value.clone())));
    Ok(Entry {
        name,
        kind,
        mode: header.mode()? & 0o7777,
        uid: number("uid")?.map_or_else(|| header.uid(), Ok)?,
        gid: number("gid")?.map_or_else(|| header.gid(), Ok)?,
        mtime: match field("mtime") {
            Some(text) => time(&text)?,
            None => (i64::try_from(header.mtime()?).unwrap_or(0), 0),
        },
        attributes: attributes.collect(),
        size: number("size")?.unwrap_or(size),
    })
}

/// Seconds, and a fraction of them.
fn time(text: &[u8]) -> io::Result<(i64, u32)> {
    let odd = || invalid("a time in the archive is none");
    let text = std::str::from_utf8(text).map_err(|_| odd())?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanoseconds: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Ok((seconds.parse().map_err(|_| odd())?, nanoseconds.parse().map_err(|_| odd())?))
}
