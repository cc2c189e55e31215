//! A small zip of our own.
//!
//! The `zip` crate finishes a file once, and appending to one overwrites its directory first: killed there, the file does not
//! open any more. This writer keeps two files and exchanges them ([`archive`]), which needs the entries' bytes and places
//! in hand. What remains is little: no encryption, no attributes, sizes known before an entry is written.

mod archive;
mod format;
mod read;
mod whole;

pub(crate) use archive::{Archive, Piece};
pub(crate) use format::Entry;
pub(crate) use read::{directory, open, refuse_bombs};
pub(crate) use whole::check;
