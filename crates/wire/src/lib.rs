//! Frames between the host and the guest in a sandbox.
//!
//! A pure codec over any duplex byte stream: it owns the format and its bounds, and does no I/O. Neither side trusts the
//! other: a length is checked before anything is kept, and whatever does not decode ends the session.
//!
//! A frame is `length: u32` (little endian, of what follows), `kind: u8`, `id: u32`, payload. Chunks carry raw bytes,
//! everything else a [postcard](https://postcard.jamesmunns.com) record. `tests/golden.rs` keeps the bytes of a version.

mod attempt;
mod frame;
mod message;
mod tree;

pub use attempt::{Argument, Attempt, Attempted, Ending, Listed, LocalAddress, MAX_ATTEMPTED, TransferFailure};
pub use frame::{Decoder, FrameError, MAX_CHUNK, MAX_FRAME, Message, encode};
pub use message::{
    DialFailure, Entry, Exec, FailureKind, FileKind, Guest, Host, Look, MAX_LISTED, MAX_LISTED_BYTES, MAX_QUESTION,
    Outcome, PROTOCOL_VERSION, Stat, Stream, User, WINDOW, WindowSize, Within, WriteMode,
};
pub use tree::{ENGINE_DIRECTORIES, Item, MAX_DEPTH, MAX_TREE_CHUNK, Meta, Part, SYSTEM_DIRECTORIES, Unchanged};
