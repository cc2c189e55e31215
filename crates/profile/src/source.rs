//! How a file that a user writes is read: strictly, every value with its place, every mistake at once.
//!
//! For crates that read files with the keys of a [`Document`](crate::Document) and their own: [`parse`] makes a tree,
//! [`Fields`] takes typed values out of it, [`Complaints`] collects what is wrong.

pub use crate::problem::nearest_word;
pub use crate::reader::{Complaints, Fields, parsed, text};
pub use crate::yaml::{Key, Node, TruthWords, Value, parse, parse_with};
