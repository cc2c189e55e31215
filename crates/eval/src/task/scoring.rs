//! Scorers beside a task: what `score` is told to judge a log by.

use std::collections::BTreeMap;
use std::path::Path;

use profile::source::{self, Complaints, Fields, Node, Value};
use profile::{Located, MAX_DOCUMENT_BYTES, Problem, Problems};

use super::files::{Beside, Files, read_at_most};
use super::{Metric, MockReply, Reducer, Role, Scorer, epochs, metrics, roles, scorer};

const KEYS: &[&str] = &["scorer", "metrics", "reducer", "model_roles", "mock_roles"];

/// How a log is judged.
#[derive(Debug, Clone, Default)]
pub struct Scoring {
    /// Where this is from, for messages.
    pub origin: String,
    /// By what.
    pub scorers: Vec<Scorer>,
    /// What it comes to; absent means accuracy, mean and standard error.
    pub metrics: Option<Vec<Metric>>,
    /// What is made of epochs; absent means what the log says.
    pub reducers: Option<Vec<Reducer>>,
    /// Who answers in which role.
    pub model_roles: BTreeMap<String, Role>,
    /// What `mock/scripted` says in each role.
    pub mock_roles: BTreeMap<String, Vec<MockReply>>,
}

/// A file that lies nowhere.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path, _: u64) -> std::io::Result<Vec<u8>> {
        Err(nowhere())
    }

    fn locate(&self, _: &Path, _: u64) -> std::io::Result<super::HostFile> {
        Err(nowhere())
    }
}

fn nowhere() -> std::io::Error {
    std::io::Error::other("files can be named in a file only: write the scorer into one")
}

impl Scoring {
    /// Reads a kind, `{kind: …}`, or the file of that name.
    pub fn load(stated: &str) -> Result<Self, Problems> {
        let path = Path::new(stated);
        let is_file = path
            .extension()
            .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known)));
        if !is_file || stated.trim_start().starts_with(['{', '[']) {
            return Self::parse("--scorer", stated, &NoFiles);
        }
        let failed = |error: std::io::Error| Problems {
            origin: stated.to_owned(),
            problems: vec![Problem::new(format!("it cannot be read: {error}"))],
        };
        let most = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX);
        let bytes = read_at_most(path, most).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error)))?;
        let files = Beside::task(path).map_err(failed)?;
        Self::parse(stated, &text, &files)
    }

    /// Reads a kind, one scorer or several, or `{scorer, metrics, reducer, model_roles, mock_roles}`.
    pub fn parse(origin: &str, text: &str, files: &dyn Files) -> Result<Self, Problems> {
        let complaints = Complaints::default();
        let scoring = match source::parse(text) {
            Ok(node) => read(origin, node, &complaints, files),
            Err(problem) => {
                complaints.add(problem);
                None
            }
        };
        match (scoring, complaints.into_problems()) {
            (Some(scoring), problems) if problems.is_empty() => Ok(scoring),
            (_, problems) => Err(Problems { origin: origin.to_owned(), problems }),
        }
    }

    /// Adds metrics as the command line names them: a word, or `{word: {…}}`.
    pub fn add_metric(&mut self, text: &str) -> Result<(), Problems> {
        let complaints = Complaints::default();
        let read = match source::parse(text) {
            Ok(node) => metrics::read(node, &complaints),
            Err(problem) => {
                complaints.add(problem);
                Vec::new()
            }
        };
        match complaints.into_problems() {
            problems if problems.is_empty() => {
                self.metrics.get_or_insert_default().extend(read);
                Ok(())
            }
            problems => Err(Problems { origin: "--metric".into(), problems }),
        }
    }

    /// Takes the scorers of another; what both say otherwise is the other's.
    pub fn join(&mut self, other: Self) {
        self.origin = other.origin;
        self.scorers.extend(other.scorers);
        self.metrics = other.metrics.or(self.metrics.take());
        self.reducers = other.reducers.or(self.reducers.take());
        self.model_roles.extend(other.model_roles);
        self.mock_roles.extend(other.mock_roles);
    }
}

fn read(origin: &str, node: Node, complaints: &Complaints, files: &dyn Files) -> Option<Scoring> {
    let place = node.place;
    let is_whole = match &node.value {
        Value::Map(entries) => !entries.iter().any(|(key, _)| key.name == "kind"),
        _ => false,
    };
    let mut scoring = Scoring { origin: origin.to_owned(), ..Scoring::default() };
    let scorers = if is_whole {
        let mut fields = Fields::open(node, "a file of scorers", KEYS, complaints)?;
        let scorers = fields.take("scorer").map(|node| scorer::read(node, complaints, files)).unwrap_or_default();
        scoring.metrics = fields.take("metrics").map(|node| metrics::read(node, complaints));
        scoring.reducers = fields.take("reducer").map(|node| epochs::reducers(node, complaints));
        scoring.model_roles = fields.take("model_roles").map(|node| roles::read(node, complaints)).unwrap_or_default();
        scoring.mock_roles =
            fields.take("mock_roles").map(|node| roles::read_mocks(node, complaints)).unwrap_or_default();
        fields.close();
        scorers
    } else {
        scorer::read(node, complaints, files)
    };
    if scorers.is_empty() && complaints.is_empty() {
        complaints.add(Problem::at(place, "there is no scorer").hint("write scorer: f1, or another kind"));
    }
    for Located { place, value } in scorers {
        if matches!(value, Scorer::Script { .. }) {
            complaints.add(Problem {
                place,
                message: "a `script` judges what an agent left in its sandbox, which a log does not hold".into(),
                hint: Some("run the task again with this scorer".into()),
            });
        }
        scoring.scorers.push(value);
    }
    Some(scoring)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let problems = Scoring::parse("x", text, &NoFiles).unwrap_err().problems;
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn scorers_are_named_or_written_down() {
        assert_eq!(Scoring::load("f1").unwrap().scorers, [Scorer::F1 { stop_words: Vec::new() }]);
        assert!(matches!(
            Scoring::load("{kind: match, numeric: true}").unwrap().scorers.as_slice(),
            [Scorer::Match { numeric: true, .. }]
        ));
        assert_eq!(Scoring::load("[exact, choice]").unwrap().scorers.len(), 2);
        let whole = Scoring::parse("x", "scorer: exact\nmetrics: [std]\nreducer: median\n", &NoFiles).unwrap();
        assert_eq!((whole.metrics, whole.reducers), (Some(vec![Metric::Std]), Some(vec![Reducer::Median])));
        let mut more = Scoring::load("exact").unwrap();
        more.add_metric("accuracy").unwrap();
        more.add_metric("{stderr: {cluster: k}}").unwrap();
        assert_eq!(more.metrics.as_ref().map(Vec::len), Some(2));
        assert!(more.add_metric("acuracy").is_err());
    }

    #[test]
    fn what_a_log_cannot_be_judged_by_is_refused() {
        assert!(said("{kind: script, script: 'true'}")[0].contains("which a log does not hold"));
        assert!(said("scorer: exact\ndataset: []")[0].contains("dataset"));
        assert!(said("[]")[0].contains("no scorer"));
        assert!(said("{kind: model_graded_qa, template: {file: t.txt}}")[0].contains("t.txt"));
    }
}
