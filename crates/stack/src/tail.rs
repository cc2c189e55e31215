//! The end of what a service says, kept for whoever must say why it failed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::told::plain;

/// The most that is kept of what a service says.
const KEPT: usize = 64 << 10;
/// The most of it that is shown in a message or an event.
const SHOWN: usize = 2 << 10;

/// The last bytes of both of its streams, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<VecDeque<u8>>);

impl Tail {
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }

    /// All that is kept.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// The end of it, fit to be shown.
    pub(crate) fn shown(&self) -> String {
        end_of(&self.all())
    }
}

/// The end of some output, fit to be shown.
pub(crate) fn end_of(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(SHOWN);
    plain(&String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_no_more() {
        let tail = Tail::default();
        for _ in 0..100 {
            tail.push(&[b'x'; 1 << 10]);
        }
        tail.push(b"\x1b[31mend\nof it");
        assert_eq!(tail.all().len(), KEPT);
        let shown = tail.shown();
        assert!(shown.len() <= SHOWN && shown.ends_with("x [31mend\nof it"), "{shown}");
    }
}
