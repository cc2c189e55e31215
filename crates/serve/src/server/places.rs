//! Who has a place. Connections of owners are counted, `WebSockets` too; whoever has not said who it is has a place only for
//! a moment, and of those there are few: they never keep an owner out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::owner::Owner;
use crate::api::problem::{Answer, Code, Problem};
use crate::life::lock;

/// All places.
pub(crate) struct Places {
    taken: Mutex<Taken>,
    most: usize,
    of_one: usize,
    strangers: usize,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// Oldest first.
    strangers: VecDeque<(u64, CancellationToken)>,
    owners: HashMap<Owner, usize>,
    total: usize,
}

/// One connection's place, given back when the last who holds it is gone: the connection, or what became of it.
pub(crate) struct Seat {
    places: Arc<Places>,
    number: u64,
    owner: Mutex<Option<Owner>>,
    known: CancellationToken,
    out: CancellationToken,
}

impl Places {
    /// Room for `most` connections of owners, at most `of_one` of the same, and beside them for so many strangers.
    pub(crate) fn new(most: usize, of_one: usize, strangers: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), most, of_one, strangers })
    }

    /// A connection that has not said anything yet. Where there are too many of those, the oldest has to go: who is honest
    /// has said who it is by then.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Seat> {
        let out = CancellationToken::new();
        let mut taken = lock(&self.taken);
        let number = taken.next;
        taken.next += 1;
        if taken.strangers.len() >= self.strangers
            && let Some((_, oldest)) = taken.strangers.pop_front()
        {
            oldest.cancel();
        }
        taken.strangers.push_back((number, out.clone()));
        drop(taken);
        Arc::new(Seat {
            places: Arc::clone(self),
            number,
            owner: Mutex::default(),
            known: CancellationToken::new(),
            out,
        })
    }

    /// How many connections there are.
    pub(crate) fn count(&self) -> usize {
        let taken = lock(&self.taken);
        taken.strangers.len() + taken.total
    }
}

impl Taken {
    fn give_back(&mut self, owner: &Owner) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.owners.get_mut(owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.owners.remove(owner);
            }
        }
    }
}

impl Seat {
    /// Somebody known asks on this connection: it takes one of the owner's places, unless all are taken.
    pub(crate) fn admit(&self, owner: &Owner) -> Answer<()> {
        let mut own = lock(&self.owner);
        if own.as_ref() == Some(owner) {
            return Ok(());
        }
        let mut taken = lock(&self.places.taken);
        // The same connection with another token.
        if let Some(before) = own.take() {
            taken.give_back(&before);
        }
        let count = taken.owners.get(owner).copied().unwrap_or_default();
        if taken.total >= self.places.most || count >= self.places.of_one {
            let detail = format!("there are {count} connections already, and no more are given now");
            return Err(
                Problem::new(Code::Unavailable, detail).hint("end connections that are not needed, and try again")
            );
        }
        taken.strangers.retain(|(number, _)| *number != self.number);
        taken.owners.insert(owner.clone(), count + 1);
        taken.total += 1;
        *own = Some(owner.clone());
        self.known.cancel();
        Ok(())
    }

    /// Resolves when a stranger has to go: others came, or it has not said who it is for so long.
    pub(crate) async fn overdue(&self, patience: Duration) {
        tokio::select! {
            biased;
            () = self.known.cancelled() => std::future::pending().await,
            () = self.out.cancelled() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let owner = lock(&self.owner).take();
        let mut taken = lock(&self.places.taken);
        match owner {
            Some(owner) => taken.give_back(&owner),
            None => taken.strangers.retain(|(number, _)| *number != self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_take_no_owners_place_and_the_oldest_goes_first() {
        let places = Places::new(4, 2, 3);
        let strangers: Vec<_> = (0..5).map(|_| places.enter()).collect();
        let gone: Vec<bool> = strangers.iter().map(|seat| seat.out.is_cancelled()).collect();
        assert_eq!(gone, [true, true, false, false, false]);
        let (one, two) = (Owner::Token(0), Owner::Token(1));
        let seats: Vec<_> = (0..4).map(|_| places.enter()).collect();
        let admitted = |number: usize, owner: &Owner| seats[number].admit(owner).is_ok();
        assert_eq!(
            [admitted(0, &one), admitted(0, &one), admitted(1, &one), admitted(2, &one)],
            [true, true, true, false]
        );
        assert_eq!([admitted(2, &two), admitted(3, &two)], [true, true]);
        assert!(places.enter().admit(&Owner::Token(2)).is_err(), "all four are taken");
    }

    #[test]
    fn a_place_is_given_back_once() {
        let places = Places::new(1, 1, 2);
        let seat = places.enter();
        assert_eq!(places.count(), 1);
        seat.admit(&Owner::User(7)).unwrap();
        let held = Arc::clone(&seat);
        drop(seat);
        assert_eq!(places.count(), 1, "what became of the connection holds it");
        assert!(places.enter().admit(&Owner::User(7)).is_err());
        held.admit(&Owner::User(8)).unwrap();
        drop(held);
        assert_eq!(places.count(), 0);
        places.enter().admit(&Owner::User(7)).unwrap();
    }
}
