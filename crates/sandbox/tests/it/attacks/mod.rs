//! The agent inside the box: root in its namespaces, hostile, patient. Every test is named by its attack.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod calls;
mod files;
mod floods;
mod kernel;
mod leaks;
mod pools;
mod processes;
mod rights;
mod sockets;

const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const ENOPROTOOPT: i32 = 92;
const EAFNOSUPPORT: i32 = 97;
