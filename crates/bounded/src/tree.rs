//! Builds a [`Value`] while charging it to a budget.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Budget;
use crate::budget::{ENTRY, ITEM, LIST, OBJECT};

/// Reads one value from any deserializer.
#[derive(Debug, Clone, Copy)]
pub struct Tree<'a>(pub &'a Budget);

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.0.take_text(text.len())?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            self.0.take(if items.is_empty() { LIST + ITEM } else { ITEM })?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.0.take(if map.is_empty() { OBJECT + ENTRY } else { ENTRY })?;
            self.0.take_text(key.len())?;
            let value = access.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Budget, check, cost, value};

    #[test]
    fn small_texts_with_large_trees_end_at_the_budget() {
        for (part, each) in [("[]", 64), ("0", 64), ("[0]", 272), ("{\"\":0}", 864), ("\"\"", 96)] {
            let text = format!("[{}]", vec![part; 100_000].join(","));
            for budget in [Budget::new(1 << 20), Budget::new(each * 100_000)] {
                let error = value(text.as_bytes(), &budget).unwrap_err();
                assert!(error.to_string().contains("too many values"), "{error}");
                assert!(error.column() > 0, "the error has a place");
                assert!(check(text.as_bytes(), &Budget::new(1 << 20)).is_err());
            }
            let enough = Budget::new(each * 100_000 + 144);
            let read = value(text.as_bytes(), &enough).unwrap();
            assert_eq!((cost(&read), enough.left()), (each * 100_000 + 144, 0));
            check(text.as_bytes(), &Budget::new(each * 100_000 + 144)).unwrap();
        }
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<u64>().prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            ".{0,8}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn within_the_budget_it_is_what_serde_json_reads_and_costs_what_is_charged(written in any_value()) {
            let text = serde_json::to_vec(&written).unwrap();
            let plain: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let (tree, counted) = (Budget::new(1 << 20), Budget::new(1 << 20));
            prop_assert_eq!(value(&text, &tree).unwrap(), plain.clone());
            check(&text, &counted).unwrap();
            prop_assert_eq!(tree.left(), (1 << 20) - cost(&plain));
            prop_assert_eq!(counted.left(), tree.left());
        }

        #[test]
        fn any_bytes_are_read_as_serde_json_reads_them(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let plain = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
            prop_assert_eq!(value(&bytes, &Budget::new(1 << 20)).ok(), plain);
        }
    }
}
