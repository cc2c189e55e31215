//! Ending a whole tree of processes, and nothing else, without starting one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::pause::signal_all;

/// How often the tree is looked at before it is killed as it is.
const PASSES: usize = 64;
/// Where more processes than this run, all of them are stopped by one call before the tree is looked at: among hundreds
/// that want the processor, the guest would be starved while it reads /proc.
const CROWD: usize = 64;

/// Every process and its parent.
fn parents() -> BTreeMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let parent = |pid: i32| -> Option<i32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets is the workload's choice: the fields begin after the last bracket.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let fields = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
        fields.split(' ').nth(1)?.parse().ok()
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// These processes and all their descendants.
fn trees(roots: &BTreeSet<i32>, parents: &BTreeMap<i32, i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (&pid, &parent) in parents {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = roots.clone();
    let mut open: Vec<i32> = roots.iter().copied().collect();
    while let Some(pid) = open.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if found.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone already.
        let _ = kill_process(pid, signal);
    }
}

/// Ends a command's keeper and everything below it.
pub(crate) fn kill(keeper: Pid) {
    end(&BTreeSet::from([keeper.as_raw_nonzero().get()]));
}

/// Ends every process but the guest in one step that no fork escapes and that a fork bomb cannot slow down. Whether that
/// could be done: only the first process of a namespace knows that all others are its own.
pub(crate) fn kill_all() -> bool {
    signal_all(Signal::KILL).is_ok()
}

/// Whether more processes run here than can be looked at one by one without being starved.
fn is_crowded() -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())).count() > CROWD
}

/// Ends whole trees. A stopped process cannot fork, so all are stopped until a look finds nothing new; only then are they
/// killed. What a fork bomb made meanwhile comes to the guest as an orphan and is ended in the next round.
fn end(roots: &BTreeSet<i32>) {
    // Other commands stand still for as long. A process of theirs that was stopped before goes on afterwards.
    let all_stopped = is_crowded() && signal_all(Signal::STOP).is_ok();
    let mut stopped = BTreeSet::new();
    for _ in 0..PASSES {
        let found = trees(roots, &parents());
        let fresh: Vec<i32> = found.difference(&stopped).copied().collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            signal(pid, Signal::STOP);
            stopped.insert(pid);
        }
    }
    // By a fresh look: a number that was seen before may be another's by now.
    for pid in trees(roots, &parents()) {
        signal(pid, Signal::KILL);
    }
    if all_stopped {
        let _ = signal_all(Signal::CONT);
    }
}

/// Ends whatever hangs directly under the guest without being a keeper: orphans of a keeper that the workload killed.
/// Returns whether there were any.
pub(crate) fn kill_orphans(keepers: &BTreeSet<i32>) -> bool {
    let parents = parents();
    let own = i32::try_from(std::process::id()).unwrap_or(1);
    let is_orphan = |(pid, parent): &(&i32, &i32)| **parent == own && !keepers.contains(pid);
    let orphans: BTreeSet<i32> = parents.iter().filter(is_orphan).map(|(pid, _)| *pid).collect();
    if !orphans.is_empty() {
        end(&orphans);
    }
    !orphans.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_across_generations() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 5), (7, 7)]);
        assert_eq!(trees(&BTreeSet::from([2]), &parents), BTreeSet::from([2, 3, 4]));
        assert_eq!(trees(&BTreeSet::from([3, 5]), &parents), BTreeSet::from([3, 4, 5, 6]));
    }
}
