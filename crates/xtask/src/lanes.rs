//! The table of lanes, as lanes.toml has it: parsed once, every name in it checked against tools.toml.
//!
//! It knows what a lane is. What a selector such as `sandbox/tests` comes to is `workspace.rs`'s, how steps run is `run.rs`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use crate::tasks::Task;
use crate::tools::Tools;
use crate::workspace::Selector;

/// How long a program may take unless its step says otherwise.
const USUAL_MINUTES: u64 = 30;

/// When a lane runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Size {
    /// Always: it is about the embedded product.
    Default,
    /// With `all`: it needs other people's systems.
    All,
    /// By name only.
    Hand,
}

/// What answers a lane's Docker clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    Docker,
    /// Docker with gVisor's runtime.
    Gvisor,
    /// Podman's service for clients of Docker.
    Podman,
}

/// An image that a step needs at the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Image {
    /// `ringfence/debian`: the shared Debian as it is.
    Debian,
    /// `ringfence/plain`: the same with a user and settings of its own.
    Plain,
    /// `ringfence/static`: one static program and nothing else.
    Static,
    /// `ringfence/inspect`: the same Debian for Inspect's own suite.
    Inspect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum User {
    /// The user that runs the lane.
    #[default]
    Own,
    /// A user without rights; the runner must be root to become one.
    Plain,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) size: Size,
    pub(crate) about: String,
    /// Its steps mean something to root only.
    #[serde(default)]
    pub(crate) root: bool,
    /// Neighbouring lanes with the same word here run at the same time.
    pub(crate) beside: Option<String>,
    /// It computes and waits for nothing: its commands run with low priority, beside as many steps of other lanes as there may be.
    #[serde(default)]
    pub(crate) quiet: bool,
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    #[serde(default)]
    pub(crate) components: Vec<String>,
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    #[serde(default)]
    pub(crate) python: Vec<String>,
    #[serde(default)]
    pub(crate) programs: Vec<String>,
    pub(crate) engine: Option<Engine>,
    #[serde(rename = "step")]
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "WrittenStep")]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) action: Action,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) beside: Option<String>,
    /// Images that it needs at the lane's daemon; `None` needs no daemon, an empty list only the daemon.
    pub(crate) daemon: Option<BTreeSet<Image>>,
    pub(crate) limit: Duration,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Action {
    Tests(Tests),
    /// Commands, one after the other, in a directory of the repository: one check.
    Run {
        directory: String,
        commands: Vec<Vec<String>>,
    },
    /// Arguments of pytest, for the Python package's tests.
    Pytest(Vec<String>),
    /// A target of fuzz/.
    Fuzz(String),
    Task(Task),
}

/// Test programs of the workspace.
#[derive(Debug)]
pub(crate) struct Tests {
    pub(crate) programs: Vec<Selector>,
    pub(crate) args: Vec<String>,
    pub(crate) user: User,
    /// A build of its own with these features.
    pub(crate) features: Option<String>,
    /// It counts its tests itself and knows no options of libtest.
    pub(crate) own_harness: bool,
    /// Single programs of it may have no test; the step must have some.
    pub(crate) may_be_empty: bool,
    pub(crate) before: Vec<Vec<String>>,
    pub(crate) after: Vec<Vec<String>>,
}

/// A step as the file has it: exactly one of the five kinds, and only fields of that kind.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenStep {
    name: String,
    tests: Option<Vec<String>>,
    run: Option<Vec<Vec<String>>>,
    pytest: Option<Vec<String>>,
    fuzz: Option<String>,
    task: Option<Task>,
    directory: Option<String>,
    args: Vec<String>,
    #[serde(rename = "as")]
    user: User,
    features: Option<String>,
    own_harness: bool,
    may_be_empty: bool,
    before: Vec<Vec<String>>,
    after: Vec<Vec<String>>,
    env: BTreeMap<String, String>,
    beside: Option<String>,
    daemon: Option<Vec<Image>>,
    minutes: Option<u64>,
}

impl TryFrom<WrittenStep> for Step {
    type Error = String;

    fn try_from(step: WrittenStep) -> Result<Self, String> {
        let WrittenStep { name, tests, run, pytest, fuzz, task, .. } = step;
        if name.is_empty() {
            return Err("a step without a name".into());
        }
        let is_tests = tests.is_some();
        let has_tests_fields = !step.args.is_empty()
            || step.user == User::Plain
            || step.features.is_some()
            || step.own_harness
            || step.may_be_empty
            || !step.before.is_empty()
            || !step.after.is_empty();
        if has_tests_fields && !is_tests {
            return Err(format!("step `{name}`: only a step with `tests` has such a field"));
        }
        if step.directory.is_some() && run.is_none() {
            return Err(format!("step `{name}`: only a step with `run` has a directory"));
        }
        let action = match (tests, run, pytest, fuzz, task) {
            (Some(tests), None, None, None, None) => Action::Tests(Tests {
                programs: tests.iter().map(|text| Selector::parse(text)).collect::<Result<_, _>>()?,
                args: step.args,
                user: step.user,
                features: step.features,
                own_harness: step.own_harness,
                may_be_empty: step.may_be_empty,
                before: step.before,
                after: step.after,
            }),
            (None, Some(commands), None, None, None) => {
                Action::Run { directory: step.directory.unwrap_or_else(|| ".".into()), commands }
            }
            (None, None, Some(arguments), None, None) => Action::Pytest(arguments),
            (None, None, None, Some(target), None) => Action::Fuzz(target),
            (None, None, None, None, Some(task)) => Action::Task(task),
            _ => return Err(format!("step `{name}` needs exactly one of tests, run, pytest, fuzz, task")),
        };
        Ok(Self {
            name,
            action,
            env: step.env,
            beside: step.beside,
            daemon: step.daemon.map(|images| images.into_iter().collect()),
            limit: Duration::from_mins(step.minutes.unwrap_or(USUAL_MINUTES)),
        })
    }
}

impl Lane {
    /// Its steps in order; those that run at the same time together.
    pub(crate) fn groups(&self) -> Vec<&[Step]> {
        self.steps.chunk_by(|one, next| one.beside.is_some() && one.beside == next.beside).collect()
    }
}

/// Lanes in order; those that run at the same time together.
pub(crate) fn groups<'a, 'b>(lanes: &'b [&'a Lane]) -> Vec<&'b [&'a Lane]> {
    lanes.chunk_by(|one, next| one.beside.is_some() && one.beside == next.beside).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    lane: Vec<Lane>,
}

/// Parses the table and checks that every name in it is known.
pub(crate) fn parse(text: &str, tools: &Tools) -> Result<Vec<Lane>, String> {
    let lanes = toml::from_str::<Written>(text).map_err(|error| error.to_string())?.lane;
    let mut names = BTreeSet::new();
    for lane in &lanes {
        let name = &lane.name;
        if !names.insert(name.as_str()) || name == "all" {
            return Err(format!("the lane `{name}` is there twice, or has a name that means another thing"));
        }
        let unknown = tools.unknown(&lane.packages, &lane.tools, &lane.python);
        if !unknown.is_empty() {
            return Err(format!("lane `{name}`: tools.toml does not have {}", unknown.join(", ")));
        }
        let mut steps = BTreeSet::new();
        for step in &lane.steps {
            if !steps.insert(step.name.as_str()) {
                return Err(format!("lane `{name}` has the step `{}` twice", step.name));
            }
            if step.daemon.is_some() && lane.engine.is_none() {
                return Err(format!("lane `{name}`: the step `{}` needs a daemon, the lane names none", step.name));
            }
        }
    }
    Ok(lanes)
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
