//! All integration tests of this crate in one program, a module for each subject. The lanes of `./test.sh` run module by module,
//! each in a process of its own.

mod gateway;
mod services;
