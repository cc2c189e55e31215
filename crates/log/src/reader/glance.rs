//! A sample without its events and messages: enough to say whether it is finished, and what it came to.
//!
//! The sample may be anybody's. Events and messages are passed over without being held; everything else together is
//! bounded, whatever the entry says about its size.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::SampleName;
use crate::hashed::Hashed;
use crate::summary::summary;

/// The most that is held of one sample while it is looked at.
const MOST: u64 = 64 << 20;

/// A sample of an earlier log, in short.
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    /// Its id.
    pub id: SampleName,
    /// Its epoch.
    pub epoch: u32,
    /// Inspect's `EvalSampleSummary`, made from the sample itself: a list beside it may say something else.
    pub summary: Value,
    /// Inspect's `scores`.
    pub scores: Value,
    /// Inspect's `model_usage`.
    pub model_usage: Value,
    /// Inspect's `role_usage`.
    pub role_usage: Value,
    /// Whether it ended by an error.
    pub failed: bool,
    /// SHA-256 of the sample as it is written, in hexadecimal.
    pub sha256: String,
}

/// Reads one; nothing if it is damaged, too large, or not the sample that was asked for.
pub(super) fn read(id: &SampleName, epoch: u32, content: impl Read) -> Option<Glance> {
    let meter = Rc::new(Meter { left: Cell::new(MOST), held: Cell::new(true) });
    let mut hash = Sha256::new();
    let content = BufReader::with_capacity(1 << 16, Hashed { inner: content, hash: &mut hash });
    let metered = Metered { content, meter: Rc::clone(&meter) };
    let mut text = serde_json::Deserializer::from_reader(metered);
    let (mut fields, messages) = text.deserialize_map(Fields(&meter)).ok()?;
    // To its very end: only then are length and checksum known to be right.
    text.end().ok()?;
    drop(text);
    let sha256 = crate::hex(&hash.finalize());
    if fields.get("id") != Some(&json!(id)) || fields.get("epoch") != Some(&json!(epoch)) {
        return None;
    }
    let summary = summary(id, epoch, &fields, messages);
    let failed = fields.get("error").is_some_and(|error| !error.is_null());
    let mut take = |key: &str| fields.remove(key).unwrap_or_default();
    let (scores, model_usage, role_usage) = (take("scores"), take("model_usage"), take("role_usage"));
    Some(Glance { id: id.clone(), epoch, summary, scores, model_usage, role_usage, failed, sha256 })
}

/// How much may still be held, and whether what is read now is.
struct Meter {
    left: Cell<u64>,
    held: Cell<bool>,
}

struct Metered<R> {
    content: BufReader<R>,
    meter: Rc<Meter>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(bytes)?;
        if self.meter.held.get() {
            let left = self.meter.left.get().checked_sub(count as u64).ok_or(io::ErrorKind::FileTooLarge)?;
            self.meter.left.set(left);
        }
        Ok(count)
    }
}

/// The fields that are held, and how many messages there are.
struct Fields<'a>(&'a Meter);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = (Map<String, Value>, usize);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a sample")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut messages) = (Map::new(), 0);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "events" | "attachments" | "output" | "store" => {
                    self.0.held.set(false);
                    map.next_value::<IgnoredAny>()?;
                }
                "messages" => {
                    self.0.held.set(false);
                    messages = map.next_value::<Count>()?.0;
                }
                _ => {
                    let value = map.next_value()?;
                    fields.insert(key, value);
                }
            }
            self.0.held.set(true);
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

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }
        list.deserialize_seq(Elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Option<Glance> {
        read(&SampleName::Number(7), 1, text.as_bytes())
    }

    #[test]
    fn a_glance_is_of_the_sample_that_was_asked_for_or_nothing() {
        let found = look(
            r#"{"id":7,"epoch":1,"input":"q","target":"t","scores":{"exact":{"value":"C"}},"messages":[{},{"a":[1]}],"events":[{"deep":[[]]}]}"#,
        );
        let found = found.unwrap();
        assert_eq!((found.scores, found.failed), (json!({"exact": {"value": "C"}}), false));
        assert_eq!(found.summary["message_count"], 2);
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
        let large = "x".repeat(usize::try_from(MOST).unwrap() + 1);
        assert_eq!(look(&format!(r#"{{"id":7,"epoch":1,"metadata":{{"a":"{large}"}}}}"#)), None);
        assert!(look(&format!(r#"{{"id":7,"epoch":1,"events":["{large}"]}}"#)).is_some());
    }
}
