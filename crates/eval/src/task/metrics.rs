//! `metrics:`, what the scores of all samples come to.

use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, nearest_word};

use super::amounts::{count, words};
use super::{AllGroups, Metric, kinds};

const NAMES: [&str; 7] = ["accuracy", "mean", "std", "var", "stderr", "bootstrap", "grouped"];
const RESAMPLES: u32 = 1000;
const MOST_RESAMPLES: u32 = 10_000;
const LEVEL: f64 = 0.95;

/// Reads all of them; an empty list is a mistake.
pub(super) fn read(node: Node, complaints: &Complaints) -> Vec<Metric> {
    let place = node.place;
    let nodes = kinds::one_or_many(node);
    if nodes.is_empty() {
        complaints.add(Problem::at(place, "`metrics` is empty").hint("write [accuracy, stderr], or remove the key"));
    }
    nodes.into_iter().filter_map(|node| read_one(node, complaints)).collect()
}

/// `name`, or `{name: {…}}`.
fn read_one(node: Node, complaints: &Complaints) -> Option<Metric> {
    let place = node.place;
    let known = || format!("metrics are {}", NAMES.join(", "));
    let (name, options) = match node.value {
        Value::Text(name) => (name, Node { place, value: Value::Map(Vec::new()) }),
        Value::Map(mut entries) if entries.len() == 1 => {
            let (key, options) = entries.remove(0);
            (key.name, options)
        }
        other => {
            let said =
                format!("a metric must be a word, or a mapping of one word to its options, found {}", other.kind());
            complaints.add(Problem::at(place, said).hint(known()));
            return None;
        }
    };
    match name.as_str() {
        "accuracy" | "mean" | "std" | "var" => {
            Fields::open(options, "this metric", &[], complaints)?.close();
            Some(match name.as_str() {
                "accuracy" => Metric::Accuracy,
                "mean" => Metric::Mean,
                "std" => Metric::Std,
                _ => Metric::Var,
            })
        }
        "stderr" => {
            let mut fields = Fields::open(options, "`stderr`", &["cluster"], complaints)?;
            let cluster = words(&mut fields, "cluster");
            fields.close();
            Some(Metric::Stderr { cluster })
        }
        "bootstrap" => read_bootstrap(options, complaints),
        "grouped" => read_grouped(options, complaints),
        other => {
            let problem = Problem::at(place, format!("`{other}` is not a metric"));
            complaints.add(match nearest_word(other, NAMES) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(known()),
            });
            None
        }
    }
}

fn read_bootstrap(options: Node, complaints: &Complaints) -> Option<Metric> {
    let mut fields = Fields::open(options, "`bootstrap`", &["resamples", "level"], complaints)?;
    let resamples = count(&mut fields, "resamples", MOST_RESAMPLES).unwrap_or(RESAMPLES);
    let mut level = LEVEL;
    if let Some(node) = fields.take("level") {
        match node.value {
            Value::Float(stated) if stated > 0.0 && stated < 1.0 => level = stated,
            _ => complaints.add(
                Problem::at(node.place, "`level` must be a number between 0 and 1, such as 0.95")
                    .hint("it is the share of draws that lie in the interval"),
            ),
        }
    }
    fields.close();
    Some(Metric::Bootstrap { resamples, level })
}

fn read_grouped(options: Node, complaints: &Complaints) -> Option<Metric> {
    let mut fields = Fields::open(options, "`grouped`", &["by", "metrics", "all"], complaints)?;
    if !fields.has("by") {
        complaints.add(
            Problem::at(fields.place(), "`grouped` needs a `by`: a name of the samples' metadata")
                .hint("write {grouped: {by: difficulty, metrics: [accuracy]}}"),
        );
    }
    let by = words(&mut fields, "by");
    let metrics = match fields.take("metrics") {
        None => vec![Metric::Accuracy],
        Some(node) => {
            let place = node.place;
            let inner = read(node, complaints);
            if inner.iter().any(|metric| matches!(metric, Metric::Grouped { .. })) {
                complaints.add(Problem::at(place, "groups have no groups").hint("write `grouped` twice, side by side"));
            }
            inner
        }
    };
    let all = match fields.take("all") {
        None => AllGroups::Samples,
        Some(node) => match &node.value {
            Value::Text(text) if text == "samples" => AllGroups::Samples,
            Value::Text(text) if text == "groups" => AllGroups::Groups,
            Value::Text(text) if text == "none" => AllGroups::None,
            Value::Bool(false) => AllGroups::None,
            _ => {
                complaints.add(Problem::at(node.place, "`all` must be samples, groups or none"));
                AllGroups::None
            }
        },
    };
    fields.close();
    Some(Metric::Grouped { by: by?, metrics, all })
}
