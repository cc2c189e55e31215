//! Why an image could not be had, whose fault it is, and what to do next.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use strangers::Shown;
use thiserror::Error;

use crate::credentials_error::CredentialsError;
use crate::digest::Digest;
use crate::document_error::DocumentError;
use crate::places::Unsafe;

/// Why an image could not be had.
#[derive(Debug, Error)]
pub enum PullError {
    /// No connection could be made safe: the system has no authorities, or a given one is none.
    #[error("cannot set up TLS")]
    Tls(#[source] Cause),
    /// A server could not be reached.
    #[error("cannot reach `{server}`")]
    Unreachable {
        /// Which.
        server: Shown,
        /// Why.
        source: Cause,
    },
    /// A server fell silent, or took too long for something small.
    #[error("`{server}` did not answer within {after:?}")]
    Stalled {
        /// Which.
        server: Shown,
        /// How long was waited.
        after: Duration,
    },
    /// A server's answer was no HTTP, or ended before its end.
    #[error("the answer of `{server}` broke off")]
    Interrupted {
        /// Which.
        server: Shown,
        /// Why.
        source: Cause,
    },
    /// A server answered with an error of no other kind.
    #[error("`{server}` answered {status} for `{image}`: {message}")]
    Status {
        /// Which.
        server: Shown,
        /// What was wanted.
        image: String,
        /// The status.
        status: u16,
        /// What it said.
        message: Shown,
    },
    /// The registry has no such image.
    #[error("there is no `{image}`: {message}")]
    NotFound {
        /// What was wanted.
        image: String,
        /// What the registry said.
        message: Shown,
    },
    /// Whoever we are may not have the image.
    #[error("access to `{image}` is denied: {message}")]
    Denied {
        /// What was wanted.
        image: String,
        /// What the registry said.
        message: Shown,
    },
    /// Too much was asked in too short a time.
    #[error("`{server}` takes no more requests for now")]
    RateLimited {
        /// Which.
        server: Shown,
    },
    /// The registry wants to know who we are, and there are no credentials for it.
    #[error("`{registry}` gives `{image}` to nobody without a login")]
    LoginNeeded {
        /// The registry.
        registry: String,
        /// What was wanted.
        image: String,
    },
    /// The credentials are wrong.
    #[error("`{server}` refused the login for `{registry}`: {message}")]
    LoginRefused {
        /// The registry that the credentials are for.
        registry: String,
        /// Who refused them.
        server: Shown,
        /// What it said.
        message: Shown,
    },
    /// The credentials could not be found out.
    #[error("cannot find out the login for `{registry}`")]
    Credentials {
        /// The registry.
        registry: String,
        /// Why.
        source: CredentialsError,
    },
    /// The registry wants a login of a kind that is unknown.
    #[error("`{registry}` wants a login of an unknown kind")]
    Challenge {
        /// The registry.
        registry: String,
    },
    /// The registry sends us for tokens where we do not go.
    #[error("`{registry}` gives tokens at `{realm}`, which is not asked: {why}")]
    Realm {
        /// The registry.
        registry: String,
        /// Where it sends us.
        realm: Shown,
        /// Why we do not go.
        why: Unsafe,
    },
    /// A realm answered, but not with a token.
    #[error("`{server}` gave no usable token")]
    Token {
        /// Which.
        server: Shown,
    },
    /// A server redirects us where we do not go.
    #[error("`{server}` redirects to `{to}`, which is not asked: {why}")]
    Redirect {
        /// Which.
        server: Shown,
        /// Where it sends us.
        to: Shown,
        /// Why we do not go.
        why: Unsafe,
    },
    /// One redirect follows another.
    #[error("`{registry}` redirects more than {limit} times")]
    TooManyRedirects {
        /// The registry that was asked first.
        registry: String,
        /// How many are followed.
        limit: usize,
    },
    /// An index, a manifest or a token is too large.
    #[error("the answer of `{server}` is larger than {limit} bytes")]
    AnswerTooLarge {
        /// Which.
        server: Shown,
        /// The most that is taken.
        limit: u64,
    },
    /// An index or a manifest cannot be used.
    #[error("cannot use what the registry has as `{image}`")]
    Document {
        /// What was wanted.
        image: String,
        /// Why.
        source: DocumentError,
    },
    /// A layer is larger than the caller allows.
    #[error("`{digest}` has {size} bytes and may have {limit}")]
    BlobTooLarge {
        /// The blob.
        digest: Digest,
        /// Its size.
        size: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// There are fewer or more bytes than were announced.
    #[error("`{digest}` should have {expected} bytes and has {found}")]
    SizeDiffers {
        /// What was asked for.
        digest: Digest,
        /// How many bytes it has.
        expected: u64,
        /// How many came or were announced; those of an answer without end are not counted.
        found: u64,
    },
    /// Other bytes came than were asked for.
    #[error("`{found}` came instead of `{expected}`")]
    DigestDiffers {
        /// What was asked for.
        expected: Digest,
        /// What came.
        found: Digest,
    },
    /// A blob could not be written.
    #[error("cannot write a blob")]
    Write(#[source] io::Error),
}

impl PullError {
    /// Whether the same may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Stalled { .. } | Self::Interrupted { .. } | Self::RateLimited { .. } => {
                true
            }
            Self::Status { status, .. } => *status >= 500,
            _ => false,
        }
    }

