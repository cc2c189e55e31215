//! Reads JSON from untrusted sources within a memory budget.
//!
//! A limit on the length of a text does not limit memory: `[[],[],…]` takes 3 bytes per value as text and 64 in a
//! [`serde_json::Value`], and `{"":0}` takes 7 bytes as text and more than 700 as an object. Every value is therefore charged
//! to a [`Budget`] before it is allocated, at a little more than it costs in a `Value`. Structs cost less than that.

mod budget;
mod count;
mod tree;

use serde::Deserialize;
use serde::de::DeserializeSeed as _;
use serde_json::{Error, Value};

pub use budget::{Budget, allowance, cost};
pub use count::Count;
pub use tree::Tree;

/// Reads a text that is one value.
pub fn value(text: &[u8], budget: &Budget) -> Result<Value, Error> {
    let mut text = serde_json::Deserializer::from_slice(text);
    let value = Tree(budget).deserialize(&mut text)?;
    text.end().map(|()| value)
}

/// Reads a text into a type. The text is charged to the budget in a first pass that allocates nothing, then read.
pub fn read<'de, T: Deserialize<'de>>(text: &'de [u8], budget: &Budget) -> Result<T, Error> {
    check(text, budget)?;
    serde_json::from_slice(text)
}

/// Charges a text to the budget without keeping anything of it.
pub fn check(text: &[u8], budget: &Budget) -> Result<(), Error> {
    let mut text = serde_json::Deserializer::from_slice(text);
    Count(budget).deserialize(&mut text)?;
    text.end()
}
