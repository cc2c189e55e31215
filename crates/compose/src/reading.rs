//! What one reading gathers: problems, refusals, records, and the variables that it took.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use profile::source::{Complaints, Node, Value};
use profile::{Cause, Place, Problem, Unmet};
use serde::Serialize;

use crate::names::ServiceName;
use crate::template::expand;

/// The most that all variables of one file may become.
const MAX_ALL_EXPANDED_BYTES: usize = 4 << 20;

/// Keys below which keys are names, and `x-…` is one like any other.
const NAMED: &[&str] =
    &["args", "depends_on", "environment", "extra_hosts", "networks", "services", "ulimits", "volumes"];
/// Keys of which a daemon is told.
const ASKED_OF_DAEMON: &[&str] = &["build", "image"];

/// What lies around a Compose file: all that reading it may look at.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The runner's environment, or the part of it that a task may see. What is handed out here may end in a sandbox.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// What the sample says of itself, after the runner's environment: `SAMPLE_METADATA_…`, as Inspect has it.
    pub sample: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file as seen from the Compose file's directory. It follows no link out of there, and stops at
    /// [`MAX_FILE_BYTES`](crate::MAX_FILE_BYTES).
    pub files: &'a dyn Fn(&Path) -> io::Result<String>,
    /// How many directories above the Compose file's own belong to the task; 0 is the narrowest.
    pub levels_up: usize,
}

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// Where, in the file that `file` names.
    pub place: Option<Place>,
    /// The included file; `None` is the Compose file itself.
    pub file: Option<String>,
    /// Whose, if it is a service's.
    pub service: Option<ServiceName>,
    /// Which key.
    pub key: String,
    /// Why.
    pub why: String,
}

/// Where a variable's value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The runner's environment: worth a look, and worth redacting.
    Environment,
    /// What the sample says of itself.
    Sample,
    /// The file `.env`.
    DotEnv,
    /// Nowhere: it is empty, or has the default that the file gives.
    Nowhere,
}

