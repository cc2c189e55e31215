//! Reads logs of both formats, ours and Inspect's. A log may be anybody's file, so what is held in memory is bounded.

mod document;
mod glance;
mod metered;
mod samples;
mod summaries;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bounded::{Budget, Tree, allowance};
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value, json};

use self::metered::{Bounds, Meter, Metered};
use crate::lenient::Lenient;
use crate::zip::{self, Entry};
use crate::{Format, LogError, SampleName, Status, name};

pub use glance::Glance;
pub use samples::Samples;

/// The largest document of a log, unpacked. Lists are read item by item.
const PART: u64 = 4 << 30;

const HEADER: &str = "header.json";
const START: &str = "_journal/start.json";
const SUMMARIES: &str = "summaries.json";
const REDUCTIONS: &str = "reductions.json";

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read, or it is damaged.
    #[error("cannot read the log `{}`", path.display())]
    Io {
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("`{}` is not a log: neither a zip nor a JSON document", .0.display())]
    NotALog(PathBuf),
    /// A part is not what a log has there.
    #[error("`{part}` in the log `{}` is not what a log has there", path.display())]
    Part {
        /// The log.
        path: PathBuf,
        /// The part.
        part: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A part is too large to be held in memory.
    #[error("`{part}` in the log `{}` is larger than {max} bytes", path.display())]
    TooLarge {
        /// The log.
        path: PathBuf,
        /// The part.
        part: String,
        /// What is read at most.
        max: u64,
    },
    /// There are more of something than can be held in memory.
    #[error("the log `{}` has more than {max} {what}", path.display())]
    TooMany {
        /// The log.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many are read at most.
        max: u64,
    },
    /// It has no beginning.
    #[error("the log `{}` has neither a header nor a beginning", .0.display())]
    NoHeader(PathBuf),
}

impl ReadError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } if source.kind() != io::ErrorKind::InvalidData => None,
            Self::NotALog(_) => Some("logs end in .eval or .json; `ringfence log list DIR` shows those of a directory"),
            Self::Io { .. } | Self::Part { .. } | Self::NoHeader(_) => {
                Some("the file is damaged, or was not written by Ringfence or Inspect")
            }
            Self::TooLarge { .. } | Self::TooMany { .. } => {
                Some("a log may take four times its file's size in memory, at least 64 MiB; use `ringfence log dump`")
            }
        }
    }
}

/// A log that was opened.
pub struct Reader {
    path: PathBuf,
    file: File,
    header: Map<String, Value>,
    status: Status,
    kind: Kind,
}

enum Kind {
    /// In the order of their names, each once.
    Eval(Vec<Entry>),
    Json,
}

