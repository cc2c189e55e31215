//! Charges a value to a budget without building it.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::Budget;
use crate::budget::{ENTRY, ITEM, LIST, OBJECT};

/// Passes over one value of any deserializer.
#[derive(Debug, Clone, Copy)]
pub struct Count<'a>(pub &'a Budget);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.take_text(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut first = LIST;
        while access.next_element_seed(self)?.is_some() {
            self.0.take(first + ITEM)?;
            first = 0;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut first = OBJECT;
        while let Some(key) = access.next_key::<Length>()? {
            self.0.take(first + ENTRY)?;
            self.0.take_text(key.0)?;
            first = 0;
            access.next_value_seed(self)?;
        }
        Ok(())
    }
}

/// The length of a key.
struct Length(usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Key;
        impl Visitor<'_> for Key {
            type Value = Length;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a key")
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Length, E> {
                Ok(Length(key.len()))
            }
        }
        deserializer.deserialize_str(Key)
    }
}
