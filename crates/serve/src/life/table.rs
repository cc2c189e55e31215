//! All sandboxes, and who has how many.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::held::{Held, Using};
use super::lock;
use crate::api::problem::{Answer, Code, Problem};
use crate::api::short;
use crate::server::Owner;

/// Ends that are remembered, so that whoever asks hears why.
const REMEMBERED: usize = 1024;

#[derive(Default)]
struct Table {
    alive: HashMap<String, Arc<Held>>,
    gone: VecDeque<(String, Owner, String)>,
    count: HashMap<Owner, usize>,
}

/// All sandboxes.
#[derive(Default)]
pub(crate) struct Sandboxes(Arc<Mutex<Table>>);

/// Room for one sandbox of an owner; dropping it gives the room back.
pub(crate) struct Slot {
    owner: Owner,
    table: Arc<Mutex<Table>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        if let Some(count) = table.count.get_mut(&self.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                table.count.remove(&self.owner);
            }
        }
    }
}

impl Sandboxes {
    /// Room for one more, unless the owner has as many as one may have.
    pub(crate) fn reserve(&self, owner: &Owner, most: usize) -> Answer<Slot> {
        let mut table = lock(&self.0);
        let count = table.count.entry(owner.clone()).or_default();
        if *count >= most {
            let detail = format!("there are {most} sandboxes already, and no more are given to one owner");
            return Err(Problem::new(Code::Conflict, detail).hint("delete some, or wait until they end"));
        }
        *count += 1;
        drop(table);
        Ok(Slot { owner: owner.clone(), table: Arc::clone(&self.0) })
    }

    pub(crate) fn insert(&self, held: &Arc<Held>) {
        lock(&self.0).alive.insert(held.id.clone(), Arc::clone(held));
    }

    /// Takes it off, and remembers why it ended.
    pub(crate) fn remove(&self, held: &Held) {
        let mut table = lock(&self.0);
        table.alive.remove(&held.id);
        if table.gone.len() >= REMEMBERED {
            table.gone.pop_front();
        }
        table.gone.push_back((held.id.clone(), held.owner.clone(), held.ending.why()));
    }

    /// One that lives and is the owner's; another's is as if it were not there.
    pub(crate) fn find(&self, owner: &Owner, id: &str) -> Answer<Using> {
        let table = lock(&self.0);
        if let Some(held) = table.alive.get(id).filter(|held| held.owner == *owner) {
            if held.ending.is_wanted() {
                return Err(Problem::new(
                    Code::SandboxGone,
                    format!("the sandbox `{id}` is gone: {}", held.ending.why()),
                ));
            }
            held.renew();
            return Ok(Using::new(Arc::clone(held)));
        }
        if let Some((_, _, why)) = table.gone.iter().find(|(gone, whose, _)| gone == id && whose == owner) {
            return Err(Problem::new(Code::SandboxGone, format!("the sandbox `{id}` is gone: {why}")));
        }
        Err(Problem::new(Code::NotFound, format!("there is no sandbox `{}`", short(id))))
    }

    /// Those of an owner, oldest first.
    pub(crate) fn of(&self, owner: &Owner) -> Vec<Arc<Held>> {
        let mut all: Vec<_> = lock(&self.0).alive.values().filter(|held| held.owner == *owner).cloned().collect();
        all.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        all
    }

    /// Those of a session.
    pub(crate) fn of_session(&self, session: &str) -> Vec<Arc<Held>> {
        lock(&self.0).alive.values().filter(|held| held.session.as_deref() == Some(session)).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Held>> {
        lock(&self.0).alive.values().cloned().collect()
    }

    /// How many there are, with those that are being made or ended.
    pub(crate) fn count(&self) -> usize {
        lock(&self.0).count.values().sum()
    }
}