impl Reader {
    /// Opens a log, whatever it is called.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io { path: path.to_path_buf(), source };
        let file = open(path).map_err(io)?;
        let mut first = [0; 4];
        let count = file.read_at(&mut first, 0).map_err(io)?;
        let kind = match &first[..count] {
            b"PK\x03\x04" => {
                let mut entries = zip::directory(&file).map_err(io)?;
                zip::refuse_bombs(&entries, file.metadata().map_err(io)?.len()).map_err(io)?;
                // Of two with the same name the last one counts; the order of equals is kept.
                entries.reverse();
                entries.sort_by(|a, b| a.name.cmp(&b.name));
                entries.dedup_by(|second, first| second.name == first.name);
                Kind::Eval(entries)
            }
            [b'{', ..] => Kind::Json,
            _ => return Err(ReadError::NotALog(path.to_path_buf())),
        };
        let mut reader = Self { path: path.to_path_buf(), file, header: Map::new(), status: Status::Started, kind };
        reader.header = reader.read_header()?;
        let status = reader.header.get("status").cloned().unwrap_or_else(|| json!(Status::Started));
        reader.status = serde_json::from_value(status).map_err(reader.part(HEADER))?;
        Ok(reader)
    }

    /// Checks that the file is what our recorder writes and nothing else: every part opens, nothing stands before, between or
    /// behind them, and nothing is there twice.
    pub fn check(&self) -> Result<(), ReadError> {
        match &self.kind {
            Kind::Eval(_) => zip::check(&self.file).map_err(|source| self.io(source)),
            Kind::Json => document::check(&self.file, self.length()?).map_err(self.part("samples")),
        }
    }

    /// SHA-256 of the file that was opened, in hexadecimal.
    pub fn digest(&self) -> Result<String, ReadError> {
        let io = |source| self.io(source);
        let mut file = crate::place::Part::new(self.file.try_clone().map_err(io)?, 0, self.length()?);
        crate::recorder::digest_of(&mut file).map_err(io)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is kept.
    pub fn format(&self) -> Format {
        match self.kind {
            Kind::Eval(_) => Format::Eval,
            Kind::Json => Format::Json,
        }
    }

    /// Limits on what is held of it.
    fn bounds(&self) -> Result<Bounds, ReadError> {
        self.length().map(Bounds::of)
    }

    /// The longest sample that is held whole.
    fn sample_limit(&self) -> Result<u64, ReadError> {
        self.length().map(allowance)
    }

    /// An entry of a zip.
    fn entry(&self, name: &str) -> Option<&Entry> {
        let Kind::Eval(entries) = &self.kind else { return None };
        entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok().and_then(|index| entries.get(index))
    }

    /// What is known of these samples without holding their events: in the order in which they are asked for, nothing for
    /// those that are missing, cannot be read, or are not what their entry's name says.
    pub fn glances(&self, wanted: &[(SampleName, u32)]) -> Result<Vec<Option<Glance>>, ReadError> {
        let mut found: Vec<Option<Glance>> = Vec::new();
        found.resize_with(wanted.len(), || None);
        let (bounds, mut held) = (self.bounds()?, 0);
        let walked = self.each(wanted, |index, content| {
            if let (Some((id, epoch)), Some(place), Ok(content)) = (wanted.get(index), found.get_mut(index), content) {
                *place = glance::read(id, *epoch, content, bounds);
                held += place.as_ref().map_or(0, Glance::cost);
            }
            if held > bounds.values {
                let path = self.path.clone();
                let held =
                    ReadError::TooLarge { path, part: "samples without their events".into(), max: bounds.values };
                return Err(LogError::Keep(held));
            }
            Ok(())
        });
        match walked {
            Ok(()) => Ok(found),
            Err(LogError::Keep(error)) => Err(error),
            Err(other) => Err(self.io(io::Error::other(other.to_string()))),
        }
    }

    /// Which of these samples have an entry, whether or not it can be read.
    pub fn has(&self, wanted: &[(SampleName, u32)]) -> Result<Vec<bool>, ReadError> {
        if let Kind::Eval(_) = self.kind {
            return Ok(wanted.iter().map(|one| self.entry(&one.entry()).is_some()).collect());
        }
        let mut found = vec![false; wanted.len()];
        let walked = self.each(wanted, |index, _| {
            if let Some(found) = found.get_mut(index) {
                *found = true;
            }
            Ok(())
        });
        match walked {
            Ok(()) => Ok(found),
            Err(LogError::Keep(error)) => Err(error),
            Err(other) => Err(self.io(io::Error::other(other.to_string()))),
        }
    }

    /// Hands over the content of each of these samples that is there, once. A zip's are opened one by one; a document is
    /// read through once. Of two with the same name a zip has the last, a document the first.
    pub(crate) fn each<W: Wanted>(
        &self,
        wanted: &[W],
        mut take: impl FnMut(usize, io::Result<Box<dyn Read + '_>>) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        match &self.kind {
            Kind::Eval(_) => {
                for (index, one) in wanted.iter().enumerate() {
                    if let Some(entry) = self.entry(&one.entry()) {
                        take(index, zip::open(&self.file, entry).map(|content| content as Box<dyn Read>))?;
                    }
                }
                Ok(())
            }
            Kind::Json => {
                let mut left: HashMap<String, usize> =
                    wanted.iter().enumerate().map(|(index, one)| (one.entry(), index)).collect();
                document::each(&self.file, self.length()?, &mut |id, epoch, sample| match left
                    .remove(&name::entry(id, epoch))
                {
                    Some(index) => take(index, Ok(Box::new(sample.as_bytes()))),
                    None => Ok(()),
                })
                .map_err(|error| error.unwrap_or_else(|source| self.part("samples")(source).into()))
            }
        }
    }

    /// Inspect's `EvalLog` without samples and reductions.
    pub fn header(&self) -> &Map<String, Value> {
        &self.header
    }

    /// A value of the header by its JSON pointer, such as `/eval/task`.
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        let path = pointer.strip_prefix('/')?;
        match path.find('/') {
            Some(end) => self.header.get(&path[..end])?.pointer(&path[end..]),
            None => self.header.get(path),
        }
    }

    /// How the evaluation ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether it did: of one that was killed there is no more than its beginning and its samples.
    pub fn is_complete(&self) -> bool {
        self.status != Status::Started
    }

    /// One sample, Inspect's `EvalSample`; nothing if there is none.
    pub fn sample(&self, id: &SampleName, epoch: u32) -> Result<Option<Value>, ReadError> {
        let max = self.bounds()?.values;
        let mut text = Bounded { bytes: Vec::new(), max };
        let part = name::entry(id, epoch);
        match self.copy_sample(id, epoch, &mut text) {
            Ok(false) => Ok(None),
            Ok(true) => bounded::value(&text.bytes, &Budget::new(max)).map(Some).map_err(self.part(&part)),
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::FileTooLarge => {
                Err(ReadError::TooLarge { path: self.path.clone(), part, max })
            }
            Err(error) => Err(error),
        }
    }

    /// Writes one sample as JSON, without holding it if the log is a zip; says whether there is one.
    pub fn copy_sample(&self, id: &SampleName, epoch: u32, out: &mut dyn Write) -> Result<bool, ReadError> {
        match &self.kind {
            Kind::Json => {
                let sample = document::sample(&self.file, self.length()?, id, epoch).map_err(self.part("samples"))?;
                let Some(sample) = sample else { return Ok(false) };
                out.write_all(sample.get().as_bytes()).map_err(|source| self.io(source)).map(|()| true)
            }
            Kind::Eval(_) => match self.entry(&name::entry(id, epoch)) {
                Some(entry) => self.copy(entry, out).map(|()| true),
                None => Ok(false),
            },
        }
    }

    /// Inspect's list of `EvalSampleReductions`, if there is one.
    pub fn reductions(&self) -> Result<Option<Value>, ReadError> {
        match &self.kind {
            Kind::Json => document::field(&self.file, self.length()?, "reductions").map_err(self.part(REDUCTIONS)),
            Kind::Eval(_) => self.value(REDUCTIONS),
        }
    }

    /// Writes the whole log as one JSON document, Inspect's `EvalLog`, a sample at a time.
    pub fn dump(&self, out: &mut dyn Write) -> Result<(), ReadError> {
        let io = |source| self.io(source);
        let Kind::Eval(entries) = &self.kind else {
            let mut file = crate::place::Part::new(self.file.try_clone().map_err(io)?, 0, self.length()?);
            return io::copy(&mut file, out).map(|_| ()).map_err(io);
        };
        let header = serde_json::to_string(&self.header).map_err(self.part(HEADER))?;
        let open = header.strip_suffix('}').unwrap_or(&header);
        write!(out, "{open},\"samples\":[").map_err(io)?;
        let mut samples: Vec<&Entry> = entries.iter().filter(|entry| entry.name.starts_with("samples/")).collect();
        samples.sort_by_key(|entry| entry.offset);
        for (index, entry) in samples.into_iter().enumerate() {
            if index > 0 {
                out.write_all(b",").map_err(io)?;
            }
            self.copy(entry, out)?;
        }
        out.write_all(b"]").map_err(io)?;
        if let Some(mut reductions) = self.content(REDUCTIONS)? {
            out.write_all(b",\"reductions\":").map_err(io)?;
            io::copy(&mut reductions, out).map_err(io)?;
        }
        out.write_all(b"}").map_err(io)
    }

    fn read_header(&self) -> Result<Map<String, Value>, ReadError> {
        if let Kind::Json = self.kind {
            return document::header(&self.file, self.length()?).map_err(self.part(HEADER));
        }
        let (part, header) = match self.value(HEADER)? {
            Some(header) => (HEADER, header),
            None => (START, self.value(START)?.ok_or_else(|| ReadError::NoHeader(self.path.clone()))?),
        };
        let Value::Object(mut header) = header else {
            let found = serde::de::Error::custom("it is not an object");
            return Err(self.part(part)(found));
        };
        if part == START {
            header.insert("status".into(), json!(Status::Started));
        }
        Ok(header)
    }

    fn length(&self) -> Result<u64, ReadError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(|source| self.io(source))
    }

    /// A document of a zip as it is read: Inspect writes numbers that JSON does not have.
    fn content(&self, part: &str) -> Result<Option<impl Read + use<>>, ReadError> {
        let Some(entry) = self.entry(part) else { return Ok(None) };
        if entry.size > PART {
            return Err(ReadError::TooLarge { path: self.path.clone(), part: part.into(), max: PART });
        }
        let content = zip::open(&self.file, entry).map_err(|source| self.io(source))?;
        Ok(Some(Lenient::new(content)))
    }

    /// A document of a zip.
    fn value(&self, part: &str) -> Result<Option<Value>, ReadError> {
        let Some(content) = self.content(part)? else { return Ok(None) };
        let bounds = self.bounds()?;
        let budget = bounds.budget();
        let mut text = serde_json::Deserializer::from_reader(Metered::new(content, &Meter::new(bounds)));
        let value = Tree(&budget).deserialize(&mut text).and_then(|value| text.end().map(|()| value));
        value.map(Some).map_err(self.part(part))
    }

    fn copy(&self, entry: &Entry, out: &mut dyn Write) -> Result<(), ReadError> {
        let mut content = zip::open(&self.file, entry).map_err(|source| self.io(source))?;
        io::copy(&mut content, out).map(|_| ()).map_err(|source| self.io(source))
    }

    fn io(&self, source: io::Error) -> ReadError {
        ReadError::Io { path: self.path.clone(), source }
    }

    fn part(&self, part: &str) -> impl FnOnce(serde_json::Error) -> ReadError {
        let (path, part) = (self.path.clone(), part.to_owned());
        move |source| ReadError::Part { path, part, source }
    }
}

/// Something that names a sample.
pub(crate) trait Wanted {
    /// The name of its entry.
    fn entry(&self) -> String;
}

impl Wanted for (SampleName, u32) {
    fn entry(&self) -> String {
        name::entry(&self.0, self.1)
    }
}

impl Wanted for Glance {
    fn entry(&self) -> String {
        name::entry(&self.id, self.epoch)
    }
}

/// Opens a file, and nothing else: whoever opens a pipe waits for its writer.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

struct Bounded {
    bytes: Vec<u8>,
    max: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
