//! Memory, processors, processes: what a service may use, by the keys of the service or by `deploy.resources`.

use std::collections::BTreeMap;

use profile::source::{Node, Value};
use profile::{Located, Problem};

use crate::reading::Reading;
use crate::rules::{DEPLOY_KEYS, LIMITS_KEYS, RESERVATIONS_KEYS, RESOURCES_KEYS};
use crate::section::{self, Section};
use crate::units::{bytes, cpus, number};

/// What a service may use at most; absent means that the file says nothing. The profile's limits hold beside these.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<Located<u64>>,
    /// Bytes of memory and swap together.
    pub memory_and_swap: Option<Located<u64>>,
    /// Bytes of memory that it keeps when memory gets scarce.
    pub memory_kept: Option<Located<u64>>,
    /// Thousandths of a processor.
    pub millicpus: Option<Located<u64>>,
    /// Processes.
    pub processes: Option<Located<u64>>,
    /// Bytes of `/dev/shm`.
    pub shared_memory: Option<Located<u64>>,
}

/// What holds for a service, of what its file and the profile say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsInForce {
    /// Bytes of memory.
    pub memory: u64,
    /// Thousandths of a processor.
    pub millicpus: u64,
    /// Processes.
    pub processes: u64,
}

impl Limits {
    /// What holds beside the profile's limits: of one that its document states, the lower; in place of a default, what the file says.
    pub fn in_force(&self, profile: &profile::Limits) -> LimitsInForce {
        let lower = |own: &Option<Located<u64>>, amount: u64, stated: profile::Stated| match own {
            Some(own) if stated == profile::Stated::Nowhere => own.value,
            Some(own) => own.value.min(amount),
            None => amount,
        };
        LimitsInForce {
            memory: lower(&self.memory, profile.memory.amount.0, profile.memory.stated),
            millicpus: lower(&self.millicpus, profile.cpu.amount.0, profile.cpu.stated),
            processes: lower(&self.processes, profile.pids.amount.0, profile.pids.stated),
        }
    }
}

/// A limit per process; `None` means without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ulimit {
    /// What holds.
    pub soft: Option<u64>,
    /// How far a process may raise it.
    pub hard: Option<u64>,
}

/// Names of limits per process that are no danger to others.
const ULIMITS: &[&str] = &[
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nofile",
    "nproc",
    "rss",
    "sigpending",
    "stack",
];
/// Names of those that let a process take precedence over the host's own.
const REFUSED_ULIMITS: &[&str] = &["nice", "rtprio", "rttime"];

const NO_END: &str = "a limit without an end is none; the profile's own holds";

pub(super) fn read(keys: &mut Section) -> Limits {
    let mut limits = Limits {
        memory: amount(keys, "mem_limit", bytes),
        memory_and_swap: amount(keys, "memswap_limit", bytes),
        memory_kept: amount(keys, "mem_reservation", bytes),
        millicpus: amount(keys, "cpus", cpus),
        processes: amount(keys, "pids_limit", number),
        shared_memory: amount(keys, "shm_size", bytes),
    };
    one_replica(keys, "scale");
    if let Some(node) = keys.take("deploy") {
        deploy(keys.reading, node, &mut limits);
    }
    if let (Some(memory), Some(both)) = (&limits.memory, &limits.memory_and_swap)
        && both.value < memory.value
    {
        let message = "`memswap_limit` is memory and swap together, and cannot be less than the memory";
        keys.reading.complain(Problem { place: both.place, message: message.into(), hint: None });
    }
    limits
}

/// An amount above zero; 0 and -1 mean "no limit" in Compose, and say nothing here.
fn amount<E: std::fmt::Display>(
    keys: &mut Section,
    key: &str,
    parse: impl FnOnce(&str) -> Result<u64, E>,
) -> Option<Located<u64>> {
    let written = keys.text(key)?;
    let place = written.place.unwrap_or(keys.place);
    let found = if written.value == "-1" {
        Some(0)
    } else {
        section::parsed(keys.reading, &written, key, parse).map(|found| found.value)
    };
    match found? {
        0 => {
            keys.reading.ignore(place, key, NO_END);
            None
        }
        amount => Some(Located::at(place, amount)),
    }
}

fn one_replica(keys: &mut Section, key: &str) {
    if let Some(count) = keys.parsed(key, number::<u64>)
        && count.value != 1
    {
        let place = count.place.unwrap_or(keys.place);
        keys.reading.refuse(place, key, format_args!("`{key}: {}`", count.value), "a service is one container");
    }
}

