//! What the sandbox's own files must show of its network. Pure.

use crate::probe::Finding;
use crate::scene::Scene;

pub(super) fn interfaces(text: &str, _: &Scene) -> Finding {
    let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    match names.iter().find(|name| **name != "lo") {
        Some(name) => Finding::fail(format!("there is {name}")),
        None if names.is_empty() => Finding::unknown("not even loopback is shown"),
        None => Finding::pass("only lo"),
    }
}

pub(super) fn routes(text: &str, _: &Scene) -> Finding {
    let ways: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    match ways.iter().find(|way| **way != "lo") {
        Some(way) => Finding::fail(format!("a route leads to {way}")),
        None => Finding::pass(format!("{} routes, all to lo", ways.len())),
    }
}
