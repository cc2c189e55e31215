//! The summaries of a log's samples, one at a time: a list of a million is never in memory.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;
use std::rc::Rc;

use bounded::Tree;
use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::{Error, Value};

use super::metered::{Bounds, Meter, Metered};
use super::{Kind, ReadError, Reader, SUMMARIES, document};

/// The most samples that a log may list.
const MOST: usize = 1 << 20;

impl Reader {
    /// Hands over Inspect's `EvalSampleSummary` of each sample, in the order in which they completed. Of a sample that was
    /// recorded twice, the last one.
    pub fn each_summary(&self, see: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        // Two passes: which summary of a sample is its last is known at the end. 16 bytes each are held in between; the
        // hash has a key that the log's author does not know.
        let hasher = RandomState::new();
        let (mut keys, mut too_many) = (Vec::new(), false);
        self.walk_summaries(&mut |summary| match u32::try_from(keys.len()) {
            Ok(index) if keys.len() < MOST => {
                keys.push((hasher.hash_one((summary["id"].to_string(), summary["epoch"].to_string())), index));
            }
            _ => too_many = true,
        })?;
        if too_many {
            return Err(ReadError::TooMany { path: self.path.clone(), what: "samples", max: MOST as u64 });
        }
        keys.sort_unstable();
        let mut replaced: Vec<u32> =
            keys.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].1).collect();
        drop(keys);
        replaced.sort_unstable();
        let mut index = 0_u32;
        self.walk_summaries(&mut |summary| {
            if replaced.binary_search(&index).is_err() {
                see(summary);
            }
            index = index.saturating_add(1);
        })
    }

    /// All of them in one list, within the log's memory allowance; longer lists are for [`Reader::each_summary`].
    pub fn summaries(&self) -> Result<Vec<Value>, ReadError> {
        let budget = self.bounds()?.budget();
        let (mut all, mut too_many) = (Vec::new(), false);
        self.each_summary(&mut |summary| match budget.take::<Error>(bounded::cost(&summary)) {
            Ok(()) => all.push(summary),
            Err(_) => too_many = true,
        })?;
        if too_many {
            return Err(ReadError::TooMany { path: self.path.clone(), what: "samples", max: all.len() as u64 });
        }
        Ok(all)
    }

    /// All that are written, also those that a later one replaces.
    fn walk_summaries(&self, see: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let bounds = self.bounds()?;
        if let Kind::Json = self.kind {
            return document::summaries(&self.file, self.length()?, see).map_err(self.part("samples"));
        }
        if let Some(content) = self.content(SUMMARIES)? {
            return list(content, bounds, see).map_err(self.part(SUMMARIES));
        }
        for number in 1_u64.. {
            let part = format!("_journal/summaries/{number}.json");
            let Some(content) = self.content(&part)? else { break };
            list(content, bounds, see).map_err(self.part(&part))?;
        }
        Ok(())
    }
}

/// Hands over the items of a list. Each has the whole of the bounds for itself.
fn list(content: impl Read, bounds: Bounds, see: &mut dyn FnMut(Value)) -> Result<(), Error> {
    struct Items<'a>(Rc<Meter>, Bounds, &'a mut dyn FnMut(Value));
    impl<'de> Visitor<'de> for Items<'_> {
        type Value = ();

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a list of summaries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
            let Self(meter, bounds, see) = self;
            while let Some(item) = items.next_element_seed(Tree(&bounds.budget()))? {
                see(item);
                meter.reset();
            }
            Ok(())
        }
    }
    let meter = Meter::new(bounds);
    let mut text = serde_json::Deserializer::from_reader(Metered::new(content, &meter));
    text.deserialize_seq(Items(meter, bounds, see))?;
    text.end()
}
