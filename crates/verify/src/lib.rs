//! Proof: probes that run inside a sandbox, held against what is reached without it, and the profile that they show.
//!
//! A probe passes only if its target was shown to be there in the same run and was not reached from inside; where the
//! gateway refuses, its own record must say why. What is not shown is `unknown`, never a pass.
//!
//! [`catalogue`] is what is tried; [`verify`] tries it on a plan; a [`Report`] is what came of it. The programs that
//! verify call [`become_world`] first of all.

mod bytes;
mod catalogue;
mod control;
mod host;
mod judge;
mod limits;
mod network;
mod probe;
mod report;
mod run;
mod scene;
mod sibling;
mod tasks;
mod world;
mod zones;

pub use catalogue::{catalogue, catalogue_table};
pub use control::Control;
pub use probe::{Axis, Finding, Probe, Speed, Verdict};
pub use report::{Conclusion, Observed, Probed, Report, Seen};
pub use run::{VerifyError, verify};
pub use scene::Subject;
pub use world::{WorldError, become_world};
