//! The HTTP API: sandboxes, commands in them, their files, what their networks did, and who decides about names.
//!
//! For programs of the same user, over a unix socket; over TCP for whoever has a token. Whoever asks sees only its own
//! sandboxes, and a client that goes away takes them along unless it said otherwise.
//!
//! How a wish becomes a plan and a kind of sandbox is not known here: the command brings a [`Workshop`]. `api/` is what is
//! said over HTTP, `life/` what lives between requests, `server/` who may speak and for how long.

mod api;
mod app;
mod life;
mod server;
mod workshop;

pub use api::{ComposeWish, SandboxWish, VerifyWish, openapi_text};
pub use app::Limits;
pub use server::{Address, Bound, ListenError, Place, Token, TokenError, Tokens, bind, serve};
pub use workshop::{Made, Obstacle, ReceiptObstacle, ServicePart, Workshop};
