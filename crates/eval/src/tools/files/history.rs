//! What the last edits of a file were made to, so that they can be undone.

use std::collections::VecDeque;

/// Edits of one file that can be undone.
const PER_FILE: usize = 10;
/// Bytes of all of them; the oldest go first.
const MAX_BYTES: usize = 64 << 20;

/// What a file was before an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    /// It was not there.
    Nothing,
    Text(String),
}

impl Before {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Text(text) => text.len(),
        }
    }
}

/// Edits in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct History {
    edits: VecDeque<(String, Before)>,
    bytes: usize,
}

impl History {
    pub(super) fn push(&mut self, path: &str, before: Before) {
        self.bytes += before.bytes();
        self.edits.push_back((path.to_owned(), before));
        if self.edits.iter().filter(|(of, _)| of == path).count() > PER_FILE {
            let oldest = self.edits.iter().position(|(of, _)| of == path);
            self.forget(oldest);
        }
        while self.bytes > MAX_BYTES && !self.edits.is_empty() {
            self.forget(Some(0));
        }
    }

    fn forget(&mut self, index: Option<usize>) -> Option<Before> {
        let (_, before) = self.edits.remove(index?)?;
        self.bytes -= before.bytes();
        Some(before)
    }

    /// What the file was before its last edit.
    pub(super) fn last(&self, path: &str) -> Option<&Before> {
        self.edits.iter().rev().find(|(of, _)| of == path).map(|(_, before)| before)
    }

    /// Forgets the last edit: it was undone.
    pub(super) fn pop(&mut self, path: &str) {
        let index = self.edits.iter().rposition(|(of, _)| of == path);
        self.forget(index);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        for number in 0..20 {
            history.push(&number.to_string(), Before::Text("x".repeat(MAX_BYTES / 8)));
        }
        assert!(history.bytes <= MAX_BYTES);
        assert!(history.last("0").is_none() && history.last("19").is_some());
        history.push("huge", Before::Text("x".repeat(MAX_BYTES + 1)));
        assert_eq!((history.bytes, history.edits.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn the_last_ten_edits_of_a_file_come_back_in_order(edits in proptest::collection::vec((0_u8..3, "[a-c]{0,3}"), 0..60)) {
            let mut history = History::default();
            let mut model: Vec<Vec<String>> = vec![Vec::new(); 3];
            for (file, text) in &edits {
                history.push(&file.to_string(), Before::Text(text.clone()));
                model[usize::from(*file)].push(text.clone());
            }
            for (file, texts) in model.iter().enumerate() {
                let path = file.to_string();
                for text in texts.iter().rev().take(PER_FILE) {
                    prop_assert_eq!(history.last(&path), Some(&Before::Text(text.clone())));
                    history.pop(&path);
                }
                prop_assert_eq!(history.last(&path), None);
            }
            prop_assert_eq!(history.bytes, 0);
        }
    }
}
