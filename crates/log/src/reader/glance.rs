//! A sample without its events and messages: enough to say whether it is finished, and what it came to.
//!
//! The sample may be anybody's. Events and messages are passed over without being held; everything else together is
//! bounded, whatever the entry says about its size.

use std::fmt;
use std::io::Read;

use bounded::{Budget, Tree};
use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::metered::{Bounds, Meter, Metered};
use crate::SampleName;
use crate::hashed::Hashed;
use crate::summary::summary;

/// A sample of an earlier log, in short. Its values are kept as text: of thousands of samples, values would take ten times
/// the memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    /// Its id.
    pub id: SampleName,
    /// Its epoch.
    pub epoch: u32,
    /// Whether it ended by an error.
    pub failed: bool,
    /// SHA-256 of the sample as it is written, in hexadecimal.
    pub sha256: String,
    /// `[summary, scores, model_usage, role_usage]`.
    texts: [Box<str>; 4],
}

impl Glance {
    fn value(&self, index: usize) -> Value {
        // Written from a value.
        self.texts.get(index).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Inspect's `EvalSampleSummary`, made from the sample itself: a list beside it may say something else.
    pub fn summary(&self) -> Value {
        self.value(0)
    }

    /// Inspect's `scores`.
    pub fn scores(&self) -> Value {
        self.value(1)
    }

    /// Inspect's `model_usage`.
    pub fn model_usage(&self) -> Value {
        self.value(2)
    }

    /// Inspect's `role_usage`.
    pub fn role_usage(&self) -> Value {
        self.value(3)
    }

    /// The memory that it takes, about.
    pub(super) fn cost(&self) -> u64 {
        let texts: usize = self.texts.iter().map(|text| text.len() + 48).sum();
        (size_of::<Self>() + texts) as u64
    }
}

/// Reads one; nothing if it is damaged, too large, or not the sample that was asked for.
pub(super) fn read(id: &SampleName, epoch: u32, content: impl Read, bounds: Bounds) -> Option<Glance> {
    let mut hash = Sha256::new();
    let (fields, messages) = fields(Hashed { inner: content, hash: &mut hash }, bounds).ok()?;
    let sha256 = crate::hex(&hash.finalize());
    if fields.get("id") != Some(&json!(id)) || fields.get("epoch") != Some(&json!(epoch)) {
        return None;
    }
    let failed = fields.get("error").is_some_and(|error| !error.is_null());
    let text = |key: &str| fields.get(key).unwrap_or(&Value::Null).to_string().into_boxed_str();
    let texts = [
        summary(id, epoch, &fields, messages).to_string().into_boxed_str(),
        text("scores"),
        text("model_usage"),
        text("role_usage"),
    ];
    Some(Glance { id: id.clone(), epoch, failed, sha256, texts })
}

/// A sample's fields without the large ones, and how many messages it has.
pub(super) fn fields(content: impl Read, bounds: Bounds) -> Result<(Map<String, Value>, usize), Error> {
    let (meter, budget) = (Meter::new(bounds), bounds.budget());
    let mut text = serde_json::Deserializer::from_reader(Metered::new(content, &meter));
    let found = text.deserialize_map(Fields { meter: &meter, budget: &budget })?;
    // To its very end: only then are length and checksum known to be right.
    text.end().map(|()| found)
}

/// Reads the fields that are held, and counts messages.
struct Fields<'a> {
    meter: &'a Meter,
    budget: &'a Budget,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = (Map<String, Value>, usize);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a sample")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut messages) = (Map::new(), 0);
        while let Some(key) = map.next_key::<String>()? {
            // As much as an entry of an object costs, whatever becomes of its value.
            self.budget.take::<A::Error>(192 + key.len() as u64).map_err(A::Error::custom)?;
            match key.as_str() {
                "events" | "events_data" | "attachments" | "output" | "store" | "timelines" => {
                    self.meter.hold(false);
                    map.next_value::<IgnoredAny>()?;
                }
                "messages" => {
                    self.meter.hold(false);
                    messages = map.next_value::<Count>()?.0;
                }
                _ => {
                    let value = map.next_value_seed(Tree(self.budget))?;
                    fields.insert(key, value);
                }
            }
            self.meter.hold(true);
        }
        Ok((fields, messages))
    }
}

/// How many elements a list has.
struct Count(usize);

impl<'de> serde::Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = Count;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list")
            }

            /// A sample without messages may say `null`.
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(0))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        list.deserialize_any(Elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Option<Glance> {
        read(&SampleName::Number(7), 1, text.as_bytes(), Bounds::of(0))
    }

    #[test]
    fn a_glance_is_of_the_sample_that_was_asked_for_or_nothing() {
        let found = look(
            r#"{"id":7,"epoch":1,"input":"q","target":"t","scores":{"exact":{"value":"C"}},"messages":[{},{"a":[1]}],"events":[{"deep":[[]]}]}"#,
        );
        let found = found.unwrap();
        assert_eq!((found.scores(), found.failed), (json!({"exact": {"value": "C"}}), false));
        assert_eq!(found.summary()["message_count"], 2);
        for other in [
            r#"{"id":"7","epoch":1}"#,
            r#"{"id":8,"epoch":1}"#,
            r#"{"id":7,"epoch":2}"#,
            r#"{"epoch":1}"#,
            r#"{"id":7,"epoch":1}{}"#,
            r#"{"id":7,"epoch":1"#,
            "[]",
            "",
        ] {
            assert_eq!(look(other), None, "{other}");
        }
        assert!(look(r#"{"id":7,"epoch":1,"error":{"message":"x"}}"#).unwrap().failed);
    }

    #[test]
    fn what_is_held_of_a_sample_is_bounded_and_events_are_not_held() {
        let large = "x".repeat(usize::try_from(Bounds::of(0).text).unwrap() + 1);
        assert_eq!(look(&format!(r#"{{"id":7,"epoch":1,"metadata":{{"a":"{large}"}}}}"#)), None);
        assert!(look(&format!(r#"{{"id":7,"epoch":1,"events":["{large}"]}}"#)).is_some());
        // Few bytes, many values.
        let many = "[],".repeat(1 << 20);
        assert_eq!(look(&format!(r#"{{"id":7,"epoch":1,"metadata":{{"a":[{many}0]}}}}"#)), None);
        assert!(look(&format!(r#"{{"id":7,"epoch":1,"events":[{many}0]}}"#)).is_some());
    }
}
