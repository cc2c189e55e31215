//! Text to [`Task`].

use std::collections::BTreeMap;
use std::path::Path;

use profile::source::{self, Complaints, Fields, Key, Node, Value};
use profile::{Document, Located, MAX_DOCUMENT_BYTES, Problem, Problems};

use super::files::{Beside, Files, read_at_most};
use super::parameters::Parameters;
use super::sources::{Remembered, sha256};
use super::{
    Epochs, Limits, Metric, RunLimits, Solver, Sources, Task, amounts, base, check, dataset, generate, metrics, mock,
    parameters, roles, scorer, solver, when,
};

const OWN: [&str; 14] = [
    "name",
    "dataset",
    "solver",
    "scorer",
    "metrics",
    "epochs",
    "model",
    "model_roles",
    "generate",
    "mock",
    "mock_roles",
    "tags",
    "metadata",
    "parameters",
];
/// A task's keys: its own, then those of a profile document.
const KEYS: &[&str] = &{
    let mut keys = [""; OWN.len() + Document::KEYS.len()];
    let mut index = 0;
    while index < keys.len() {
        keys[index] = if index < OWN.len() { OWN[index] } else { Document::KEYS[index - OWN.len()] };
        index += 1;
    }
    keys
};
/// What to do about a task that is not the same any more.
const CHANGED: &str = "finished samples were made by the task as it was: run it anew with `ringfence eval`, bring the files \
    back, or say --changed-task to keep them all the same";
/// The longest name of a task.
const MAX_NAME_CHARACTERS: usize = 100;

impl Task {
    /// Reads a task's file and what it includes. `parameters` are what the command line gives.
    pub fn load(path: &Path, parameters: &BTreeMap<String, String>) -> Result<Self, Problems> {
        Self::load_same(path, parameters, None)
    }

    /// The same, if it is still the task that it was. A file that is another one is not even looked into: nothing of it is
    /// in any message.
    pub fn load_same(
        path: &Path,
        parameters: &BTreeMap<String, String>,
        expected: Option<&Sources>,
    ) -> Result<Self, Problems> {
        let origin = path.display().to_string();
        let failed = |error: std::io::Error| Problems {
            origin: origin.clone(),
            problems: vec![Problem::new(format!("it cannot be read: {error}"))],
        };
        let most = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX);
        let bytes = read_at_most(path, most).map_err(failed)?;
        let changed = |what: &str| Problems {
            origin: origin.clone(),
            problems: vec![Problem::new(format!("{what} since the log was made")).hint(CHANGED)],
        };
        if expected.is_some_and(|expected| expected.task != sha256(&bytes)) {
            return Err(changed("the task file has changed"));
        }
        let text = String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error)))?;
        let beside = Beside::task(path).map_err(failed)?;
        let files = Remembered::new(&beside);
        let mut task = Self::parse(origin.clone(), &text, parameters, &files)?;
        task.included = files.paths().iter().map(|relative| beside.path().join(relative)).collect();
        // As it was named: a link on the way decides too.
        task.included.push(path.to_owned());
        task.sources = files.sources(text.as_bytes());
        if expected.is_some_and(|expected| *expected != task.sources) {
            return Err(changed("a file that the task includes has changed"));
        }
        Ok(task)
    }

    /// Reads a task; `origin` names it in messages, `files` are those beside it.
    pub fn parse(
        origin: impl Into<String>,
        text: &str,
        parameters: &BTreeMap<String, String>,
        files: &dyn Files,
    ) -> Result<Self, Problems> {
        let origin = origin.into();
        let complaints = Complaints::default();
        let task = match source::parse(text) {
            Ok(node) => read(&origin, node, parameters, &complaints, files),
            Err(problem) => {
                complaints.add(about_braces(problem, text));
                None
            }
        };
        match (task, complaints.into_problems()) {
            (Some(task), problems) if problems.is_empty() => Ok(task),
            (_, problems) => Err(Problems { origin, problems }),
        }
    }
}

/// `key: {{name}}` is not what it seems: in YAML, braces open mappings.
fn about_braces(problem: Problem, text: &str) -> Problem {
    let line = problem.place.and_then(|place| usize::try_from(place.line).ok()).and_then(|line| line.checked_sub(1));
    match line.and_then(|line| text.lines().nth(line)) {
        Some(line) if problem.hint.is_none() && line.contains("{{") => {
            problem.hint("a value that begins with {{ must stand in quotes: \"{{name}}\"")
        }
        _ => problem,
    }
}

