//! Why there is no answer, whose fault it is, whether asking again may help, and what to do next.

use std::path::PathBuf;
use std::time::Duration;

use strangers::Shown;
use thiserror::Error;

use crate::keys::KeyringProblem;
use crate::own_tools::ProviderTool;

/// Why there is no answer. No field ever holds a key: what servers say is looked through first.
#[derive(Debug, Error)]
pub enum ModelError {
    /// No provider has this name.
    #[error("no model is called `{name}`")]
    Unknown {
        /// What was asked for.
        name: Shown,
    },
    /// There is no key.
    #[error("{provider} needs a key, and there is none")]
    MissingKey {
        /// Whose.
        provider: &'static str,
        /// Where it is looked for.
        variable: &'static str,
    },
    /// A key that cannot be sent.
    #[error("the key in {variable} holds characters that no key has")]
    OddKey {
        /// Where it is from.
        variable: &'static str,
    },
    /// The file with keys cannot be used.
    #[error("the keyring {} cannot be used: {problem}", path.display())]
    Keyring {
        /// Which file.
        path: PathBuf,
        /// Why.
        problem: KeyringProblem,
    },
    /// The address of the server is none.
    #[error("{variable} is not an address that can be asked: {why}")]
    BaseUrl {
        /// Where it is from.
        variable: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection can be made at all.
    #[error("connections cannot be secured: {why}")]
    Tls {
        /// What is wrong.
        why: Shown,
    },
    /// An image cannot be sent.
    #[error("an image cannot be sent: {why}")]
    Image {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The conversation cannot be written as JSON.
    #[error("the request cannot be written: {why}")]
    Unwritable {
        /// What is wrong with it.
        why: Shown,
    },
    /// Nobody answers there.
    #[error("{server} cannot be reached: {why}")]
    Unreachable {
        /// Who.
        server: Shown,
        /// In the system's words.
        why: Shown,
    },
    /// The connection ended in the middle.
    #[error("the connection to {server} broke off: {why}")]
    Interrupted {
        /// With whom.
        server: Shown,
        /// In the system's words.
        why: Shown,
    },
    /// It took too long.
    #[error("{server} took longer than {} s {wait}", after.as_secs_f64())]
    TimedOut {
        /// Who.
        server: Shown,
        /// For what.
        wait: Wait,
        /// How long that may take.
        after: Duration,
    },
    /// A reply without end.
    #[error("the reply of {server} is longer than {limit} bytes")]
    TooLarge {
        /// Who.
        server: Shown,
        /// The most.
        limit: u64,
    },
    /// It wants somebody else to be asked; a key is shown to nobody else.
    #[error("{server} redirects to {to}, which is not followed")]
    Redirected {
        /// Who.
        server: Shown,
        /// To whom.
        to: Shown,
    },
    /// The key is not accepted.
    #[error("{server} does not accept the key ({status}): {said}")]
    Unauthorised {
        /// Who.
        server: Shown,
        /// 401 or 403.
        status: u16,
        /// Where the key is from.
        variable: &'static str,
        /// In its words.
        said: Shown,
    },
    /// There is no such model.
    #[error("{server} has no model `{model}`: {said}")]
    NoSuchModel {
        /// Who.
        server: Shown,
        /// Which.
        model: Shown,
        /// In its words.
        said: Shown,
    },
    /// The conversation is longer than the model can take.
    #[error("the conversation is longer than the model can take: {said}")]
    ContextLength {
        /// In the server's words.
        said: Shown,
    },
    /// The provider does not let the model see this.
    #[error("the provider's filter refused the request: {said}")]
    ContentFilter {
        /// In the server's words.
        said: Shown,
    },
    /// The request is not what the server takes.
    #[error("{server} refused the request ({status}): {said}")]
    Refused {
        /// Who.
        server: Shown,
        /// Of the reply.
        status: u16,
        /// In its words.
        said: Shown,
    },
    /// Too much was asked at once.
    #[error("{server} limits how much it is asked ({status}): {said}")]
    RateLimited {
        /// Who.
        server: Shown,
        /// 429 or 529.
        status: u16,
        /// In its words.
        said: Shown,
        /// When to ask again.
        retry_after: Option<Duration>,
    },
    /// The account is used up: waiting does not help.
    #[error("the account at {server} is used up: {said}")]
    Quota {
        /// Who.
        server: Shown,
        /// In its words.
        said: Shown,
    },
    /// It is out of order.
    #[error("{server} is out of order ({status}): {said}")]
    Broken {
        /// Who.
        server: Shown,
        /// Of the reply.
        status: u16,
        /// In its words.
        said: Shown,
        /// When to ask again.
        retry_after: Option<Duration>,
    },
    /// A reply that is none.
    #[error("{server} gave a reply that cannot be read: {why}")]
    Malformed {
        /// Who.
        server: Shown,
        /// What is wrong with it.
        why: Shown,
    },
    /// A tool of the provider is granted, and this model has none such.
    #[error("the provider of {model} has no {tool} of its own")]
    NoSuchTool {
        /// The model's full name.
        model: Shown,
        /// Which.
        tool: ProviderTool,
    },
    /// The provider ran a tool of its own, which nobody granted.
    #[error("{server} used a tool of its own that nobody granted: {tool}")]
    Uninvited {
        /// Who.
        server: Shown,
        /// Which.
        tool: Shown,
    },
    /// It was asked again, in vain.
    #[error("no answer after {attempts} attempts")]
    GaveUp {
        /// How many.
        attempts: u32,
        /// The last reason.
        #[source]
        last: Box<ModelError>,
    },
}

/// For what was waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For the head of the reply.
    Head,
    /// For the next bytes of it.
    Body,
    /// For all of it.
    Whole,
}

impl std::fmt::Display for Wait {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Head => "to begin its reply",
            Self::Body => "to go on with its reply",
            Self::Whole => "for its reply",
        })
    }
}

