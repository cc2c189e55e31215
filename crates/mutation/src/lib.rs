//! Controls that a build for tests can take away, one at a time, so that it is known that probes notice.
//!
//! Only a build with the feature `mutations` can; there, the variable [`VARIABLE`] says which. In every other build
//! [`mutated`] is a constant `false`, and what it guards is not compiled into anything.

#[cfg(feature = "mutations")]
mod selected;
mod table;

pub use table::Mutation;

#[cfg(feature = "mutations")]
pub use selected::{announce, environment, mutated, pass_on};
#[cfg(not(feature = "mutations"))]
pub use unselected::{announce, environment, mutated, pass_on};

/// The variable that names what is taken away. It is handed on to every program that takes part.
pub const VARIABLE: &str = "RINGFENCE_MUTATION";

/// A text that every program of a build with mutations holds, and no other program.
pub const MARKER: &str = "THIS BUILD IS FOR TESTS ONLY: IT CAN TAKE A CONTROL OF THE SANDBOX AWAY";

/// What every other build has.
#[cfg(not(feature = "mutations"))]
mod unselected {
    use std::ffi::CString;
    use std::process::Command;

    use crate::Mutation;

    /// Whether this is taken away: never.
    pub const fn mutated(_: Mutation) -> bool {
        false
    }

    /// Says nothing: there is nothing to say.
    pub const fn announce() {}

    /// Hands nothing on.
    pub const fn pass_on(_: &mut Command) {}

    /// An empty environment.
    pub const fn environment() -> Vec<CString> {
        Vec::new()
    }
}
