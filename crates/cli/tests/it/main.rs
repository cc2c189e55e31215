//! All integration tests of this crate in one program, a module for each subject. The lanes of `./test.sh` run module by module,
//! each in a process of its own.

mod approvals;
mod architecture;
mod cli;
mod common;
mod docker;
mod egress;
mod eval;
#[path = "../../../model/tests/it/fake/mod.rs"]
mod fake;
mod file_tools;
mod images;
mod limits;
mod load;
mod matrix;
mod memory;
mod models;
mod receipts;
mod retry;
mod run;
mod scorer;
mod scores;
mod secrets;
mod serve;
mod serve_docker;
mod session;
mod set;
mod snapshots;
mod sources;
mod verify;
mod web;
