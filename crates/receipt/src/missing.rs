//! Finished samples that a chain has and its log has not: an honest writer puts a sample into the log first.

use std::collections::HashSet;

use log::{ReadError, Reader, SampleName};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

/// So many samples of a chain are looked for; as many as a log may list.
const MOST: usize = 1 << 20;
/// So many of the missing ones are named.
const MOST_NAMED: usize = 1000;

/// What is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// How many.
    pub count: u64,
    /// Which: the first 1000, in the order of the chain.
    pub list: Vec<MissingSample>,
}

/// A sample that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingSample {
    /// Its id, a text or a number.
    pub id: SampleName,
    /// Its epoch.
    pub epoch: u32,
}

/// The samples that a chain says are finished, each once.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    names: Vec<(SampleName, u32)>,
    known: HashSet<(SampleName, u32)>,
}

impl Finished {
    /// Takes a line of the chain.
    pub(crate) fn see(&mut self, kind: &str, data: &Value) {
        let epoch = data["epoch"].as_u64().and_then(|epoch| u32::try_from(epoch).ok());
        if let ("sample", Ok(id), Some(epoch)) = (kind, SampleName::deserialize(&data["sample"]), epoch)
            && self.names.len() < MOST
            && self.known.insert((id.clone(), epoch))
        {
            self.names.push((id, epoch));
        }
    }

    /// Those that the log does not have.
    pub(crate) fn missing(self, log: &Reader) -> Result<Missing, ReadError> {
        drop(self.known);
        let mut missing = Missing::default();
        for ((id, epoch), is_there) in std::iter::zip(&self.names, log.has(&self.names)?) {
            if !is_there {
                missing.count += 1;
                if missing.list.len() < MOST_NAMED {
                    missing.list.push(MissingSample { id: id.clone(), epoch: *epoch });
                }
            }
        }
        Ok(missing)
    }
}
