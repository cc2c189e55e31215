//! Data files as records, one at a time: CSV with a header, JSON (a list), JSON lines.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use bounded::{Budget, allowance};
use profile::Place;
use profile::source::{Key, Node, Value};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

use super::json::{self, Json};

/// How a data file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Json,
    JsonLines,
}

impl Format {
    /// By the end of its name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match Path::new(name).extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }
}

/// One record: where it is, in words, and what it holds or what is wrong with it.
pub(super) struct Record {
    /// Such as `line 3`.
    pub(super) label: String,
    /// A mapping, if the file is what it should be.
    pub(super) node: Result<Node, String>,
    /// The memory that it takes.
    pub(super) cost: u64,
}

/// The most columns of a CSV file: every row has a value for each, also where it has no more than commas.
const MAX_COLUMNS: usize = 10_000;

/// The memory that one record may take, in a file of this many bytes.
fn for_record(file: &[u8]) -> u64 {
    allowance(file.len() as u64) / 4
}

/// Hands every record to `take` until it has enough.
pub(super) fn each(format: Format, bytes: &[u8], place: Place, take: &mut dyn FnMut(Record) -> ControlFlow<()>) {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match format {
        Format::Csv => each_row(bytes, place, take),
        Format::Json => each_element(bytes, place, take),
        Format::JsonLines => each_line(bytes, place, take),
    }
}

fn each_line(bytes: &[u8], place: Place, take: &mut dyn FnMut(Record) -> ControlFlow<()>) {
    let most = for_record(bytes);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (number, budget) = (index + 1, Budget::new(most));
        let (label, node) = match json::parse(line, place, &budget) {
            Ok(node) => (format!("line {number}"), Ok(node)),
            Err(error) => {
                (format!("line {number}, column {}", error.column()), Err(format!("not valid JSON: {}", bare(&error))))
            }
        };
        let record = Record { label, node, cost: most - budget.left() };
        if take(record).is_break() {
            return;
        }
    }
}

/// The message without the place at its end, which the label says.
fn bare(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned())
}

fn each_element(bytes: &[u8], place: Place, take: &mut dyn FnMut(Record) -> ControlFlow<()>) {
    let mut stopped = false;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let elements = Elements { place, take, stopped: &mut stopped, most: for_record(bytes) };
    let outcome = elements.deserialize(&mut deserializer);
    // Whoever had enough did not read to the end.
    if stopped {
        return;
    }
    if let Err(error) = outcome.and_then(|()| deserializer.end()) {
        let label = format!("line {}, column {}", error.line(), error.column());
        let _ = take(Record { label, node: Err(format!("not a JSON list: {}", bare(&error))), cost: 0 });
    }
}

/// The elements of a list, without the list: a large file is never in memory as a tree.
struct Elements<'a> {
    place: Place,
    take: &'a mut dyn FnMut(Record) -> ControlFlow<()>,
    stopped: &'a mut bool,
    /// The memory that one element may take.
    most: u64,
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut number = 0_u64;
        loop {
            let budget = Budget::new(self.most);
            let Some(node) = access.next_element_seed(Json(self.place, &budget))? else { return Ok(()) };
            number += 1;
            let record = Record { label: format!("sample {number}"), node: Ok(node), cost: self.most - budget.left() };
            if (self.take)(record).is_break() {
                *self.stopped = true;
                return Ok(());
            }
        }
    }
}

fn each_row(bytes: &[u8], place: Place, take: &mut dyn FnMut(Record) -> ControlFlow<()>) {
    let mut reader = csv::Reader::from_reader(bytes);
    let failed = |error: &csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        let said = match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("has {len} cells where the header has {expected_len}")
            }
            csv::ErrorKind::Utf8 { .. } => "is not text in UTF-8".to_owned(),
            _ => format!("not valid CSV: {error}"),
        };
        Record { label: format!("line {line}"), node: Err(said), cost: 0 }
    };
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            let _ = take(failed(&error));
            return;
        }
    };
    let wrong = |said| Record { label: "line 1".into(), node: Err(said), cost: 0 };
    if header.len() > MAX_COLUMNS {
        let _ = take(wrong(format!("more than {MAX_COLUMNS} columns")));
        return;
    }
    let mut names = std::collections::HashSet::new();
    if let Some(twice) = header.iter().find(|name| !names.insert(name.trim())) {
        let _ = take(wrong(format!("the column `{twice}` is there twice")));
        return;
    }
    for row in reader.records() {
        let record = match &row {
            Ok(row) => {
                let entries = header.iter().zip(row).map(|(name, cell)| {
                    // A cell with nothing in it is a value that is not there.
                    let value = if cell.is_empty() { Value::Null } else { Value::Text(cell.to_owned()) };
                    (Key { place, name: name.trim().to_owned() }, Node { place, value })
                });
                let label = format!("line {}", row.position().map_or(0, csv::Position::line));
                Record { label, node: Ok(Node { place, value: Value::Map(entries.collect()) }), cost: 0 }
            }
            Err(error) => failed(error),
        };
        if take(record).is_break() {
            return;
        }
    }
}
