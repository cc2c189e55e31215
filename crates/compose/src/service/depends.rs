//! `depends_on`: what must be there before a service starts.

use profile::source::{Node, Value};
use profile::{Located, Place};

use crate::names::ServiceName;
use crate::reading::Reading;
use crate::rules::DEPENDENCY_KEYS;
use crate::section::{self, Section};

/// Another service that must be there first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Which.
    pub service: ServiceName,
    /// Where it is named.
    pub place: Place,
    /// What it must have come to.
    pub condition: Condition,
    /// Whether its failure is ours too.
    pub required: bool,
}

/// What a service must have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It has started.
    Started,
    /// It is healthy.
    Healthy,
    /// It has ended, without a failure.
    Completed,
}

pub(super) fn read(keys: &mut Section) -> Vec<Dependency> {
    let Some(node) = keys.take("depends_on") else { return Vec::new() };
    let (reading, place) = (keys.reading, node.place);
    let mut found: Vec<Dependency> = match node.value {
        Value::List(items) => items.into_iter().filter_map(|item| named(reading, item)).collect(),
        Value::Map(entries) => entries
            .into_iter()
            .filter_map(|(key, node)| {
                let service = section::name(reading, key.place, &key.name, "a service")?;
                conditional(reading, service, key.place, node)
            })
            .collect(),
        other => {
            reading.problem(place, format!("`depends_on` must be a list or a mapping, found {}", other.kind()));
            Vec::new()
        }
    };
    found.sort_by(|one, other| one.service.cmp(&other.service));
    found.dedup_by(|one, other| one.service == other.service);
    found
}

fn named(reading: &Reading, item: Node) -> Option<Dependency> {
    let place = item.place;
    let name: Located<String> = section::text(reading, item, "depends_on")?;
    let service = section::name(reading, place, &name.value, "a service")?;
    Some(Dependency { service, place, condition: Condition::Started, required: true })
}

fn conditional(reading: &Reading, service: ServiceName, place: Place, node: Node) -> Option<Dependency> {
    let mut keys = Section::open(reading, node, "an entry of `depends_on`", DEPENDENCY_KEYS)?;
    let condition = keys.parsed("condition", |text| match text {
        "service_started" => Ok(Condition::Started),
        "service_healthy" => Ok(Condition::Healthy),
        "service_completed_successfully" => Ok(Condition::Completed),
        _ => Err("must be service_started, service_healthy or service_completed_successfully"),
    });
    let required = keys.truth("required").unwrap_or(true);
    keys.finish();
    Some(Dependency { service, place, condition: condition.map_or(Condition::Started, |found| found.value), required })
}
