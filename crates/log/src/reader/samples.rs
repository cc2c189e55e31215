//! All samples of a log, one at a time.

use std::fs::File;
use std::io::{self, Write as _};

use super::{Bounded, Kind, ReadError, Reader, document};
use crate::place::{At, Part};
use crate::zip::Entry;

/// Where the samples of a log are.
pub struct Samples<'a> {
    reader: &'a Reader,
    places: Places<'a>,
}

enum Places<'a> {
    Zip(Vec<&'a Entry>),
    /// A document is read once; its samples lie in a file without a name.
    Spool(File, Vec<(u64, u64)>),
}

impl Reader {
    /// Finds all samples, in the order in which they completed.
    pub fn samples(&self) -> Result<Samples<'_>, ReadError> {
        let places = match &self.kind {
            Kind::Eval(entries) => {
                let mut found: Vec<&Entry> =
                    entries.iter().filter(|entry| entry.name.starts_with("samples/")).collect();
                found.sort_by_key(|entry| entry.offset);
                Places::Zip(found)
            }
            Kind::Json => {
                let spool = tempfile::tempfile().map_err(|source| self.io(source))?;
                let (mut places, mut end) = (Vec::new(), 0_u64);
                let mut failed = None;
                let keep = &mut |sample: &str| {
                    let written = At { file: &spool, offset: end }.write_all(sample.as_bytes());
                    if let Err(error) = written {
                        failed.get_or_insert(error);
                    }
                    places.push((end, sample.len() as u64));
                    end += sample.len() as u64;
                };
                document::every(&self.file, self.length()?, keep).map_err(self.part("samples"))?;
                if let Some(error) = failed {
                    return Err(self.io(error));
                }
                Places::Spool(spool, places)
            }
        };
        Ok(Samples { reader: self, places })
    }
}

impl Samples<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.places {
            Places::Zip(entries) => entries.len(),
            Places::Spool(_, places) => places.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One sample as it is written, Inspect's `EvalSample`; nothing if there are fewer.
    pub fn get(&self, index: usize) -> Result<Option<Vec<u8>>, ReadError> {
        let max = self.reader.sample_limit()?;
        let mut text = Bounded { bytes: Vec::new(), max };
        let (copied, part) = match &self.places {
            Places::Zip(entries) => {
                let Some(entry) = entries.get(index) else { return Ok(None) };
                (self.reader.copy(entry, &mut text), entry.name.clone())
            }
            Places::Spool(spool, places) => {
                let Some((offset, length)) = places.get(index) else { return Ok(None) };
                let spool = spool.try_clone().map_err(|source| self.reader.io(source))?;
                let copied = io::copy(&mut Part::new(spool, *offset, *length), &mut text);
                (copied.map(|_| ()).map_err(|source| self.reader.io(source)), format!("sample {}", index + 1))
            }
        };
        match copied {
            Ok(()) => Ok(Some(text.bytes)),
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::FileTooLarge => {
                Err(ReadError::TooLarge { path: self.reader.path.clone(), part, max })
            }
            Err(error) => Err(error),
        }
    }
}
