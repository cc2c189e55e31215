//! A directory tree as a byte stream, from the guest that reads it to the guest that makes it again.
//!
//! An item is `length: u32` (little endian), and a postcard record of that length; the bytes of a file follow their
//! [`Item::Data`] as they are. The stream ends with [`Item::Finish`], so a stream that was cut off is an error.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// Directories in `/` that programs are started from, load and read by default.
pub const SYSTEM_DIRECTORIES: [&str; 8] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "usr"];
/// Mount points in `/` of the kernel's own file systems.
pub const ENGINE_DIRECTORIES: [&str; 3] = ["dev", "proc", "sys"];

/// The longest name of a directory entry.
const MAX_NAME: usize = 255;
/// The deepest directory of a tree.
pub const MAX_DEPTH: usize = 512;
/// The most bytes of one [`Item::Data`].
pub const MAX_TREE_CHUNK: usize = 64 << 10;
/// The most bytes of an item's record: two paths of the kernel's longest.
const MAX_ITEM: usize = 16 << 10;

/// The part of a sandbox's file system that a tree holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Programs and settings: entries of [`SYSTEM_DIRECTORIES`] and files in `/` that changed since the guest started, and the
    /// names of all other directories in `/`.
    System,
    /// All other directories in `/`, whole. An entry that did not change since the guest started can be [`Item::Kept`].
    Data,
}

/// Owner, permissions and modification time of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of that second.
    pub nanos: u32,
}

/// An entry that did not change since the guest started. The same image has it elsewhere, which these values show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchanged {
    /// The inode number.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The modification time in seconds.
    pub seconds: i64,
    /// Nanoseconds of that second.
    pub nanos: u32,
}

/// One step of making a tree. Names are of the directory that was entered last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// Enter a directory, which is made if it is missing.
    Directory {
        /// Its name.
        name: Vec<u8>,
        /// Set when it is left.
        meta: Meta,
    },
    /// Leave a directory.
    Leave {
        /// Whether entries that were not named are removed.
        whole: bool,
    },
    /// Begin a file of this size, of zeros until data follows.
    File {
        /// Its name.
        name: Vec<u8>,
        /// Set when it ends.
        meta: Meta,
        /// Its size.
        size: u64,
    },
    /// Bytes of the file that was begun, which follow this item.
    Data {
        /// Where they begin in the file.
        offset: u64,
        /// How many follow; at most [`MAX_TREE_CHUNK`].
        length: u32,
    },
    /// End the file.
    FileEnd,
    /// A symbolic link.
    Link {
        /// Its name.
        name: Vec<u8>,
        /// Its owner and time.
        meta: Meta,
        /// Where it leads.
        target: Vec<u8>,
    },
    /// A named pipe.
    Pipe {
        /// Its name.
        name: Vec<u8>,
        /// Set at once.
        meta: Meta,
    },
    /// One more name of a file that was sent before.
    Name {
        /// Its name.
        name: Vec<u8>,
        /// The first name's path, from `/`.
        first: Vec<Vec<u8>>,
    },
    /// An entry that is as the image has it.
    Kept {
        /// Its name.
        name: Vec<u8>,
        /// What it must be.
        unchanged: Unchanged,
    },
    /// An entry that stays as it is: a mount that both have, or one of the engine's.
    Skipped {
        /// Its name.
        name: Vec<u8>,
    },
    /// Everything was sent.
    Finish,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Item {
    /// Writes one item.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let record = postcard::to_allocvec(self).map_err(|_| invalid("an item of a tree cannot be encoded"))?;
        let length = u32::try_from(record.len()).ok().filter(|_| record.len() <= MAX_ITEM);
        let length = length.ok_or_else(|| invalid("an item of a tree is too long"))?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&record)
    }

    /// Reads one item, whose bounds hold: names are names of directory entries, and data is not longer than it may be.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_ITEM {
            return Err(invalid("an item of a tree is too long"));
        }
        let mut record = vec![0; length];
        from.read_exact(&mut record)?;
        let Ok((item, [])) = postcard::take_from_bytes::<Self>(&record) else {
            return Err(invalid("an item of a tree does not decode"));
        };
        if !item.is_sound() {
            return Err(invalid("an item of a tree has a name or length that no entry has"));
        }
        Ok(item)
    }

    fn is_sound(&self) -> bool {
        match self {
            Self::Directory { name, .. }
            | Self::File { name, .. }
            | Self::Link { name, .. }
            | Self::Pipe { name, .. }
            | Self::Kept { name, .. }
            | Self::Skipped { name } => is_name(name),
            Self::Name { name, first } => {
                is_name(name) && first.len() <= MAX_DEPTH + 1 && first.iter().all(|name| is_name(name))
            }
            Self::Data { length, .. } => usize::try_from(*length).is_ok_and(|length| length <= MAX_TREE_CHUNK),
            Self::Leave { .. } | Self::FileEnd | Self::Finish => true,
        }
    }
}

/// Whether bytes are a name of a directory entry, and nothing that leads elsewhere.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: Meta = Meta { mode: 0o755, uid: 1, gid: 2, seconds: -1, nanos: 999_999_999 };

    fn read(item: &Item) -> io::Result<Item> {
        let mut bytes = Vec::new();
        item.write(&mut bytes)?;
        Item::read(&mut bytes.as_slice())
    }

    #[test]
    fn items_are_read_as_they_were_written() {
        let name = b"a\xff".to_vec();
        let unchanged = Unchanged { inode: u64::MAX, size: 1, seconds: i64::MIN, nanos: 0 };
        for item in [
            Item::Directory { name: name.clone(), meta: META },
            Item::Leave { whole: true },
            Item::File { name: name.clone(), meta: META, size: u64::MAX },
            Item::Data { offset: 7, length: 3 },
            Item::FileEnd,
            Item::Link { name: name.clone(), meta: META, target: vec![b'x'; 4096] },
            Item::Pipe { name: name.clone(), meta: META },
            Item::Name { name: name.clone(), first: vec![name.clone(), b"b".to_vec()] },
            Item::Kept { name: name.clone(), unchanged },
            Item::Skipped { name },
            Item::Finish,
        ] {
            assert_eq!(read(&item).unwrap(), item);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_and_lengths_above_the_bound_are_refused() {
        let long = vec![b'x'; MAX_NAME + 1];
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0", &long] {
            assert!(read(&Item::Skipped { name: name.to_vec() }).is_err(), "{name:?}");
            assert!(read(&Item::Name { name: b"a".to_vec(), first: vec![name.to_vec()] }).is_err(), "{name:?}");
        }
        let length = u32::try_from(MAX_TREE_CHUNK).unwrap();
        assert!(read(&Item::Data { offset: 0, length }).is_ok());
        assert!(read(&Item::Data { offset: 0, length: length + 1 }).is_err());
        let deep = vec![b"a".to_vec(); MAX_DEPTH + 2];
        assert!(read(&Item::Name { name: b"a".to_vec(), first: deep }).is_err());
        // A length that is not true: nothing is kept for it.
        assert!(Item::read(&mut u32::MAX.to_le_bytes().as_slice()).is_err());
        assert!(Item::read(&mut [3, 0, 0, 0, 1].as_slice()).is_err());
        assert!(Item::read(&mut [2, 0, 0, 0, 10, 10].as_slice()).is_err(), "bytes after the record");
    }
}
