//! A small, strict client of OCI registries: from the name of an image to its manifest and its verified blobs.
//!
//! Everything that a registry says is hostile: documents are bounded, digests and sizes verified, redirects and realms
//! checked, and words cut before they are shown. Credentials go to the registry and to the realm of its tokens, and to
//! nobody else; to other machines everything goes over TLS.
//!
//! Pure: references, digests, platforms, documents, challenges, and where a request may go. The rest asks servers, or the
//! user's credential helpers. Unpacking layers and keeping images is left to others; so is checking that a configuration
//! is for the platform, when an image has no index.

mod authorization;
mod blob;
mod challenge;
mod credentials;
mod credentials_error;
mod digest;
mod docker_config;
mod document;
mod document_error;
mod error;
mod helper;
mod media;
mod places;
mod platform;
mod reference;
mod reference_error;
mod refusal;
mod registry;
mod resolve;
mod settings;
mod token;
mod transport;

pub use credentials::{Credentials, Login};
pub use credentials_error::CredentialsError;
pub use digest::{Digest, DigestError, Digester};
pub use document::{Descriptor, MAX_CONFIG, MAX_DOCUMENT, MAX_ENTRIES, MAX_LAYERS};
pub use document_error::DocumentError;
pub use error::{Cause, PullError};
pub use places::Unsafe;
pub use platform::{Platform, PlatformError};
pub use reference::Reference;
pub use reference_error::ReferenceError;
pub use registry::Registry;
pub use resolve::Resolved;
pub use settings::{Proxies, Settings, Timing};
pub use strangers::{MAX_SHOWN, Shown};
