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

/// A Compose file: `file`, or `text` and `directory`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ComposeWish {
    /// Its absolute path on the server's machine.
    #[schema(max_length = 4096)]
    pub file: Option<String>,
    /// The text of it.
    #[schema(max_length = 1_048_576)]
    pub text: Option<String>,
    /// The absolute path of the directory that its paths are relative to.
    #[schema(max_length = 4096)]
    pub directory: Option<String>,
    /// The absolute path of a directory above that is all the task's: the file's paths may lead up to it. Without one they
    /// stay within the file's own.
    #[schema(max_length = 4096)]
    pub root: Option<String>,
    /// Variables that the sample says of itself, such as `SAMPLE_METADATA_ID`.
    pub variables: Option<BTreeMap<String, String>>,
}

impl ComposeWish {
    fn check(&self) -> Answer<()> {
        let ((Some(path), None, None) | (None, Some(_), Some(path))) = (&self.file, &self.text, &self.directory) else {
            return Err(Problem::bad("`compose` has a `file`, or a `text` and its `directory`"));
        };
        let is_odd =
            |path: &String| !path.starts_with('/') || path.len() > MAX_TEXT || path.chars().any(char::is_control);
        if is_odd(path) || self.root.as_ref().is_some_and(is_odd) {
            return Err(Problem::bad("a path in `compose` is not absolute, too long, or has control characters in it"));
        }
        let is_name = |name: &String| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(plain)
        };
        let variables = self.variables.iter().flatten();
        let is_fine =
            |(name, value): (&String, &String)| is_name(name) && value.len() <= MAX_VALUE && !value.contains('\0');
        if variables.clone().count() > MAX_VARIABLES || !variables.clone().all(is_fine) {
            return Err(Problem::bad(format!(
                "`compose.variables` has more than {MAX_VARIABLES} entries, a name that is none, or a value that is too long"
            )));
        }
        Ok(())
    }
}

/// A sandbox that a client wants: a `profile` or a `document`, and perhaps a Compose file for its containers. A profile
/// beside a document overrides the document's.
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
    /// A Compose file; its services are the sandbox's. They run on Docker.
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

/// Variables of a sample: as many as anybody names in a file, as long as a path or a paragraph.
const MAX_VARIABLES: usize = 256;
const MAX_NAME: usize = 256;
const MAX_VALUE: usize = 16 << 10;
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
        if self.profile.is_none() && self.document.is_none() {
            let hint = "say `profile`, such as \"T0.H1.N2\", or send the text of a `document`";
            return Err(Problem::bad("nothing says what sandbox it should be").hint(hint));
        }
        if let Some(compose) = &self.compose {
            compose.check()?;
            if self.image.is_some() {
                return Err(Problem::bad("`image` and `compose` exclude each other")
                    .hint("the Compose file says what its services' images are"));
            }
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
