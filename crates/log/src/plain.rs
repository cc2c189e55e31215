//! A log as one JSON document. How the evaluation ended stands before the samples, so nothing can be written in place before
//! it ends: samples wait in a file without a name. A killed writer loses them; whoever wants them kept takes the zip.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::place::{At, Part};

pub(crate) struct Plain {
    path: PathBuf,
    hidden: PathBuf,
    spool: File,
    end: u64,
    /// Where each sample is, in the order in which they completed.
    samples: Vec<(u64, u64)>,
    by_name: HashMap<String, usize>,
}

impl Plain {
    pub(crate) fn create(directory: &Path, path: &Path, hidden: &Path) -> io::Result<Self> {
        let spool = tempfile::tempfile_in(directory)?;
        let (path, hidden) = (path.to_path_buf(), hidden.to_path_buf());
        Ok(Self { path, hidden, spool, end: 0, samples: Vec::new(), by_name: HashMap::new() })
    }

    pub(crate) fn sample(
        &mut self,
        name: String,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        // What a failed sample left is overwritten by the next.
        let mut out = BufWriter::new(At { file: &self.spool, offset: self.end });
        write(&mut out)?;
        let end = out.into_inner().map_err(io::IntoInnerError::into_error)?.offset;
        let place = (self.end, end - self.end);
        if let Some(index) = self.by_name.get(&name) {
            self.samples[*index] = place;
        } else {
            self.by_name.insert(name, self.samples.len());
            self.samples.push(place);
        }
        self.end = end;
        Ok(())
    }

    /// Under another name first: half a log never looks whole.
    pub(crate) fn finish(&mut self, header: &Map<String, Value>, reductions: Option<&Value>) -> io::Result<()> {
        let result = self.write(header, reductions).and_then(|()| fs::rename(&self.hidden, &self.path));
        if result.is_err() {
            let _ = fs::remove_file(&self.hidden);
        }
        result?;
        self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    fn write(&self, header: &Map<String, Value>, reductions: Option<&Value>) -> io::Result<()> {
        let file = File::create(&self.hidden)?;
        // Whoever tidies up after killed writers sees that this one lives.
        file.try_lock()?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        // Inspect stops reading headers at the samples, so they come after everything but the reductions.
        out.write_all(b"{")?;
        for (key, value) in header {
            write!(out, "{}:", serde_json::to_string(key)?)?;
            serde_json::to_writer(&mut out, value)?;
            out.write_all(b",")?;
        }
        out.write_all(b"\"samples\":[")?;
        for (index, (offset, length)) in self.samples.iter().enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            io::copy(&mut Part::new(self.spool.try_clone()?, *offset, *length), &mut out)?;
        }
        out.write_all(b"]")?;
        if let Some(reductions) = reductions {
            out.write_all(b",\"reductions\":")?;
            serde_json::to_writer(&mut out, reductions)?;
        }
        out.write_all(b"}")?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}
