//! Models that answer from elsewhere: one way to ask, many providers.
//!
//! [`open`] finds a provider by a model's name and its key; [`Model::generate`] asks. A provider's file (`openai.rs`,
//! `anthropic.rs` and so on) only translates: a [`Request`] into its JSON, its reply into an
//! [`Output`]. Everything else is shared: `client.rs` sends, `retry.rs` is patient, `limiter.rs` holds back, `cache.rs`
//! remembers, `price.rs` counts the cost.
//!
//! Tools of a provider itself (its search, its code runner) are switched on only where whoever asks says so, and a reply in
//! which another was used is an error: what an agent may use is decided by its plan. `own_tools.rs` is what they are.

mod anthropic;
mod cache;
mod client;
mod config;
mod error;
mod google;
mod keys;
mod limiter;
mod media;
mod openai;
mod output;
mod own_tools;
mod pause;
mod price;
mod provider;
mod remote;
mod request;
mod responses;
mod retry;
mod settings;

pub use cache::CacheSettings;
pub use config::{Effort, GenerateConfig};
pub use error::{Fault, ModelError, Wait};
pub use keys::{Environment, KEYRING_VARIABLE, KeyringProblem};
pub use log::message::ModelOutput as Output;
pub use own_tools::ProviderTool;
pub use price::{PRICES_VARIABLE, Price, PriceError, Prices};
pub use provider::{Provider, providers};
pub use remote::{Opened, open};
pub use request::{Answer, Generating, Model, Request, ToolChoice, ToolInfo};
pub use settings::{Backoff, Settings, Timing};
pub use strangers::Shown;