fn read(
    origin: &str,
    mut node: Node,
    given: &BTreeMap<String, String>,
    complaints: &Complaints,
    files: &dyn Files,
) -> Option<Task> {
    let mut parameters = Parameters::new();
    let (mut limits, mut run_limits) = (Limits::default(), RunLimits::default());
    if let Value::Map(entries) = &mut node.value {
        parameters = parameters::read(take(entries, "parameters"), given, complaints);
        parameters::fill(entries, &parameters, complaints);
        // A parameter without a value would show as a problem wherever it is used.
        if !complaints.is_empty() {
            return None;
        }
        when::choose(entries, complaints);
        base::include(entries, complaints, files);
        (limits, run_limits) = Limits::take(entries, complaints);
    }
    let mut fields = Fields::open(node, "a task", KEYS, complaints)?;
    let document = Document::read(origin, &mut fields);
    let name = read_name(&mut fields, origin);
    if !fields.has("dataset") {
        complaints.add(
            Problem::at(fields.place(), "a task needs a `dataset`")
                .hint("write dataset: [{input: What is 2+2?, target: 4}] or dataset: questions.jsonl"),
        );
    }
    let dataset = fields.take("dataset").map(|node| dataset::read(node, &name, complaints, files));
    let declared: Vec<String> = document.tools.iter().flatten().map(|tool| tool.value.name.clone()).collect();
    let solvers = match fields.take("solver") {
        Some(node) => solver::read(node, &declared, complaints, files),
        None => vec![Located::nowhere(Solver::Generate)],
    };
    let scorers = fields.take("scorer").map(|node| scorer::read(node, complaints, files)).unwrap_or_default();
    let metrics = match fields.take("metrics") {
        Some(node) => Located::at(node.place, metrics::read(node, complaints)),
        None => Located::nowhere(Metric::defaults()),
    };
    let epochs = fields.take("epochs").map(|node| Epochs::read(node, complaints)).unwrap_or_default();
    let model = amounts::words(&mut fields, "model");
    let generate = fields.take("generate").map(|node| generate::read(node, complaints)).unwrap_or_default();
    let model_roles = fields.take("model_roles").map(|node| roles::read(node, complaints)).unwrap_or_default();
    let mock = fields.take("mock").map(|node| mock::read(node, complaints)).unwrap_or_default();
    let mock_roles = fields.take("mock_roles").map(|node| roles::read_mocks(node, complaints)).unwrap_or_default();
    let tags: Vec<String> = fields
        .list("tags")
        .into_iter()
        .filter_map(|tag| source::text(tag, "tags", complaints))
        .map(|tag| tag.value)
        .collect();
    let metadata =
        fields.take("metadata").and_then(|node| amounts::object(node, "metadata", complaints)).unwrap_or_default();
    fields.close();
    let dataset = dataset?;
    // What could not be read would be missed here too.
    if complaints.is_empty() {
        check::together(&solvers, &scorers, &dataset.samples, complaints);
        check::measurable(&metrics, &dataset.samples, complaints);
    }
    Some(Task {
        name,
        origin: origin.to_owned(),
        document,
        dataset,
        solvers: solvers.into_iter().map(|solver| solver.value).collect(),
        scorers: scorers.into_iter().map(|scorer| scorer.value).collect(),
        metrics: metrics.value,
        epochs,
        limits,
        run_limits,
        model,
        generate,
        model_roles,
        mock,
        mock_roles,
        tags,
        metadata,
        parameters: in_force(parameters, complaints),
        included: Vec::new(),
        sources: Sources::default(),
    })
}

fn take(entries: &mut Vec<(Key, Node)>, name: &str) -> Option<Node> {
    let index = entries.iter().position(|(key, _)| key.name == name)?;
    Some(entries.remove(index).1)
}

/// Without a name of its own, a task has its file's.
fn read_name(fields: &mut Fields<'_>, origin: &str) -> String {
    let place = fields.place_of("name");
    let name = amounts::words(fields, "name");
    if name
        .as_ref()
        .is_some_and(|name| name.chars().count() > MAX_NAME_CHARACTERS || name.chars().any(char::is_control))
    {
        let message = format!("`name` must be at most {MAX_NAME_CHARACTERS} characters on one line");
        fields.complaints().add(Problem { place, message, hint: None });
    }
    name.or_else(|| Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "task".to_owned())
}

fn in_force(parameters: Parameters, complaints: &Complaints) -> BTreeMap<String, serde_json::Value> {
    let place = profile::Place { line: 1, column: 1 };
    let value = |value| amounts::json(Node { place, value }, complaints);
    parameters.into_iter().filter_map(|(name, given)| Some((name, value(given?)?))).collect()
}
