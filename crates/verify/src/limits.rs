//! Limits really bite: in a sandbox of its own, whose limits are small enough to be reached in a moment.

use sandbox::{Attempt, Attempted, Bounds, Outcome, Sandbox, SessionError, Tried, Variant};

use crate::host::{attempt, words};
use crate::probe::{Bound, Finding};
use crate::scene::Scene;

const MEMORY: u64 = 48 << 20;
const PIDS: u64 = 48;
const DISK: u64 = 8 << 20;
/// Files of a disk of that size: one for each 4 KiB, and a few of the engine's own.
const FILES: u32 = 4096;
const OPEN_FILES: u32 = 5000;

/// The sandbox of the plan, with small limits.
pub(crate) fn small() -> Variant {
    Variant { bounds: Some(Bounds { memory: MEMORY, pids: PIDS, disk: DISK }), ..Variant::default() }
}

/// Does one probe of limits.
pub(crate) async fn probe(bound: Bound, inside: &Sandbox, scene: &Scene) -> Result<Finding, SessionError> {
    let name = match bound {
        Bound::Memory => Some("memory"),
        Bound::Pids => Some("pids"),
        Bound::Disk | Bound::Inodes => Some("disk"),
        Bound::OpenFiles => None,
    };
    if name.is_some_and(|name| !scene.bounds(name)) {
        return Ok(Finding::unclaimed("the plan says that nothing bounds it here"));
    }
    // The runtime itself is what is bounded: to try it is to end it.
    if matches!(bound, Bound::Memory | Bound::Pids) && scene.has_kernel_of_runtime() {
        return Ok(Finding::unclaimed("the plan says that the sandbox ends there, and nobody is left to tell"));
    }
    // The root of the sandbox is what is bounded.
    let directory = || String::from("/");
    let (aim, limit) = match bound {
        Bound::Memory => (Attempt::Memory { bytes: 2 * MEMORY }, MEMORY),
        Bound::Pids => (Attempt::Processes { count: u32::try_from(2 * PIDS).unwrap_or(u32::MAX) }, PIDS),
        Bound::Disk => (Attempt::Fill { directory: directory(), bytes: 2 * DISK }, DISK),
        Bound::Inodes => (Attempt::Files { directory: directory(), count: FILES }, u64::from(FILES) - 1),
        Bound::OpenFiles => (Attempt::OpenFiles { count: OPEN_FILES }, u64::from(OPEN_FILES) - 1),
    };
    let tried = attempt(inside, aim).await?;
    Ok(judge(bound, &tried, limit))
}

/// Bitten: ended by the kernel, or refused at the limit or below. Pure.
fn judge(bound: Bound, tried: &Tried, limit: u64) -> Finding {
    match (bound, tried) {
        (Bound::Memory, Tried::Ended(Outcome::Signalled(9))) => {
            Finding::pass(format!("ended by the kernel at a limit of {limit} bytes"))
        }
        (_, Tried::Answered(Attempted::Amount { amount, errno: Some(_) })) if *amount <= limit => {
            Finding::pass(format!("{} at a limit of {limit}", words(tried)))
        }
        (_, Tried::Answered(Attempted::Amount { .. })) => {
            Finding::fail(format!("{} in spite of a limit of {limit}", words(tried)))
        }
        _ => Finding::unknown(words(tried)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Verdict;

    #[test]
    fn a_limit_bites_or_it_does_not() {
        let amount = |amount, errno| Tried::Answered(Attempted::Amount { amount, errno });
        for (bound, tried, verdict) in [
            (Bound::Memory, Tried::Ended(Outcome::Signalled(9)), Verdict::Pass),
            (Bound::Memory, amount(20, None), Verdict::Fail),
            (Bound::Memory, Tried::Ended(Outcome::TimedOut), Verdict::Unknown),
            (Bound::Pids, amount(9, Some(11)), Verdict::Pass),
            (Bound::Pids, amount(11, Some(11)), Verdict::Fail),
            (Bound::Pids, Tried::Ended(Outcome::Signalled(9)), Verdict::Unknown),
            (Bound::Disk, amount(20, None), Verdict::Fail),
        ] {
            assert_eq!(judge(bound, &tried, 10).verdict, verdict, "{bound:?} {tried:?}");
        }
    }
}
