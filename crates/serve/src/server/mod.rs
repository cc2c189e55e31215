//! Who may speak, from where, and for how long.

mod bind;
mod connection;
mod owner;
mod patient;
mod places;
mod run;
mod tokens;

pub use bind::{Address, Bound, ListenError, Place, bind};
pub use run::serve;
pub use tokens::{Token, TokenError, Tokens};

pub(crate) use owner::Owner;
pub(crate) use places::Seat;
