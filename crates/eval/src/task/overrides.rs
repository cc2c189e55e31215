//! What the command line says about a task.

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;

use profile::{Problem, Problems};

use super::epochs::MOST_EPOCHS;
use super::{Epochs, Limits, Role, RunLimits, Task, roles};

/// What the command line may say; absent means what the file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskOverrides {
    /// Which samples, by position.
    pub limit: Option<Slice>,
    /// Which samples, by name; empty means all. Taken before the limit.
    pub sample_ids: Vec<String>,
    /// How often each is asked.
    pub epochs: Option<u32>,
    /// Which model answers.
    pub model: Option<String>,
    /// Who answers in a role.
    pub model_roles: BTreeMap<String, Vec<String>>,
    /// Limits of one sample.
    pub limits: Limits,
    /// Milliseconds that one sample may take.
    pub time: Option<profile::Millis>,
    /// Limits of all samples together.
    pub run_limits: RunLimits,
    /// Further tags.
    pub tags: Vec<String>,
}

/// The first samples, or those from one position to another: `10` or `5-10`, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The first position; at least 1.
    pub first: usize,
    /// The last position; never before the first.
    pub last: usize,
}

/// A text that is not a slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a number of samples, such as 10, or positions, such as 5-10")]
pub struct ParseSliceError(String);

impl std::fmt::Display for Slice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}-{}", self.first, self.last)
    }
}

impl FromStr for Slice {
    type Err = ParseSliceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let slice = match text.split_once('-') {
            Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
            None => text.parse().ok().map(|last| (1, last)),
        };
        let slice = slice.filter(|(first, last)| *first >= 1 && first <= last && !text.contains('+'));
        slice.map(|(first, last)| Self { first, last }).ok_or_else(|| ParseSliceError(text.to_owned()))
    }
}

impl Task {
    /// The names of its solvers, in their order.
    pub fn solver_names(&self) -> Vec<&'static str> {
        self.solvers.iter().map(crate::solve::name_of).collect()
    }

    /// Puts the command line on top of the file. Nothing is changed if something is wrong.
    pub fn apply(&mut self, overrides: TaskOverrides) -> Result<(), Problems> {
        let mut problems = Vec::new();
        let known: HashSet<String> = self.dataset.samples.iter().map(|sample| sample.id.to_string()).collect();
        for id in overrides.sample_ids.iter().filter(|id| !known.contains(*id)) {
            let problem = Problem::new(format!("the data set has no sample `{id}`"));
            problems.push(match self.dataset.nearest(id) {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(format!("it has {} samples", self.dataset.samples.len())),
            });
        }
        let ids: HashSet<&str> = overrides.sample_ids.iter().map(String::as_str).collect();
        let chosen = |id: &str| ids.is_empty() || ids.contains(id);
        let left = self.dataset.samples.iter().filter(|sample| chosen(&sample.id.to_string())).count();
        if let Some(slice) = overrides.limit.filter(|slice| slice.first > left && problems.is_empty()) {
            problems.push(Problem::new(format!("no sample is at position {}: there are {left}", slice.first)));
        }
        if let Some(count) = overrides.epochs.filter(|count| !(1..=MOST_EPOCHS).contains(count)) {
            problems.push(Problem::new(format!("epochs must be from 1 to {MOST_EPOCHS}, found {count}")));
        }
        if let Some(count) = overrides.epochs.filter(|count| *count > 0) {
            problems.extend(Epochs { count, reducers: self.epochs.reducers.clone() }.too_few());
        }
        if overrides.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            problems.push(Problem::new("the model's name is empty"));
        }
        for role in overrides.model_roles.keys().filter(|role| *role == roles::AGENT || !roles::is_name(role)) {
            problems.push(
                Problem::new(format!("`{role}` is not a role that a model can have"))
                    .hint("the agent's model is --model; other roles are words of small letters, such as grader"),
            );
        }
        if !problems.is_empty() {
            return Err(Problems { origin: "the command line".into(), problems });
        }

        self.dataset.samples.retain(|sample| chosen(&sample.id.to_string()));
        if let Some(slice) = overrides.limit {
            self.dataset.samples.truncate(slice.last);
            self.dataset.samples.drain(..slice.first - 1);
        }
        self.epochs.count = overrides.epochs.unwrap_or(self.epochs.count);
        self.limits = overrides.limits.or(self.limits);
        let RunLimits { time, sums } = overrides.run_limits;
        self.run_limits = RunLimits { time: time.or(self.run_limits.time), sums: sums.or(self.run_limits.sums) };
        if let Some(amount) = overrides.time {
            self.document.limits.time = profile::Limit { amount, stated: profile::Stated::CommandLine };
        }
        self.command_models(overrides.model, overrides.model_roles);
        for sample in &mut self.dataset.samples {
            sample.own.limits.yield_to(&overrides.limits);
        }
        self.tags.extend(overrides.tags);
        Ok(())
    }

    /// Whoever gives a command says who answers, whatever samples say: nobody else is asked.
    fn command_models(&mut self, model: Option<String>, roles: BTreeMap<String, Vec<String>>) {
        for sample in &mut self.dataset.samples {
            if model.is_some() {
                sample.own.model = None;
            }
            sample.own.model_roles.retain(|role, _| !roles.contains_key(role));
        }
        self.model = model.or(self.model.take());
        for (role, models) in roles {
            let generate = self.model_roles.remove(&role).map(|role| role.generate).unwrap_or_default();
            self.model_roles.insert(role, Role { models, generate });
        }
    }
}
