//! The memory that a parsed document may take, and what each kind of value costs.

use std::cell::Cell;

use serde::de::Error;
use serde_json::Value;

/// What reading any input may take, however small it is.
const FLOOR: u64 = 64 << 20;

/// A list's first allocation: four slots, and the allocator's own header.
pub(crate) const LIST: u64 = 144;
/// A list's slot; a growing list has up to twice as many as it needs.
pub(crate) const ITEM: u64 = 64;
/// An object's first node, which has room for eleven entries.
pub(crate) const OBJECT: u64 = 640;
/// An object's entry in a node that is half full.
pub(crate) const ENTRY: u64 = 128;
/// A text's allocation, beside its bytes.
pub(crate) const TEXT: u64 = 32;

/// The most memory that reading an input of this length may take: four times the length, and at least 64 MiB.
pub fn allowance(length: u64) -> u64 {
    length.saturating_mul(4).max(FLOOR)
}

/// Bytes of memory that may still be allocated.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    left: Cell<u64>,
}

impl Budget {
    /// A budget of this many bytes.
    pub const fn new(limit: u64) -> Self {
        Self { limit, left: Cell::new(limit) }
    }

    /// For the values of a text that is itself in memory: half of its [`allowance`]. The other half is for the text and
    /// for what callers make of the values.
    pub fn for_text(text: &[u8]) -> Self {
        Self::new(allowance(text.len() as u64) / 2)
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes bytes; fails, and has nothing left, if there are fewer.
    pub fn take<E: Error>(&self, bytes: u64) -> Result<(), E> {
        if let Some(left) = self.left.get().checked_sub(bytes) {
            self.left.set(left);
            return Ok(());
        }
        self.left.set(0);
        Err(E::custom(format_args!("too many values: they would take more than {} bytes of memory", self.limit)))
    }

    pub(crate) fn take_text<E: Error>(&self, length: usize) -> Result<(), E> {
        self.take(TEXT.saturating_add(length as u64))
    }
}

/// What a value costs by the same measure.
pub fn cost(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => TEXT + text.len() as u64,
        Value::Array(items) if items.is_empty() => 0,
        Value::Array(items) => LIST + items.iter().map(|item| ITEM + cost(item)).sum::<u64>(),
        Value::Object(map) if map.is_empty() => 0,
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| ENTRY + TEXT + key.len() as u64 + cost(value);
            OBJECT + map.iter().map(entry).sum::<u64>()
        }
    }
}
