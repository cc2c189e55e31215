//! How many steps may run at the same time, whichever lanes they are of.

use std::sync::{Condvar, Mutex};

use crate::context::lock;

#[derive(Debug)]
pub(crate) struct Slots {
    free: Mutex<usize>,
    returned: Condvar,
}

/// A step's place. Dropping it lets the next step run.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a Slots);

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), returned: Condvar::new() }
    }

    /// Waits for a place.
    pub(crate) fn take(&self) -> Slot<'_> {
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.returned.wait(free).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_run_than_there_are_slots() {
        let (slots, running, most) = (Slots::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _slot = slots.take();
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((most.load(Ordering::SeqCst), running.load(Ordering::SeqCst)), (2, 0));
    }
}