/// Whose fault it is that there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Whoever set this up: a key, a name, an address.
    Setup,
    /// The task: what is asked, or how.
    Task,
    /// The provider.
    Provider,
    /// What lies between.
    Network,
}

impl ModelError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unknown { .. }
            | Self::MissingKey { .. }
            | Self::OddKey { .. }
            | Self::Keyring { .. }
            | Self::BaseUrl { .. }
            | Self::Tls { .. }
            | Self::Unauthorised { .. }
            | Self::NoSuchModel { .. }
            | Self::NoSuchTool { .. }
            | Self::Quota { .. } => Fault::Setup,
            Self::Image { .. }
            | Self::Unwritable { .. }
            | Self::ContextLength { .. }
            | Self::ContentFilter { .. }
            | Self::Refused { .. } => Fault::Task,
            Self::TooLarge { .. }
            | Self::Redirected { .. }
            | Self::RateLimited { .. }
            | Self::Broken { .. }
            | Self::Malformed { .. }
            | Self::TimedOut { .. }
            | Self::Uninvited { .. } => Fault::Provider,
            Self::Unreachable { .. } | Self::Interrupted { .. } => Fault::Network,
            Self::GaveUp { last, .. } => last.fault(),
        }
    }

    /// Whether asking again may help.
    pub fn is_retried(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Interrupted { .. }
                | Self::TimedOut { .. }
                | Self::RateLimited { .. }
                | Self::Broken { .. }
        )
    }

    /// When the server wants to be asked again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Broken { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { .. } => {
                let known: Vec<String> =
                    crate::providers().iter().map(|provider| format!("{}/…", provider.name())).collect();
                format!("models are {}", known.join(", "))
            }
            Self::MissingKey { variable, .. } => {
                format!("set {variable}, or name a file with it in {}", crate::KEYRING_VARIABLE)
            }
            Self::OddKey { variable } => format!("check {variable}: a line break at its end, or a quote?"),
            Self::Keyring { problem, .. } => problem.hint().to_owned(),
            Self::BaseUrl { .. } => "write https://host/v1, or http://localhost:8000/v1 for this machine".into(),
            Self::Tls { .. } => "check the certificates of this system, or SSL_CERT_FILE".into(),
            Self::Image { .. } => "images are png, jpeg, gif or webp, as data URLs or files beside the task".into(),
            Self::Unwritable { .. } => "look at the last message of the sample in the log".into(),
            Self::Unreachable { .. } => "check the network and the address of the server".into(),
            Self::Interrupted { .. } | Self::Broken { .. } => "try again later".into(),
            Self::TimedOut { .. } => "give it more time with `generate: {attempt_timeout: …}`".into(),
            Self::TooLarge { .. } => "limit answers with `generate: {max_tokens: …}`".into(),
            Self::Redirected { .. } => "name the server's own address".into(),
            Self::Unauthorised { variable, .. } => format!("check the key in {variable}"),
            Self::NoSuchModel { .. } => "check the model's name, and whether your account may use it".into(),
            Self::ContextLength { .. } => "use the solver `iterative`, which forgets, or limit messages".into(),
            Self::ContentFilter { .. } => "the provider decides this; another model may answer".into(),
            Self::Refused { .. } => "check `generate:` of the task against what this model takes".into(),
            Self::RateLimited { .. } => "ask less at once with `generate: {max_connections: …}`".into(),
            Self::Quota { .. } => "check the account's billing".into(),
            Self::Malformed { .. } => "is this a server of the provider's API?".into(),
            Self::NoSuchTool { .. } => {
                let takes = |provider: &&crate::Provider| !provider.provider_tools().is_empty();
                let names: Vec<String> =
                    crate::providers().iter().filter(takes).map(|one| format!("{}/…", one.name())).collect();
                format!("leave it out, or use {}", names.join(", "))
            }
            Self::Uninvited { .. } => {
                "use a model that does not search or run code by itself, or grant it in the task's `tools`".into()
            }
            Self::GaveUp { last, .. } => last.hint(),
        }
    }
}
