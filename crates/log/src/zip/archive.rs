//! A zip that grows, and opens at every moment.
//!
//! A zip's directory is at its end, so whoever adds an entry in place first destroys the directory. Killed there, nothing
//! opens. Therefore there are two files: the one that people see is never written. The other one, hidden beside it, first
//! catches up, then gets the new entries and a new directory, and then the two change names in one step. All bytes are
//! written twice; no moment is lost. Entries lie at the same places in both, so a reader that comes in between is not misled.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::format::{self, Entry};
use crate::place::{At, copy};
use crate::squeeze::{Kept, Squeezed};

/// How long what is written may lie in memory only.
const SYNC: Duration = Duration::from_secs(1);
/// A directory is written anew for every so many entries that it has. So a log of n samples writes n, not n², lines.
const DIRECTORIES: usize = 2048;

/// Something to be kept under a name.
pub(crate) struct Piece {
    pub(crate) name: String,
    pub(crate) content: Squeezed,
}

/// The two files.
pub(crate) struct Archive {
    visible: PathBuf,
    hidden: PathBuf,
    /// What people see.
    front: File,
    /// What is written next.
    back: File,
    /// Where the entries of `front` end.
    front_end: u64,
    /// Up to where `back` has the same bytes as `front`, or newer entries.
    back_end: u64,
    /// What people see.
    entries: Directory,
    /// What is only in `back` so far.
    staged: Vec<Entry>,
    synced: Instant,
}

#[derive(Default)]
struct Directory {
    list: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

impl Directory {
    /// A second entry of the same name takes the place of the first, whose bytes nobody finds any more.
    fn add(&mut self, entry: Entry) {
        if let Some(index) = self.by_name.get(&entry.name) {
            self.list[*index] = entry;
        } else {
            self.by_name.insert(entry.name.clone(), self.list.len());
            self.list.push(entry);
        }
    }
}

impl Archive {
    /// Begins, where nobody sees it. What is added before [`Archive::appear`] appears with it, or not at all.
    pub(crate) fn begin(visible: &Path, hidden: &Path) -> io::Result<Self> {
        let front = lone(hidden)?;
        let back = front.try_clone()?;
        Ok(Self {
            visible: visible.to_path_buf(),
            hidden: hidden.to_path_buf(),
            front,
            back,
            front_end: 0,
            back_end: 0,
            entries: Directory::default(),
            staged: Vec::new(),
            synced: Instant::now(),
        })
    }

    /// Gives it its name, once: with everything that was added, and `passing` as in [`Archive::commit`].
    pub(crate) fn appear(&mut self, passing: Vec<Piece>) -> io::Result<()> {
        self.write_directory(passing)?;
        self.back.sync_data()?;
        appear(&self.hidden, &self.visible)?;
        self.publish();
        self.back = lone(&self.hidden)?;
        self.back_end = 0;
        Ok(())
    }

    /// Adds an entry that nobody sees before the next [`Archive::commit`].
    pub(crate) fn add(&mut self, piece: Piece) -> io::Result<()> {
        self.catch_up()?;
        let (entry, end) = write_piece(&self.back, self.back_end, piece)?;
        self.back_end = end;
        self.staged.push(entry);
        Ok(())
    }

    /// Whether enough was added that a new directory is worth it.
    pub(crate) fn is_due(&self) -> bool {
        self.staged.len() > self.entries.list.len() / DIRECTORIES
    }

    /// Lets everybody see what was added, and also `passing`: entries that the next commit leaves out again.
    pub(crate) fn commit(&mut self, passing: Vec<Piece>) -> io::Result<()> {
        self.catch_up()?;
        self.write_directory(passing)?;
        if self.synced.elapsed() >= SYNC {
            self.back.sync_data()?;
            self.synced = Instant::now();
        }
        exchange(&self.hidden, &self.visible)?;
        self.publish();
        Ok(())
    }

    /// The last commit: everything is on disk afterwards, and the hidden file is gone.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.catch_up()?;
        self.write_directory(Vec::new())?;
        self.back.sync_all()?;
        fs::rename(&self.hidden, &self.visible)?;
        self.publish();
        self.visible.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    /// Reads an entry that everybody sees.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<impl io::Read + use<>>> {
        let entry = self.entries.by_name.get(name).and_then(|index| self.entries.list.get(*index));
        entry.map(|entry| super::open(&self.front, entry)).transpose()
    }

