//! A log as a zip, in Inspect's layout: `_journal/start.json`, a file per sample, summaries in parts, the header last.

use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::squeeze::{Squeeze, Squeezed};
use crate::zip::{Archive, Piece};

/// So many summaries make a part of the journal. Until then the part is written anew with every sample.
const PART: usize = 10;

pub(crate) struct Zipped {
    directory: PathBuf,
    archive: Archive,
    /// Summaries that are no part yet. Those that are, are only on disk.
    summaries: Vec<Value>,
    parts: u64,
}

impl Zipped {
    /// Begins, where nobody sees it before [`Zipped::appear`].
    pub(crate) fn begin(directory: &Path, path: &Path, hidden: &Path, start: &Value) -> io::Result<Self> {
        let mut archive = Archive::begin(path, hidden)?;
        archive.add(piece(directory, "_journal/start.json", start)?)?;
        Ok(Self { directory: directory.to_path_buf(), archive, summaries: Vec::new(), parts: 0 })
    }

    /// Lets everybody see it, with all samples that were added so far.
    pub(crate) fn appear(&mut self) -> io::Result<()> {
        let passing = self.passing()?;
        self.archive.appear(passing)
    }

    /// Compresses a sample, which needs no turn.
    pub(crate) fn squeeze(
        directory: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Squeezed> {
        let mut out = BufWriter::with_capacity(1 << 16, Squeeze::new(directory)?);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    }

    /// Adds a sample that nobody sees yet.
    pub(crate) fn add(&mut self, name: String, content: Squeezed, summary: Value) -> io::Result<()> {
        self.archive.add(Piece { name, content })?;
        self.summaries.push(summary);
        if self.summaries.len() >= PART { self.end_part() } else { Ok(()) }
    }

    pub(crate) fn sample(&mut self, name: String, content: Squeezed, summary: Value) -> io::Result<()> {
        self.add(name, content, summary)?;
        if !self.archive.is_due() {
            return Ok(());
        }
        let passing = self.passing()?;
        self.archive.commit(passing)
    }

    /// The part that is not full yet, for everybody to see meanwhile.
    fn passing(&self) -> io::Result<Vec<Piece>> {
        if self.summaries.is_empty() { Ok(Vec::new()) } else { Ok(vec![self.part()?]) }
    }

    pub(crate) fn finish(&mut self, header: &Map<String, Value>, reductions: Option<&Value>) -> io::Result<()> {
        if !self.summaries.is_empty() {
            self.end_part()?;
        }
        // The parts are read back from what everybody sees.
        self.archive.commit(Vec::new())?;
        let content = Self::squeeze(&self.directory, |out| self.write_summaries(out))?;
        self.archive.add(Piece { name: "summaries.json".into(), content })?;
        if let Some(reductions) = reductions {
            self.archive.add(piece(&self.directory, "reductions.json", reductions)?)?;
        }
        self.archive.add(piece(&self.directory, "header.json", header)?)?;
        self.archive.finish()
    }

    fn part(&self) -> io::Result<Piece> {
        piece(&self.directory, &part_name(self.parts + 1), &self.summaries)
    }

    fn end_part(&mut self) -> io::Result<()> {
        self.archive.add(self.part()?)?;
        self.parts += 1;
        self.summaries.clear();
        Ok(())
    }

    /// One list of all parts. A sample that was recorded twice is there twice; readers take the last.
    fn write_summaries(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"[")?;
        for part in 1..=self.parts {
            let mut text = Vec::new();
            let name = part_name(part);
            self.archive.read(&name)?.ok_or(io::ErrorKind::NotFound)?.read_to_end(&mut text)?;
            if part > 1 {
                out.write_all(b",")?;
            }
            // Without the brackets that we wrote around it.
            out.write_all(text.get(1..text.len().saturating_sub(1)).unwrap_or_default())?;
        }
        out.write_all(b"]")
    }
}

fn part_name(part: u64) -> String {
    format!("_journal/summaries/{part}.json")
}

fn piece(directory: &Path, name: &str, content: &impl serde::Serialize) -> io::Result<Piece> {
    Ok(Piece { name: name.into(), content: Squeeze::all(directory, &serde_json::to_vec(content)?)? })
}
