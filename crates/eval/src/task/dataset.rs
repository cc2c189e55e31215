//! `dataset:`, inline or in a file.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use bounded::allowance;
use profile::source::{Complaints, Fields, Node, Value, nearest_word};
use profile::{Place, Problem};

use super::columns::Columns;
use super::files::{Files, MAX_DATASET_BYTES, included};
use super::records::{self, Format, Record};
use super::shuffle::shuffle;
use super::{Dataset, Input, Sample, SampleId, amounts, sample};

/// The most samples of one data set.
const MAX_SAMPLES: usize = 1_000_000;
/// How many problems of one data file are told.
const MAX_TOLD: usize = 20;
/// How much of each is told, in characters: it may quote the file.
const MAX_SAID: usize = 500;
/// The seed of `shuffle: true`.
const DEFAULT_SEED: u64 = 0;

impl SampleId {
    /// As logs have it.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Number(number) => serde_json::Value::from(*number),
            Self::Text(text) => serde_json::Value::from(text.as_str()),
        }
    }
}

impl std::fmt::Display for SampleId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Reads it; `task` is the task's name.
pub(super) fn read(node: Node, task: &str, complaints: &Complaints, files: &dyn Files) -> Dataset {
    let place = node.place;
    let nothing = Dataset { name: task.to_owned(), location: None, samples: Vec::new(), shuffled: false };
    match node.value {
        Value::List(items) => {
            if items.is_empty() {
                complaints.add(Problem::at(place, "the data set has no samples"));
            }
            Dataset { samples: inline(items, complaints, files), ..nothing }
        }
        Value::Text(file) => {
            let samples = from_file(&file, place, Columns::default(), complaints, files);
            Dataset { name: stem(&file), location: Some(file), samples, ..nothing }
        }
        value @ Value::Map(_) => described(Node { place, value }, complaints, files).unwrap_or(nothing),
        other => {
            complaints.add(
                Problem::at(place, format!("`dataset` must be a list, a file or a mapping, found {}", other.kind()))
                    .hint("write dataset: [{input: What is 2+2?, target: 4}] or dataset: questions.jsonl"),
            );
            nothing
        }
    }
}

/// `{file, fields, limit, shuffle, name}`.
fn described(node: Node, complaints: &Complaints, files: &dyn Files) -> Option<Dataset> {
    let mut fields = Fields::open(node, "`dataset`", &["file", "fields", "limit", "shuffle", "name"], complaints)?;
    let place = fields.place();
    if !fields.has("file") {
        complaints.add(Problem::at(place, "`dataset` needs a `file`").hint("or write the samples as a list"));
    }
    let file = fields.text("file");
    let columns = fields.take("fields").map(|node| Columns::read(node, complaints)).unwrap_or_default();
    let limit = amounts::count(&mut fields, "limit", u32::MAX);
    let seed = fields.take("shuffle").and_then(|node| read_seed(&node, complaints));
    let name = amounts::words(&mut fields, "name");
    fields.close();
    let file = file?;
    let mut samples = from_file(&file.value, file.place.unwrap_or(place), columns, complaints, files);
    if let Some(seed) = seed {
        shuffle(&mut samples, seed);
    }
    if let Some(limit) = limit {
        samples.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let name = name.unwrap_or_else(|| stem(&file.value));
    Some(Dataset { name, location: Some(file.value), samples, shuffled: seed.is_some() })
}

fn read_seed(node: &Node, complaints: &Complaints) -> Option<u64> {
    let seed = match node.value {
        Value::Bool(true) => Some(DEFAULT_SEED),
        Value::Bool(false) => return None,
        Value::Integer(seed) => u64::try_from(seed).ok(),
        _ => None,
    };
    if seed.is_none() {
        complaints.add(Problem::at(node.place, "`shuffle` must be true, false or a seed: a whole number from 0"));
    }
    seed
}

fn stem(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn inline(items: Vec<Node>, complaints: &Complaints, files: &dyn Files) -> Vec<Sample> {
    let mut taken = Taken::default();
    let mut samples = Vec::new();
    for (number, node) in (1..).zip(items) {
        let place = node.place;
        let Some(sample) = sample::read(node, number, complaints, files) else { continue };
        if let Some(earlier) = taken.by(&sample.id, || format!("at {place}")) {
            complaints.add(twice(Some(place), &sample.id, &earlier));
        }
        samples.push(sample);
    }
    samples
}

/// Who has which name. `1` and `"1"` are the same: both become the same file of the log.
#[derive(Default)]
struct Taken(HashMap<String, String>);

impl Taken {
    /// Whoever has it already.
    fn by(&mut self, id: &SampleId, label: impl FnOnce() -> String) -> Option<String> {
        match self.0.entry(id.to_string()) {
            std::collections::hash_map::Entry::Occupied(taken) => Some(taken.get().clone()),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(label());
                None
            }
        }
    }
}

fn twice(place: Option<Place>, id: &SampleId, earlier: &str) -> Problem {
    Problem { place, message: format!("the id `{id}` is taken by the sample {earlier}"), hint: None }
        .hint("give every sample its own; one without an id is counted by its position")
}

fn from_file(
    file: &str,
    place: Place,
    mut columns: Columns,
    complaints: &Complaints,
    files: &dyn Files,
) -> Vec<Sample> {
    let Some(format) = Format::of(file) else {
        let problem = Problem::at(place, format!("`{file}` is not a data file that can be read"));
        complaints.add(problem.hint("its name must end in .jsonl, .json or .csv"));
        return Vec::new();
    };
    let Some(bytes) = included(file, place, complaints, |path| files.read(path, MAX_DATASET_BYTES)) else {
        return Vec::new();
    };
    // The rest of the allowance is for the file's bytes and for the record that is being read.
    let most = allowance(bytes.len() as u64) / 2;
    let (taken, samples) = (Taken::default(), Vec::new());
    let mut reading = Reading { file, place, complaints, files, taken, told: 0, samples, held: 0, most };
    records::each(format, &bytes, place, &mut |record| reading.take(record, &mut columns));
    let Reading { told, samples, .. } = reading;
    if told == 0 && samples.is_empty() {
        complaints.add(Problem::at(place, format!("`{file}` has no samples")));
    } else if told < MAX_TOLD {
        columns.finish(file, place, complaints);
    }
    samples
}

struct Reading<'a> {
    file: &'a str,
    place: Place,
    complaints: &'a Complaints,
    files: &'a dyn Files,
    taken: Taken,
    told: usize,
    samples: Vec<Sample>,
    /// The memory that the samples take beside their fixed size, and the most that they may.
    held: u64,
    most: u64,
}