/// What gathers while one file is read.
pub(crate) struct Reading<'a> {
    pub(crate) around: Surroundings<'a>,
    /// The file's directory, as seen from the first file's.
    pub(crate) base: PathBuf,
    /// The file, if it is an included one.
    pub(crate) file: Option<String>,
    /// The file's lines: how a value was written is sometimes more than what it is.
    pub(crate) lines: Vec<String>,
    /// The service that is being read.
    pub(crate) service: RefCell<Option<ServiceName>>,
    /// What `.env` says.
    pub(crate) dotenv: BTreeMap<String, String>,
    pub(crate) complaints: Complaints,
    pub(crate) refused: RefCell<Vec<Unmet>>,
    pub(crate) ignored: RefCell<Vec<Ignored>>,
    pub(crate) taken: RefCell<BTreeMap<String, Origin>>,
    /// The runner's variables that became part of an image's name or of a build.
    pub(crate) told_daemon: RefCell<BTreeSet<String>>,
    /// The runner's variables that `.env` is made of.
    pub(crate) in_dotenv: BTreeSet<String>,
    tells_daemon: Cell<bool>,
    expanded: Cell<usize>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(around: Surroundings<'a>, base: PathBuf, file: Option<String>) -> Self {
        Self {
            around,
            base,
            file,
            lines: Vec::new(),
            service: RefCell::default(),
            dotenv: BTreeMap::new(),
            complaints: Complaints::default(),
            refused: RefCell::default(),
            ignored: RefCell::default(),
            taken: RefCell::default(),
            told_daemon: RefCell::default(),
            in_dotenv: BTreeSet::new(),
            tells_daemon: Cell::new(false),
            expanded: Cell::new(0),
        }
    }

    pub(crate) fn problem(&self, place: Place, message: impl Display) {
        self.complain(Problem::at(place, message.to_string()));
    }

    pub(crate) fn problem_with_hint(&self, place: Place, message: impl Display, hint: impl Into<String>) {
        self.complain(Problem::at(place, message.to_string()).hint(hint));
    }

    pub(crate) fn complain(&self, problem: Problem) {
        self.complaints.add(problem);
    }

    /// Refuses a well-formed wish. `what` follows "service `x` asks for".
    pub(crate) fn refuse(&self, place: Place, key: &str, what: impl Display, why: impl Display) {
        self.refuse_with_hint(place, key, what, why, None);
    }

    pub(crate) fn refuse_with_hint(
        &self,
        place: Place,
        key: &str,
        what: impl Display,
        why: impl Display,
        hint: Option<&str>,
    ) {
        let who = match (self.service.borrow().as_ref(), &self.file) {
            (Some(service), None) => format!("service `{service}`"),
            (Some(service), Some(file)) => format!("service `{service}` of {file}"),
            (None, Some(file)) => format!("the file {file}"),
            (None, None) => "the file".to_owned(),
        };
        let reason = format!("{who} asks for {what}: {why}");
        let mut unmet = Unmet::new(Cause::Contradiction, format!("compose.{key}"), reason).at(Some(place));
        unmet.hint = hint.map(str::to_owned);
        self.refused.borrow_mut().push(unmet);
    }

    pub(crate) fn ignore(&self, place: Place, key: impl Into<String>, why: impl Into<String>) {
        self.ignored.borrow_mut().push(Ignored {
            place: Some(place),
            file: self.file.clone(),
            service: self.service.borrow().clone(),
            key: key.into(),
            why: why.into(),
        });
    }

    /// Whether a number stands at `place` in the very digits that it is printed with: `0123` and `1.10` are others when read.
    pub(crate) fn is_written_as(&self, place: Place, number: &str) -> bool {
        let line = usize::try_from(place.line).ok().and_then(|line| self.lines.get(line.checked_sub(1)?));
        let Some(line) = line else { return true };
        let before = usize::try_from(place.column).unwrap_or(usize::MAX).saturating_sub(1);
        let written: String =
            line.chars().skip(before).take_while(|c| !matches!(c, ' ' | '\t' | ',' | '}' | ']')).collect();
        // An alias or a merge stands for a number that is written elsewhere.
        written == number || written.starts_with(['*', '<'])
    }

    /// A variable's value; who had it is written down.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let outer = (self.around.variables)(name).map(|value| (value, Origin::Environment));
        let outer = outer.or_else(|| (self.around.sample)(name).map(|value| (value, Origin::Sample)));
        let found = outer.or_else(|| self.dotenv.get(name).map(|value| (value.clone(), Origin::DotEnv)));
        let (value, origin) = found.map_or((None, Origin::Nowhere), |(value, origin)| (Some(value), origin));
        self.taken.borrow_mut().insert(name.to_owned(), origin);
        if self.tells_daemon.get() {
            match origin {
                Origin::Environment => drop(self.told_daemon.borrow_mut().insert(name.to_owned())),
                // Whichever of them it was made of.
                Origin::DotEnv => self.told_daemon.borrow_mut().extend(self.in_dotenv.iter().cloned()),
                Origin::Sample | Origin::Nowhere => {}
            }
        }
        value
    }

    /// Reads something that a daemon will be told, outside of every network rule.
    pub(crate) fn for_daemon<T>(&self, read: impl FnOnce() -> T) -> T {
        let before = self.tells_daemon.replace(true);
        let value = read();
        self.tells_daemon.set(before);
        value
    }

    /// Puts variables into every text of what a key has, but not into keys, nor below keys `x-…` that nobody reads.
    pub(crate) fn expand(&self, key: &str, node: Node) -> Node {
        if ASKED_OF_DAEMON.contains(&key) && !self.tells_daemon.get() {
            return self.for_daemon(|| self.expand(key, node));
        }
        let are_names = NAMED.contains(&key);
        let is_read = |key: &str| are_names || !key.starts_with("x-") || matches!(key, "x-default" | "x-local");
        let value = match node.value {
            Value::Text(text) if text.contains('$') => {
                // A text that could not be expanded is no value: nobody need complain about it twice.
                self.expand_text(node.place, &text).map_or(Value::Null, Value::Text)
            }
            Value::List(items) => {
                let expanded = items.into_iter().filter_map(|item| {
                    let was_there = item.value != Value::Null;
                    let item = self.expand("", item);
                    (!was_there || item.value != Value::Null).then_some(item)
                });
                Value::List(expanded.collect())
            }
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .filter(|(key, _)| is_read(&key.name))
                    .map(|(key, value)| {
                        let value = self.expand(if are_names { "" } else { &key.name }, value);
                        (key, value)
                    })
                    .collect(),
            ),
            other => other,
        };
        Node { place: node.place, value }
    }

    fn expand_text(&self, place: Place, text: &str) -> Option<String> {
        if self.expanded.get() > MAX_ALL_EXPANDED_BYTES {
            return None;
        }
        match expand(text, &|name| self.variable(name)) {
            Ok(value) => {
                self.expanded.set(self.expanded.get().saturating_add(value.len()));
                if self.expanded.get() > MAX_ALL_EXPANDED_BYTES {
                    self.problem(place, format!("all variables together are more than {MAX_ALL_EXPANDED_BYTES} bytes"));
                }
                Some(value)
            }
            Err(error) => {
                let shown: String = text.chars().take(80).collect();
                self.problem_with_hint(place, format!("`{shown}`: {error}"), error.hint());
                None
            }
        }
    }
}
