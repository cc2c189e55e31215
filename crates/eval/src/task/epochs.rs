//! `epochs:`, a number, or a number and what is made of the scores.

use std::str::FromStr;

use profile::Problem;
use profile::source::{Complaints, Fields, Node, Value, parsed};

use super::amounts::{count, count_of};
use super::{Epochs, Reducer, kinds};

/// The most epochs that a task may have.
pub(super) const MOST_EPOCHS: u32 = 10_000;
const REDUCERS: &str = "mean, median, mode, max, at_least_K, pass_at_K";

impl FromStr for Reducer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| (1..=MOST_EPOCHS).contains(number));
        let known = match text {
            "mean" => Some(Self::Mean),
            "median" => Some(Self::Median),
            "mode" => Some(Self::Mode),
            "max" => Some(Self::Max),
            _ => match (text.strip_prefix("at_least_"), text.strip_prefix("pass_at_")) {
                (Some(rest), _) => number(rest).map(Self::AtLeast),
                (None, Some(rest)) => number(rest).map(Self::PassAt),
                (None, None) => None,
            },
        };
        known.ok_or_else(|| format!("`{text}` is not a reducer: use {REDUCERS}, such as pass_at_5"))
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self { count: 1, reducers: vec![Reducer::Mean] }
    }
}

impl Epochs {
    /// Reads `epochs:`, a number or `{count, reducer}`.
    pub(super) fn read(node: Node, complaints: &Complaints) -> Self {
        let mut epochs = Self::default();
        if !matches!(node.value, Value::Map(_)) {
            epochs.count = count_of(&node, "epochs", MOST_EPOCHS, complaints).unwrap_or(1);
            return epochs;
        }
        let Some(mut fields) = Fields::open(node, "`epochs`", &["count", "reducer"], complaints) else { return epochs };
        if !fields.has("count") {
            complaints
                .add(Problem::at(fields.place(), "`epochs` needs a `count`").hint("write {count: 3, reducer: mean}"));
        }
        let stated = count(&mut fields, "count", MOST_EPOCHS);
        epochs.count = stated.unwrap_or(1);
        if let Some(node) = fields.take("reducer") {
            let place = node.place;
            epochs.reducers = reducers(node, complaints);
            if let (Some(_), Some(problem)) = (stated, epochs.too_few()) {
                complaints.add(Problem { place: Some(place), ..problem });
            }
        }
        fields.close();
        epochs
    }

    /// Whether a reducer needs more epochs than there are.
    pub(crate) fn too_few(&self) -> Option<Problem> {
        let reducer = self.reducers.iter().find(|reducer| reducer.needs() > self.count)?;
        let message = format!("`{reducer}` needs {} epochs, and there are {}", reducer.needs(), self.count);
        Some(
            Problem::new(message)
                .hint(format!("ask each sample {} times, or choose a smaller number", reducer.needs())),
        )
    }
}

/// One reducer or several.
pub(super) fn reducers(node: Node, complaints: &Complaints) -> Vec<Reducer> {
    let place = node.place;
    let nodes = kinds::one_or_many(node);
    if nodes.is_empty() {
        complaints.add(Problem::at(place, "`reducer` is empty").hint(format!("write one of {REDUCERS}")));
    }
    let read = nodes.into_iter().filter_map(|node| parsed::<Reducer>(node, "reducer", complaints, |_| None));
    read.map(|reducer| reducer.value).collect()
}
