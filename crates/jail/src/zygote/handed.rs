//! Control groups that pass from a sandbox that has ended to one that already waits to be created.
//!
//! Making and removing them is a tenth of what a sandbox costs, so where many come and go at the same time they are used again:
//! by one with the same limits, when no process and next to no memory is left in them. Nothing inside knows which groups it
//! is in. They are never kept for somebody who has not asked yet.

use super::create::Sandbox;
use crate::cgroups::{Group, Limits, Parents};

/// The most that wait.
const MOST: usize = 16;

/// Groups that nobody is in.
#[derive(Default)]
pub(super) struct Handed {
    waiting: Vec<Group>,
}

impl Handed {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the groups of sandboxes that have ended, as far as nothing is left in them.
    pub(super) fn take_over(&mut self, parents: &Parents, ended: &mut [Sandbox]) {
        for sandbox in ended {
            if self.waiting.len() < MOST && sandbox.group.as_ref().is_some_and(|group| parents.is_clean(group)) {
                self.waiting.extend(sandbox.group.take());
            }
        }
    }

    /// Groups with these limits, open for one more sandbox.
    pub(super) fn take(&mut self, parents: &Parents, limits: &Limits) -> Option<Group> {
        let at = self.waiting.iter().position(|group| group.limits() == limits)?;
        let mut group = self.waiting.swap_remove(at);
        if parents.open(&mut group).is_ok() {
            return Some(group);
        }
        // Somebody removed them, or made them unusable.
        parents.remove_all(&[&group]);
        None
    }

    /// Nobody waits for them.
    pub(super) fn let_go(&mut self, parents: Option<&Parents>) {
        let waiting = std::mem::take(&mut self.waiting);
        if let Some(parents) = parents.filter(|_| !waiting.is_empty()) {
            parents.remove_all(&waiting.iter().collect::<Vec<_>>());
        }
    }
}
