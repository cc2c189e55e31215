//! Keys whose value is one word.

use profile::{Located, Place};

use crate::section::Section;

/// What happens when a service ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Nothing.
    No,
    /// It starts again.
    Always,
    /// It starts again after a failure, at most so often if that is said.
    OnFailure {
        /// How often at most.
        times: Option<u32>,
    },
    /// It starts again unless it was stopped.
    UnlessStopped,
}

/// `restart`; a bare `no` can be a truth value by the rules of YAML.
pub(super) fn restart(keys: &mut Section) -> Option<Located<Restart>> {
    let node = keys.take("restart")?;
    if node.value == profile::source::Value::Bool(false) {
        return Some(Located::at(node.place, Restart::No));
    }
    let written = crate::section::text(keys.reading, node, "restart")?;
    crate::section::parsed(keys.reading, &written, "restart", |text| match text.split_once(':').unwrap_or((text, "")) {
        ("no", "") => Ok(Restart::No),
        ("always", "") => Ok(Restart::Always),
        ("unless-stopped", "") => Ok(Restart::UnlessStopped),
        ("on-failure", "") => Ok(Restart::OnFailure { times: None }),
        ("on-failure", times) if times.parse::<u32>().is_ok() => Ok(Restart::OnFailure { times: times.parse().ok() }),
        _ => Err("must be no, always, unless-stopped, on-failure or on-failure:TIMES"),
    })
}

/// `USER` or `USER:GROUP`.
pub(super) fn user(text: &str) -> Result<String, &'static str> {
    let good = |part: &str| {
        !part.is_empty()
            && part.len() <= 64
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'))
    };
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    if good(user) && group.is_none_or(good) { Ok(text.to_owned()) } else { Err("must be USER or USER:GROUP") }
}

/// A name that a host can have.
pub(super) fn host_name(text: &str) -> Result<String, &'static str> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if text.len() <= 253 && text.split('.').all(label) {
        Ok(text.to_owned())
    } else {
        Err("must be a host's name: letters, digits and `-`, parted by dots")
    }
}

/// `SIGTERM`, `TERM` or `15`.
pub(super) fn signal(text: &str) -> Result<String, &'static str> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let named = name.len() <= 10
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '+' | '-'));
    let numbered = text.parse::<u8>().is_ok_and(|number| (1..=64).contains(&number));
    if named || numbered { Ok(text.to_owned()) } else { Err("must be a signal, such as SIGTERM or 15") }
}

/// Where `profiles` leaves the service out: nobody switches any on.
pub(super) fn left_out(keys: &mut Section) -> Option<Place> {
    let (place, node) = keys.take_with_key("profiles")?;
    let profiles = crate::section::list(keys.reading, node, "profiles");
    (!profiles.is_empty()).then_some(place)
}
