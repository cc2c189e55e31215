//! One running sample: its events go to a file without a name until it is complete.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bounded::Budget;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::event::Event;
use crate::hashed::Hashed;
use crate::place::Part;
use crate::recorder::Shared;
use crate::summary::summary;
use crate::written::Written;
use crate::{LogError, SampleName, raw};

/// Events are written in pieces of about this size.
const BUFFER: usize = 64 << 10;

/// What a sample ends with, beside its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleEnd {
    /// The fields of Inspect's `EvalSample`: input, target, messages, output, scores, metadata, error and so on. Absent and
    /// null are the same. Id, epoch and events are the recorder's own.
    pub fields: Map<String, Value>,
}

/// Records one sample. Dropped before it is complete, it leaves nothing.
pub struct SampleRecorder {
    log: Arc<Shared>,
    id: SampleName,
    epoch: u32,
    spool: File,
    written: u64,
    buffer: Vec<u8>,
    /// As they are written: a long conversation takes several times as much room in any other form.
    messages: Vec<u8>,
    message_count: usize,
    /// What is taken over from another log, as it is written there.
    kept: Vec<(String, Vec<u8>)>,
}

/// What a summary says nothing about, and may be large.
const UNSUMMED: [&str; 6] = ["attachments", "events_data", "output", "store", "timelines", "error_retries"];

impl SampleRecorder {
    pub(crate) fn new(log: Arc<Shared>, id: SampleName, epoch: u32) -> Result<Self, LogError> {
        let spool = tempfile::tempfile_in(&log.directory).map_err(log.error("begin a sample"))?;
        let (buffer, messages) = (Vec::new(), Vec::new());
        Ok(Self { log, id, epoch, spool, written: 0, buffer, messages, message_count: 0, kept: Vec::new() })
    }

    /// Records an event. One that fails is left out; those before it stay.
    pub fn event(&mut self, event: &Event) -> Result<(), LogError> {
        let before = self.buffer.len();
        if self.written + before as u64 > 0 {
            self.buffer.push(b',');
        }
        let result = serde_json::to_writer(&mut self.buffer, event)
            .map_err(io::Error::from)
            .and_then(|()| if self.buffer.len() > BUFFER { self.flush() } else { Ok(()) });
        result.map_err(|error| {
            self.buffer.truncate(before);
            self.log.error("write an event")(error)
        })
    }

    /// Adds to the sample's messages, in place of the field `messages`.
    pub fn message(&mut self, message: &Written) {
        if self.message_count > 0 {
            self.messages.push(b',');
        }
        self.message_count += 1;
        self.messages.extend_from_slice(message.json().as_bytes());
    }

    /// Takes over a field of the same sample in another log, byte for byte. Events and messages come before those that are
    /// recorded after this.
    pub fn keep(&mut self, key: &str, raw: &[u8]) -> Result<(), LogError> {
        let inside = |raw: &[u8]| {
            let raw = raw.trim_ascii();
            raw.strip_prefix(b"[")?.strip_suffix(b"]").map(|inside| inside.trim_ascii().to_vec())
        };
        match (key, inside(raw)) {
            ("id" | "epoch", _) => {}
            ("events", Some(inside)) => {
                self.buffer = inside;
                self.flush().map_err(self.log.error("write the events"))?;
            }
            ("messages", Some(inside)) => {
                self.message_count = raw::items(raw).map_or(0, |items| items.len());
                self.messages = inside;
            }
            _ => self.kept.push((key.to_owned(), raw.to_vec())),
        }
        Ok(())
    }

    /// Puts the sample into the log, and returns the SHA-256 of what was written, in hexadecimal. When this returns, a killed
    /// program loses nothing of it.
    pub fn complete(mut self, end: SampleEnd) -> Result<String, LogError> {
        self.flush().map_err(self.log.error("write the events"))?;
        let known = self.with_kept(&end.fields);
        let summary = summary(&self.id, self.epoch, &known, self.message_count);
        let log = Arc::clone(&self.log);
        let mut hash = Sha256::new();
        log.sample(&self.id, self.epoch, summary, |out| self.write(end, &mut Hashed { inner: out, hash: &mut hash }))?;
        Ok(crate::hex(&hash.finalize()))
    }

    /// What is known of the sample, with what was taken over.
    fn with_kept<'a>(&self, fields: &'a Map<String, Value>) -> Cow<'a, Map<String, Value>> {
        let mut known = Cow::Borrowed(fields);
        for (key, raw) in self.kept.iter().filter(|(key, _)| !UNSUMMED.contains(&key.as_str())) {
            let text = raw::lenient(raw);
            if let Ok(value) = bounded::value(&text, &Budget::for_text(&text)) {
                known.to_mut().insert(key.clone(), value);
            }
        }
        known
    }

    fn flush(&mut self) -> io::Result<()> {
        self.spool.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Field by field, then the events as they were written: never the whole sample in memory.
    fn write(&self, end: SampleEnd, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{{\"id\":{},\"epoch\":{}", serde_json::to_string(&self.id)?, self.epoch)?;
        // The two that Inspect insists on.
        for key in ["input", "target"] {
            let kept = self.kept.iter().any(|(kept, _)| kept == key);
            if !kept && end.fields.get(key).is_none_or(Value::is_null) {
                write!(out, ",\"{key}\":\"\"")?;
            }
        }
        for (key, raw) in &self.kept {
            write!(out, ",{}:", serde_json::to_string(key)?)?;
            out.write_all(raw)?;
        }
        for (key, value) in end.fields {
            let is_own = matches!(key.as_str(), "id" | "epoch" | "events");
            let is_written = key == "messages" && self.message_count > 0;
            if !value.is_null() && !is_own && !is_written {
                write!(out, ",{}:", serde_json::to_string(&key)?)?;
                serde_json::to_writer(&mut *out, &value)?;
            }
        }
        if self.message_count > 0 {
            out.write_all(b",\"messages\":[")?;
            out.write_all(&self.messages)?;
            out.write_all(b"]")?;
        }
        out.write_all(b",\"events\":[")?;
        io::copy(&mut Part::new(self.spool.try_clone()?, 0, self.written), out)?;
        out.write_all(b"]}")
    }
}
