//! `healthcheck`: how the health of a service is found out.

use std::time::Duration;

use profile::Located;
use profile::source::{Node, Value};

use crate::reading::Reading;
use crate::rules::HEALTH_KEYS;
use crate::section::{self, Section};
use crate::units::{duration, number};

/// How health is found out; what is absent is as the image or the provider has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// What is run.
    pub test: Option<HealthTest>,
    /// How long between two tests.
    pub interval: Option<Duration>,
    /// How long a test may take.
    pub timeout: Option<Duration>,
    /// How many failures in a row are a failure.
    pub retries: Option<u32>,
    /// How long failures do not count.
    pub start_period: Option<Duration>,
}

impl Health {
    /// How long a service may take until it is healthy or has failed, with the Engine's defaults for what is not said. A test that
    /// begins at the end of the start period does not count yet, so one more may run.
    pub fn longest_wait(&self) -> Duration {
        let default = Duration::from_secs(30);
        let (interval, timeout) = (self.interval.unwrap_or(default), self.timeout.unwrap_or(default));
        let start = self.start_period.unwrap_or_default();
        let uncounted = if start.is_zero() { start } else { start.saturating_add(timeout) };
        interval.saturating_add(timeout).saturating_mul(self.retries.unwrap_or(3)).saturating_add(uncounted)
    }
}

/// What is run to find out about health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthTest {
    /// Nothing, not even what the image says.
    Disabled,
    /// A program with its arguments.
    Command(Vec<String>),
    /// A text for the image's shell.
    Shell(String),
}

pub(super) fn read(keys: &mut Section) -> Option<Located<Health>> {
    let node = keys.take("healthcheck")?;
    let (reading, place) = (keys.reading, node.place);
    let mut health = Section::open(reading, node, "`healthcheck`", HEALTH_KEYS)?;
    let test = health.take("test").and_then(|node| read_test(reading, node));
    let disabled = health.truth("disable").unwrap_or(false);
    let mut time = |key| health.parsed(key, duration).map(|time| time.value);
    let (interval, timeout) = (time("interval"), time("timeout"));
    let start_period = time("start_period");
    let retries = health.parsed("retries", number::<u32>).map(|retries| retries.value);
    health.finish();
    let test = if disabled { Some(HealthTest::Disabled) } else { test };
    Some(Located::at(place, Health { test, interval, timeout, retries, start_period }))
}

fn read_test(reading: &Reading, node: Node) -> Option<HealthTest> {
    let place = node.place;
    let items = match node.value {
        Value::Text(text) => return Some(HealthTest::Shell(text)),
        _ => section::list(reading, node, "test"),
    };
    let words: Vec<String> = items
        .into_iter()
        .map(|item| section::text(reading, item, "test").map(|word| word.value))
        .collect::<Option<_>>()?;
    match words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("NONE", [])) => Some(HealthTest::Disabled),
        Some(("CMD", rest @ [_, ..])) => Some(HealthTest::Command(rest.to_vec())),
        Some(("CMD-SHELL", [text])) => Some(HealthTest::Shell(text.clone())),
        _ => {
            reading.problem(place, "`test` must be a text, [NONE], [CMD, program, …] or [CMD-SHELL, text]");
            None
        }
    }
}
