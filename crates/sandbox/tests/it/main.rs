//! All integration tests of this crate in one program, a module for each subject. The lanes of `./test.sh` run module by module,
//! each in a process of its own.

mod attacks;
mod attempts;
mod common;
mod confined;
mod conformance;
mod connections;
mod descriptors;
mod enter;
mod hostile_guest;
mod leaks;
mod prepared;
mod programs;
mod relayed;
mod snapshots;
