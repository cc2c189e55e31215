//! A log that is one JSON document: read as a stream, one sample in memory at a time.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt as _;

use bounded::{Budget, Tree};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, Map, Value};

use super::glance;
use super::metered::Bounds;
use crate::place::Part;
use crate::summary::summary;
use crate::{LogError, SampleName};

/// Larger documents are refused: one of their samples could be all of it.
const LONGEST: u64 = 4 << 30;
/// Inspect's logs have about ten fields.
const MOST_FIELDS: usize = 256;

/// What is asked of a document.
trait Ask {
    /// Whether this field is to be handed over.
    fn wants(&self, key: &str) -> bool {
        let _ = key;
        false
    }
    /// A field that is wanted.
    fn field(&mut self, key: String, value: Value) {
        let _ = (key, value);
    }
    /// Whether samples are to be handed over, still.
    fn wants_samples(&self) -> bool {
        false
    }
    /// A sample.
    fn sample(&mut self, sample: Box<RawValue>) -> Result<(), Error> {
        drop(sample);
        Ok(())
    }
}

/// Everything but samples and reductions.
pub(super) fn header(file: &File, length: u64) -> Result<Map<String, Value>, Error> {
    struct Header(Map<String, Value>);
    impl Ask for Header {
        fn wants(&self, key: &str) -> bool {
            !matches!(key, "samples" | "reductions")
        }
        fn field(&mut self, key: String, value: Value) {
            self.0.insert(key, value);
        }
    }
    let mut header = Header(Map::new());
    read(file, length, &mut header)?;
    Ok(header.0)
}

/// One other field.
pub(super) fn field(file: &File, length: u64, name: &str) -> Result<Option<Value>, Error> {
    struct Field<'a>(&'a str, Option<Value>);
    impl Ask for Field<'_> {
        fn wants(&self, key: &str) -> bool {
            key == self.0
        }
        fn field(&mut self, _: String, value: Value) {
            self.1 = Some(value).filter(|value| !value.is_null());
        }
    }
    let mut field = Field(name, None);
    read(file, length, &mut field)?;
    Ok(field.1)
}

/// Which sample this is.
#[derive(Deserialize)]
struct Key {
    id: SampleName,
    epoch: u32,
}

/// One sample. Ids are compared as texts, as the names of a zip's entries are.
pub(super) fn sample(file: &File, length: u64, id: &SampleName, epoch: u32) -> Result<Option<Box<RawValue>>, Error> {
    struct One(String, u32, Option<Box<RawValue>>);
    impl Ask for One {
        fn wants_samples(&self) -> bool {
            self.2.is_none()
        }
        fn sample(&mut self, sample: Box<RawValue>) -> Result<(), Error> {
            let key: Key = serde_json::from_str(sample.get())?;
            if key.epoch == self.1 && key.id.to_string() == self.0 {
                self.2 = Some(sample);
            }
            Ok(())
        }
    }
    let mut one = One(id.to_string(), epoch, None);
    read(file, length, &mut one)?;
    Ok(one.2)
}

/// Hands over each sample, as it is written.
pub(super) fn every(file: &File, length: u64, take: &mut dyn FnMut(&str)) -> Result<(), Error> {
    struct Every<'a>(&'a mut dyn FnMut(&str));
    impl Ask for Every<'_> {
        fn wants_samples(&self) -> bool {
            true
        }
        fn sample(&mut self, sample: Box<RawValue>) -> Result<(), Error> {
            (self.0)(sample.get());
            Ok(())
        }
    }
    read(file, length, &mut Every(take))
}

/// Why a walk over all samples ended early: what the taker said, or what is wrong with the document.
pub(super) type Stopped = Result<LogError, Error>;

/// Hands over each sample.
pub(super) fn each(
    file: &File,
    length: u64,
    take: &mut dyn FnMut(&SampleName, u32, &str) -> Result<(), LogError>,
) -> Result<(), Stopped> {
    struct Each<'a>(&'a mut dyn FnMut(&SampleName, u32, &str) -> Result<(), LogError>, Option<LogError>);
    impl Ask for Each<'_> {
        fn wants_samples(&self) -> bool {
            self.1.is_none()
        }
        fn sample(&mut self, sample: Box<RawValue>) -> Result<(), Error> {
            // What has no name cannot have been asked for.
            let Ok(key) = serde_json::from_str::<Key>(sample.get()) else { return Ok(()) };
            self.1 = (self.0)(&key.id, key.epoch, sample.get()).err();
            Ok(())
        }
    }
    let mut each = Each(take, None);
    let read = read(file, length, &mut each);
    match (each.1, read) {
        (Some(said), _) => Err(Ok(said)),
        (None, Err(error)) => Err(Err(error)),
        (None, Ok(())) => Ok(()),
    }
}

/// Hands over the summary of each sample.
pub(super) fn summaries(file: &File, length: u64, take: &mut dyn FnMut(Value)) -> Result<(), Error> {
    struct Each<'a>(Bounds, &'a mut dyn FnMut(Value));
    impl Ask for Each<'_> {
        fn wants_samples(&self) -> bool {
            true
        }
        fn sample(&mut self, sample: Box<RawValue>) -> Result<(), Error> {
            let key: Key = serde_json::from_str(sample.get())?;
            let (fields, messages) = glance::fields(sample.get().as_bytes(), self.0)?;
            (self.1)(summary(&key.id, key.epoch, &fields, messages));
            Ok(())
        }
    }
    read(file, length, &mut Each(Bounds::of(length), take))
}

/// Checks that there is a document and nothing around it; that no field is there twice is checked by all readers.
pub(super) fn check(file: &File, length: u64) -> Result<(), Error> {
    struct Nothing;
    impl Ask for Nothing {}
    read(file, length, &mut Nothing)?;
    let mut last = [0];
    file.read_exact_at(&mut last, length.saturating_sub(1)).map_err(Error::io)?;
    if last == *b"}" { Ok(()) } else { Err(Error::custom("something stands behind the document")) }
}

fn read(file: &File, length: u64, ask: &mut dyn Ask) -> Result<(), Error> {
    if length > LONGEST {
        return Err(Error::custom(format_args!("a JSON document of more than {LONGEST} bytes")));
    }
    let file = BufReader::with_capacity(1 << 16, Part::new(file.try_clone().map_err(Error::io)?, 0, length));
    let mut text = serde_json::Deserializer::from_reader(file);
    text.deserialize_map(Fields(ask, &Bounds::of(length).budget()))?;
    text.end()
}

/// What is asked, and the memory that the answers may take together.
struct Fields<'a>(&'a mut dyn Ask, &'a Budget);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a log")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            // Readers differ in which of two they take.
            if seen.len() >= MOST_FIELDS || !seen.insert(key.clone()) {
                return Err(A::Error::custom("a field is there twice, or there are too many"));
            }
            if self.0.wants(&key) {
                let value = map.next_value_seed(Tree(self.1))?;
                self.0.field(key, value);
            } else if key == "samples" && self.0.wants_samples() {
                map.next_value_seed(Samples(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Samples<'a>(&'a mut dyn Ask);

impl<'de> DeserializeSeed<'de> for Samples<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Samples<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("samples")
    }

    /// A log without samples may say `null`.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut samples: A) -> Result<(), A::Error> {
        while self.0.wants_samples() {
            let Some(sample) = samples.next_element::<Box<RawValue>>()? else { return Ok(()) };
            self.0.sample(sample).map_err(A::Error::custom)?;
        }
        while samples.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
