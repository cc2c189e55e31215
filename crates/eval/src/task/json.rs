//! JSON as a located tree, so that data sets are read like task files.
//!
//! Strict where JSON is vague: a key that is there twice is an error, and so is a number that does not fit. Every value is
//! charged to a budget of memory: a short text can hold millions.

use std::fmt;

use bounded::Budget;
use profile::Place;
use profile::source::{Key, Node, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Slots of a list that grows, and of a mapping with the names that it has seen. The first allocation has four.
const ITEM: u64 = 2 * size_of::<Node>() as u64;
const ENTRY: u64 = 2 * size_of::<(Key, Node)>() as u64 + 96;
const FIRST: u64 = 4;
/// A text's allocation, beside its bytes.
const TEXT: u64 = 32;

/// Reads one value, all of which stands at this place.
#[derive(Clone, Copy)]
pub(super) struct Json<'a>(pub(super) Place, pub(super) &'a Budget);

/// Reads a text that is one value.
pub(super) fn parse(text: &[u8], place: Place, budget: &Budget) -> Result<Node, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let node = Json(place, budget).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(node)
}

impl<'de> DeserializeSeed<'de> for Json<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Json<'_> {
    fn node(self, value: Value) -> Node {
        Node { place: self.0, value }
    }
}

impl<'de> Visitor<'de> for Json<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(self.node(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(self.node(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(self.node(Value::Integer(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        let value = i64::try_from(value).map_err(|_| E::custom("a number is too large; put it in quotes"))?;
        Ok(self.node(Value::Integer(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(self.node(Value::Float(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        self.1.take(TEXT + value.len() as u64)?;
        Ok(self.node(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            self.1.take(if items.is_empty() { FIRST * ITEM } else { ITEM })?;
            items.push(item);
        }
        Ok(self.node(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut names = std::collections::HashSet::new();
        let mut entries = Vec::new();
        while let Some(name) = access.next_key::<String>()? {
            self.1.take(if entries.is_empty() { FIRST * ENTRY } else { ENTRY })?;
            self.1.take(2 * (TEXT + name.len() as u64))?;
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("the key `{name}` is there twice")));
            }
            entries.push((Key { place: self.0, name }, access.next_value_seed(self)?));
        }
        Ok(self.node(Value::Map(entries)))
    }
}