    fn publish(&mut self) {
        std::mem::swap(&mut self.front, &mut self.back);
        std::mem::swap(&mut self.front_end, &mut self.back_end);
        for entry in self.staged.drain(..) {
            self.entries.add(entry);
        }
    }

    /// Copies what only `front` has.
    fn catch_up(&mut self) -> io::Result<()> {
        if self.back_end < self.front_end {
            copy(&self.front, self.back_end, self.front_end - self.back_end, &self.back, self.back_end)?;
            self.back_end = self.front_end;
        }
        Ok(())
    }

    fn write_directory(&mut self, passing: Vec<Piece>) -> io::Result<()> {
        let mut end = self.back_end;
        let mut last = Vec::new();
        for piece in passing {
            let (entry, next) = write_piece(&self.back, end, piece)?;
            last.push(entry);
            end = next;
        }
        let mut all = Directory { list: Vec::new(), by_name: HashMap::new() };
        for entry in self.staged.iter().chain(&last) {
            all.add(entry.clone());
        }
        let kept = self.entries.list.iter().filter(|entry| !all.by_name.contains_key(&entry.name));
        let mut out = BufWriter::new(At { file: &self.back, offset: end });
        let (mut count, mut size) = (0, 0);
        for entry in kept.chain(&all.list) {
            let line = format::central_header(entry);
            out.write_all(&line)?;
            count += 1;
            size += line.len() as u64;
        }
        out.write_all(&format::end(count, end, size))?;
        let length = out.into_inner().map_err(io::IntoInnerError::into_error)?.offset;
        self.back.set_len(length)
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // The net below a forgotten `finish`; what people see opens without it.
        let _ = fs::remove_file(&self.hidden);
    }
}

/// A file that is ours alone: whoever tidies up after killed writers sees that this one lives.
fn lone(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    file.try_lock()?;
    Ok(file)
}

fn write_piece(file: &File, offset: u64, piece: Piece) -> io::Result<(Entry, u64)> {
    let Squeezed { kept, compressed, size, crc } = piece.content;
    let entry = Entry { name: piece.name, method: format::ZSTD, crc, compressed, size, offset };
    let header = format::local_header(&entry);
    file.write_all_at(&header, offset)?;
    let start = offset + header.len() as u64;
    match kept {
        Kept::Memory(bytes) => file.write_all_at(&bytes, start)?,
        Kept::File(content) => copy(&content, 0, compressed, file, start)?,
    }
    Ok((entry, start + compressed))
}

/// Gives a file its name, unless somebody's log has it.
fn appear(hidden: &Path, visible: &Path) -> io::Result<()> {
    match renameat_with(CWD, hidden, CWD, visible, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(hidden, visible)?;
            fs::remove_file(hidden)
        }
        Err(error) => Err(error.into()),
    }
}

/// Two names for each other's file, in one step where the file system can.
fn exchange(hidden: &Path, visible: &Path) -> io::Result<()> {
    match renameat_with(CWD, hidden, CWD, visible, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => exchange_by_links(hidden, visible),
        Err(error) => Err(error.into()),
    }
}

/// For file systems that can only rename, such as NFS. The visible name always has a whole file here too.
fn exchange_by_links(hidden: &Path, visible: &Path) -> io::Result<()> {
    let aside = hidden.with_extension("aside.partial");
    fs::hard_link(visible, &aside)?;
    fs::rename(hidden, visible)?;
    fs::rename(aside, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exchanged_in_both_ways() {
        let directory = tempfile::tempdir().unwrap();
        let (hidden, visible) = (directory.path().join(".h.partial"), directory.path().join("v"));
        for way in [exchange, exchange_by_links] {
            fs::write(&hidden, "new").unwrap();
            fs::write(&visible, "old").unwrap();
            way(&hidden, &visible).unwrap();
            assert_eq!((fs::read(&hidden).unwrap(), fs::read(&visible).unwrap()), (b"old".to_vec(), b"new".to_vec()));
            assert_eq!(directory.path().read_dir().unwrap().count(), 2);
        }
    }
}
