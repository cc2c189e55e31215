//! What sandbox a client wants.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::{Answer, Problem};

/// Whether the plan is proven before the sandbox is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyWish {
    /// The probes that take no time.
    Fast,
    /// All probes.
    Full,
    /// None; what is observed is then `not_probed`.
    Off,
}

/// A Compose file and where it lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComposeWish {
    /// The text of the file.
    #[schema(max_length = 1_048_576)]
    pub text: String,
    /// The directory that its paths are relative to.
    #[schema(max_length = 4096)]
    pub directory: String,
}

/// A sandbox that a client wants. One of `profile`, `document` and `compose` says which; a profile beside a document or
/// a Compose file overrides it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxWish {
    /// Such as `T0.H1.N1`.
    #[schema(max_length = 32)]
    pub profile: Option<String>,
    /// The text of a profile document.
    #[schema(max_length = 1_048_576)]
    pub document: Option<String>,
    /// What the document is called in messages.
    #[schema(max_length = 4096)]
    pub origin: Option<String>,
    /// A Compose file.
    pub compose: Option<ComposeWish>,
    /// The image, instead of the document's.
    #[schema(max_length = 4096)]
    pub image: Option<String>,
    /// Who runs it, such as `container` or `docker`.
    #[schema(max_length = 32)]
    pub provider: Option<String>,
    /// Why a safeguard is off.
    #[schema(max_length = 4096)]
    pub justification: Option<String>,
    /// The approval policy: `ci`, `dev`, `prod`, a policy file, or `human`, which also puts names before a person that no
    /// rule lists. Without one it is the operator's own.
    #[schema(max_length = 4096)]
    pub approval: Option<String>,
    /// The client's own words about it.
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether it outlives its client: then only `DELETE`, a stated lease or the server's end ends it.
    pub detached: Option<bool>,
    /// Ends it when nobody has asked for it for so long; 60 without a session, none with one.
    #[schema(minimum = 1, maximum = 86400)]
    pub lease_seconds: Option<f64>,
    /// Whether its plan is proven first; `off` if absent.
    pub verify: Option<VerifyWish>,
}

/// Labels are for people and searches, not for data.
const MAX_LABELS: usize = 64;
const MAX_LABEL: usize = 1024;
/// The longest of the short texts.
const MAX_TEXT: usize = 4096;

impl SandboxWish {
    /// What two wishes have in common that are for the same kind of sandbox.
    pub(crate) fn sort(&self) -> Self {
        Self { labels: None, detached: None, lease_seconds: None, verify: None, ..self.clone() }
    }

    /// Its labels in one line.
    pub(crate) fn about(&self) -> String {
        let mut about = String::new();
        for (name, value) in self.labels.iter().flatten().take(8) {
            let _ = write!(about, " {}={}", super::short(name), super::short(value));
        }
        about.chars().filter(|letter| !letter.is_control()).collect()
    }

    /// What is wrong with it before anybody looks at what it means.
    pub(crate) fn check(&self) -> Answer<()> {
        if self.profile.is_none() && self.document.is_none() && self.compose.is_none() {
            let hint = "say `profile`, such as \"T0.H1.N2\", or send the text of a `document`";
            return Err(Problem::bad("nothing says what sandbox it should be").hint(hint));
        }
        if self.document.is_some() && self.compose.is_some() {
            return Err(Problem::bad("both a `document` and a `compose` file say what sandbox it should be"));
        }
        let short = [&self.profile, &self.origin, &self.image, &self.provider, &self.justification, &self.approval];
        for text in short.into_iter().flatten() {
            if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                return Err(Problem::bad("a text is too long, or has control characters in it"));
            }
        }
        let labels = self.labels.iter().flatten();
        let long = labels.clone().any(|(name, value)| name.len() > MAX_LABEL || value.len() > MAX_LABEL);
        if long || labels.count() > MAX_LABELS {
            return Err(Problem::bad(format!("at most {MAX_LABELS} labels of {MAX_LABEL} bytes")));
        }
        Ok(())
    }
}