fn deploy(reading: &Reading, node: Node, limits: &mut Limits) {
    let Some(mut deploy) = Section::open(reading, node, "`deploy`", DEPLOY_KEYS) else { return };
    one_replica(&mut deploy, "replicas");
    let resources = deploy.take("resources");
    deploy.finish();
    let Some(mut resources) = resources.and_then(|node| Section::open(reading, node, "`resources`", RESOURCES_KEYS))
    else {
        return;
    };
    let (most, least) = (resources.take("limits"), resources.take("reservations"));
    resources.finish();
    if let Some(mut most) = most.and_then(|node| Section::open(reading, node, "`limits`", LIMITS_KEYS)) {
        agree(reading, &mut limits.memory, amount(&mut most, "memory", bytes), "mem_limit");
        agree(reading, &mut limits.millicpus, amount(&mut most, "cpus", cpus), "cpus");
        agree(reading, &mut limits.processes, amount(&mut most, "pids", number), "pids_limit");
        most.finish();
    }
    if let Some(mut least) = least.and_then(|node| Section::open(reading, node, "`reservations`", RESERVATIONS_KEYS)) {
        agree(reading, &mut limits.memory_kept, amount(&mut least, "memory", bytes), "mem_reservation");
        least.finish();
    }
}

/// The same limit can be said in two places, but not differently.
fn agree(reading: &Reading, first: &mut Option<Located<u64>>, second: Option<Located<u64>>, key: &str) {
    match (&first, second) {
        (Some(one), Some(other)) if one.value != other.value => {
            let message = format!("`{key}` and `deploy.resources` say different things");
            let hint = Some("remove one of them".to_owned());
            reading.complain(Problem { place: other.place, message, hint });
        }
        (None, second) => *first = second,
        _ => {}
    }
}

/// `ulimits`: a number, or `soft` and `hard`.
pub(super) fn ulimits(keys: &mut Section) -> BTreeMap<String, Located<Ulimit>> {
    let reading = keys.reading;
    let entries =
        keys.take("ulimits").and_then(|node| section::entries(reading, node, "`ulimits`")).unwrap_or_default();
    let mut found = BTreeMap::new();
    for (key, node) in entries {
        let name = key.name.as_str();
        if REFUSED_ULIMITS.contains(&name) {
            let what = format!("`ulimits.{name}`");
            reading.refuse(key.place, "ulimits", what, "it lets a process take precedence over those of the host");
        } else if !ULIMITS.contains(&name) {
            let shown: String = name.chars().take(40).collect();
            reading.problem_with_hint(
                key.place,
                format!("unknown limit `{shown}`"),
                format!("known are {}", ULIMITS.join(", ")),
            );
        } else if let Some(limit) = ulimit(reading, node) {
            found.insert(key.name, limit);
        }
    }
    found
}

fn ulimit(reading: &Reading, node: Node) -> Option<Located<Ulimit>> {
    let place = node.place;
    let one = |node: Node| {
        let written = section::text(reading, node, "ulimits")?;
        let parse = |text: &str| if text == "-1" { Ok(None) } else { number(text).map(Some) };
        section::parsed(reading, &written, "ulimits", parse).map(|found| found.value)
    };
    if !matches!(node.value, Value::Map(_)) {
        let both = one(node)?;
        return Some(Located::at(place, Ulimit { soft: both, hard: both }));
    }
    let mut keys = Section::open(reading, node, "an entry of `ulimits`", crate::rules::ULIMIT_KEYS)?;
    let (soft, hard) = (keys.take("soft"), keys.take("hard"));
    keys.finish();
    let (Some(soft), Some(hard)) = (soft, hard) else {
        reading.problem(place, "an entry of `ulimits` is a number, or has `soft` and `hard`");
        return None;
    };
    let limit = Ulimit { soft: one(soft)?, hard: one(hard)? };
    if limit.soft.unwrap_or(u64::MAX) > limit.hard.unwrap_or(u64::MAX) {
        reading.problem(place, "`soft` cannot be more than `hard`");
        return None;
    }
    Some(Located::at(place, limit))
}

#[cfg(test)]
mod tests {
    use profile::{Bytes, Limit, Stated};

    use super::*;

    #[test]
    fn a_stated_limit_is_not_raised_and_a_default_gives_way() {
        let own = Limits {
            memory: Some(Located::nowhere(16 << 30)),
            processes: Some(Located::nowhere(10)),
            ..Limits::default()
        };
        let mut profile = profile::Limits::default();
        let force = own.in_force(&profile);
        assert_eq!(force, LimitsInForce { memory: 16 << 30, millicpus: profile.cpu.amount.0, processes: 10 });
        profile.memory = Limit { amount: Bytes(1 << 30), stated: Stated::CommandLine };
        profile.pids.stated = Stated::CommandLine;
        let force = own.in_force(&profile);
        assert_eq!((force.memory, force.processes), (1 << 30, 10));
    }
}