/// The memory that a sample takes beside its fixed size, about; `cost` is what its record took. The fixed size is bounded by
/// [`MAX_SAMPLES`].
fn held(sample: &Sample, cost: u64) -> u64 {
    let texts = |texts: &[String]| texts.iter().map(|text| 56 + text.len()).sum::<usize>();
    let own = texts(&sample.target) + texts(&sample.choices);
    let metadata =
        sample.metadata.iter().map(|(key, value)| 160 + key.len() as u64 + bounded::cost(value)).sum::<u64>();
    let node = if sample.metadata.is_empty() { 0 } else { 640 };
    let rest = match &sample.input {
        Input::Text(text) if sample.mock.is_none() && sample.files.is_empty() => text.len() as u64,
        _ => 2 * cost,
    };
    own as u64 + node + metadata + rest + sample.setup.as_ref().map_or(0, |setup| setup.len() as u64)
}

impl Reading<'_> {
    fn take(&mut self, record: Record, columns: &mut Columns) -> ControlFlow<()> {
        if self.samples.len() == MAX_SAMPLES {
            self.tell(&record.label, Problem::new(format!("more than {MAX_SAMPLES} samples")));
            return ControlFlow::Break(());
        }
        let own = Complaints::default();
        let number = i64::try_from(self.samples.len() + 1).unwrap_or(i64::MAX);
        match record.node.and_then(|node| columns.apply(node)) {
            Ok(node) => {
                if let Some(sample) = sample::read(node, number, &own, self.files) {
                    if let Some(earlier) = self.taken.by(&sample.id, || format!("of {}", record.label)) {
                        own.add(twice(None, &sample.id, &earlier));
                    }
                    self.held = self.held.saturating_add(held(&sample, record.cost));
                    if self.held > self.most {
                        let problem = Problem::new(format!("its samples take more than {} bytes of memory", self.most));
                        self.tell(&record.label, problem.hint("use a part of the file, or fewer values in `metadata`"));
                        return ControlFlow::Break(());
                    }
                    self.samples.push(sample);
                }
            }
            Err(message) => own.add(Problem::new(message)),
        }
        for problem in own.into_problems() {
            self.tell(&record.label, problem);
        }
        if self.told < MAX_TOLD {
            return ControlFlow::Continue(());
        }
        let message = format!("`{}` was not read to its end: it has more problems than can be told", self.file);
        self.complaints.add(Problem::at(self.place, message));
        ControlFlow::Break(())
    }

    /// A problem of the data file, told where the task names it.
    fn tell(&mut self, label: &str, problem: Problem) {
        self.told += 1;
        let said: String = problem.message.chars().take(MAX_SAID).collect();
        let message = format!("`{}`, {label}: {said}", self.file);
        self.complaints.add(Problem { place: Some(self.place), message, hint: problem.hint });
    }
}

impl Dataset {
    /// The id nearest to one that does not exist.
    pub(super) fn nearest(&self, id: &str) -> Option<String> {
        let ids: Vec<String> = self.samples.iter().map(|sample| sample.id.to_string()).collect();
        nearest_word(id, ids.iter().map(String::as_str)).map(str::to_owned)
    }
}
