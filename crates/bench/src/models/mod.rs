//! Evaluations whose model is elsewhere: many conversations at once with a server that takes its time.
//!
//! Three contenders in turn, each with a server of its own that knows nothing of the others: one who only asks, which shows
//! what the server can; our command; Inspect. No sandbox is needed for any call, so that asking is what is measured.

mod contender;
mod http;
mod load;
mod record;
mod report;
mod script;
mod server;

use std::error::Error;

use tempfile::TempDir;

use self::contender::{Work, ask_only, ours, theirs};
pub(crate) use self::load::Load;
use self::report::Comparison;
pub(crate) use self::server::serve;

/// Turns of each conversation: thoughts, and an answer.
const TURNS: usize = 20;
/// Samples under way at the same time, ours and theirs: a few more than the server answers, so that it never waits for
/// us, and so that they have to share.
const SAMPLES_AT_ONCE: usize = 250;

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    rounds: usize,
    /// A multiple of what the server answers at once, so that its limit is not measured with connections that are idle.
    samples: u64,
    /// Inspect's: fewer where it has to end soon. Whether their number changes its speed, the full run shows.
    peer_samples: u64,
}

pub(crate) const QUICK: Extent = Extent { rounds: 1, samples: 600, peer_samples: 40 };
pub(crate) const FULL: Extent = Extent { rounds: 2, samples: 1000, peer_samples: 1000 };

/// Runs everything, a round at a time.
pub(crate) fn compare(extent: Extent) -> Result<Comparison, Box<dyn Error>> {
    let (program, python) = crate::evals::programs()?;
    let place = TempDir::new()?;
    let work = |samples| Work { place: place.path(), samples };
    let mut comparison = Comparison::new(extent.samples, python.as_ref().err().cloned());
    for _ in 0..extent.rounds {
        comparison.limit.push(ask_only(work(extent.samples))?);
        comparison.ours.push(ours(&program, work(extent.samples))?);
        if let Ok(python) = &python {
            comparison.theirs.push(theirs(python, work(extent.peer_samples))?);
        }
    }
    Ok(comparison)
}