    /// What to do next, where something can be done.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::LoginNeeded { registry, .. } => {
                return Some(format!("check the name of the image, or log in with `docker login {registry}`"));
            }
            Self::LoginRefused { registry, .. } => return Some(format!("log in again with `docker login {registry}`")),
            Self::Document { source, .. } => return source.hint(),
            Self::Credentials { source, .. } => return Some(source.hint()),
            Self::Tls(_) => "install the package `ca-certificates`, or name the authorities in SSL_CERT_FILE",
            Self::Unreachable { .. } => "check the name of the registry, the network and HTTPS_PROXY",
            Self::Stalled { .. } | Self::Interrupted { .. } => {
                "try again; if it stays so, check the network and HTTPS_PROXY"
            }
            Self::RateLimited { .. } => "wait, or log in: registries give more to those they know",
            Self::NotFound { .. } => "check the name, the tag and the digest of the image",
            Self::Denied { .. } => "ask the owner of the image for access",
            Self::Challenge { .. } => "use a registry with logins by password or token (Basic or Bearer)",
            Self::Realm { .. } | Self::Redirect { .. } | Self::TooManyRedirects { .. } => {
                "check the name of the registry; if it is right, tell who runs it"
            }
            Self::Token { .. } | Self::AnswerTooLarge { .. } => "check that this is a registry",
            Self::DigestDiffers { .. } | Self::SizeDiffers { .. } => {
                "try again; if it stays so, the registry or something before it is broken, or hostile"
            }
            Self::BlobTooLarge { .. } => "use a smaller image, or raise the limit",
            Self::Write(_) => "check the space left on the disk",
            Self::Status { status, .. } if *status >= 500 => "try again later",
            Self::Status { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// What went wrong below HTTP, in words: those of the system and of libraries, in which a server's may stand.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Cause(Shown);

impl Cause {
    pub(crate) fn new(text: &str) -> Self {
        Self(Shown::new(text))
    }
}

/// The innermost errors say what happened. Addresses are left out: signatures stand in them.
impl From<reqwest::Error> for Cause {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut words = Vec::new();
        let mut inner = error.source();
        // No chain is so long; the bound is for a library's mistake.
        for _ in 0..16 {
            let Some(error) = inner else { break };
            words.push(error.to_string());
            inner = error.source();
        }
        if words.is_empty() {
            words.push(error.to_string());
        }
        words.dedup();
        Self::new(&words.join(": "))
    }
}
